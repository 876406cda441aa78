"""Sealing: records encrypted with a master key, each for its own place. No I/O.

AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits for each record. The place (shelf and key) goes
in as associated data, so a sealed record that is put in another one's place does not open. ``cryptography``
is imported with the first key: without one, nothing here costs anything.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX = "sealed:v1:"
"""What every sealed record begins with; the id of its key follows, ``:``, and the base64 of the rest."""
_NONCE_BYTES = 12
_ID_LENGTH = 16


class DecryptionFailed(ValueError):
    """A sealed record does not open; the message says why, as the end of a sentence."""


def key_id(key: bytes) -> str:
    """What a sealed record calls its key: 16 hexadecimal digits that say nothing else about it."""
    return hmac.digest(key, b"hookgw master key id", hashlib.sha256).hex()[:_ID_LENGTH]


def sealed_with(record: bytes | str) -> str | None:
    """The id of the key that a record is sealed with; ``None`` for a record in the clear."""
    text = record.decode("ascii", "replace") if isinstance(record, bytes) else record
    text = text.removeprefix('"')
    return text.removeprefix(PREFIX)[:_ID_LENGTH] if text.startswith(PREFIX) else None


class RecordCipher:
    """Seals with one key, and opens what that or an older one sealed.

    Args:
        present: the key that seals; 32 bytes, as every other.
        old: further keys that open.
    """

    def __init__(self, present: bytes, old: Sequence[bytes] = ()) -> None:
        self.id = key_id(present)
        self._ciphers = {key_id(key): _cipher(key) for key in (*old, present)}

    def seal(self, place: bytes, clear: bytes) -> str:
        """Encrypt a record.

        Args:
            place: where it is kept; it opens there alone.
            clear: any bytes.
        """
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self.id].encrypt(nonce, clear, place)
        return f"{PREFIX}{self.id}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, place: bytes, sealed: str) -> bytes:
        """Decrypt a record.

        Raises:
            DecryptionFailed: it is not sealed, sealed with an unknown key or for another place, or changed.
        """
        from cryptography.exceptions import InvalidTag

        found = sealed_with(sealed)
        if found is None:
            raise DecryptionFailed("it is in the clear where everything is sealed: hookgw did not write it")
        cipher = self._ciphers.get(found)
        if cipher is None:
            raise DecryptionFailed(f"it is sealed with the master key {found}, which is not given")
        try:
            content = base64.b64decode(sealed[len(PREFIX) + _ID_LENGTH + 1 :], validate=True)
            return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], place)
        except (InvalidTag, ValueError) as error:
            raise DecryptionFailed("its seal is broken: it was changed, or put in another's place") from error


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
