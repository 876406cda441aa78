"""Records encrypted with a master key, each bound to its place. No I/O.

AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits for each record. The place (shelf and key) is
associated data, so an encrypted record that was moved to another place does not decrypt.
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
"""The start of every encrypted record; the id of its key, ``:`` and the base64 of the rest follow."""
_NONCE_BYTES = 12
_ID_LENGTH = 16


class DecryptionFailed(ValueError):
    """An encrypted record cannot be decrypted; the message says why, as the end of a sentence."""


def key_id(key: bytes) -> str:
    """Return the name of a key in encrypted records: 16 hexadecimal digits that reveal nothing else."""
    return hmac.digest(key, b"hookgw master key id", hashlib.sha256).hex()[:_ID_LENGTH]


def encrypted_with(record: bytes | str) -> str | None:
    """Return the id of the key that a record is encrypted with; ``None`` for a record in the clear."""
    text = record.decode("ascii", "replace") if isinstance(record, bytes) else record
    text = text.removeprefix('"')
    return text.removeprefix(PREFIX)[:_ID_LENGTH] if text.startswith(PREFIX) else None


class RecordCipher:
    """Encrypts with one key of 32 bytes, and decrypts with that key and older ones."""

    def __init__(self, present: bytes, old: Sequence[bytes] = ()) -> None:
        self.id = key_id(present)
        self._ciphers = {key_id(key): _cipher(key) for key in (*old, present)}

    def encrypt(self, place: bytes, clear: bytes) -> str:
        """Encrypt a record, for the place where it is stored: it can be decrypted there only."""
        # SP 800-38D, section 8.3, allows 2**32 records of one key with random nonces: then one has repeated
        # with a probability of 2**-33. Only states of connectors change often: a thousand times a second for
        # 50 days until then. A rotated key starts anew.
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = self._ciphers[self.id].encrypt(nonce, clear, place)
        return f"{PREFIX}{self.id}:{base64.b64encode(nonce + encrypted).decode()}"

    def decrypt(self, place: bytes, record: str) -> bytes:
        """Decrypt a record.

        Raises:
            DecryptionFailed: it is in the clear, encrypted with an unknown key or for another place, or
                changed.
        """
        from cryptography.exceptions import InvalidTag

        found = encrypted_with(record)
        if found is None:
            raise DecryptionFailed("it is in the clear among encrypted records: hookgw did not write it")
        cipher = self._ciphers.get(found)
        if cipher is None:
            raise DecryptionFailed(f"it is encrypted with the master key {found}, which is not configured")
        try:
            content = base64.b64decode(record[len(PREFIX) + _ID_LENGTH + 1 :], validate=True)
            return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], place)
        except (InvalidTag, ValueError) as error:
            raise DecryptionFailed("it was changed, or moved from the place of another record") from error


def _cipher(key: bytes) -> AESGCM:
    # Imported with the first key: the import takes longer than the rest of the start without one.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
