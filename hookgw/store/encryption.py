"""Sealing: records encrypted with a master key, each for its own place. No I/O.

AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits for each record. The place (shelf and key) goes
in as associated data, so a sealed record that is put in another one's place does not open. ``cryptography``
is imported with the first key: without one, nothing here costs anything.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hookgw.models.masking import repr_without

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX = "sealed:v1:"
"""What every sealed record begins with; the id of its key follows, ``:``, and the base64 of the rest."""
CLEAR = "clear"
"""What stands in the place of a key where everything that is sealed is to be in the clear again."""
KEY_BYTES = 32
_NONCE_BYTES = 12
_ID_LENGTH = 16


class SealBroken(ValueError):
    """A sealed record does not open; the message says why, as the end of a sentence."""


class MasterKeys(msgspec.Struct, frozen=True):
    """The keys that an installation is given.

    Attributes:
        present: seals everything; ``None`` where nothing is to be sealed.
        old: open what was sealed before.
        unseal: without a present key: write in the clear what the old ones open.
    """

    present: bytes | None = None
    old: tuple[bytes, ...] = ()
    unseal: bool = False

    __repr__ = repr_without("present", "old")


def new_master_key() -> str:
    """A fresh key, as the settings take it."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def parse_master_key(text: str) -> bytes:
    """The bytes of a key.

    Args:
        text: base64 (RFC 4648, section 4 or 5) of 32 bytes.

    Raises:
        ValueError: it is something else; the message is a sentence that does not repeat it.
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError("a master key is the base64 of 32 bytes: make one with hookgw master-key.")
    return key


def key_id(key: bytes) -> str:
    """What a sealed record calls its key: 16 hexadecimal digits that say nothing else about it."""
    return hmac.digest(key, b"hookgw master key id", hashlib.sha256).hex()[:_ID_LENGTH]


def sealed_with(record: bytes | str) -> str | None:
    """The id of the key that a record is sealed with; ``None`` for a record in the clear."""
    text = record.decode("ascii", "replace") if isinstance(record, bytes) else record
    text = text.removeprefix('"')
    return text.removeprefix(PREFIX)[:_ID_LENGTH] if text.startswith(PREFIX) else None


class Sealer:
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
            SealBroken: it is not sealed, sealed with an unknown key or for another place, or was changed.
        """
        from cryptography.exceptions import InvalidTag

        found = sealed_with(sealed)
        if found is None:
            raise SealBroken("it is in the clear where everything is sealed: hookgw did not write it")
        cipher = self._ciphers.get(found)
        if cipher is None:
            raise SealBroken(f"it is sealed with the master key {found}, which is not given")
        try:
            content = base64.b64decode(sealed[len(PREFIX) + _ID_LENGTH + 1 :], validate=True)
            return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], place)
        except (InvalidTag, ValueError) as error:
            raise SealBroken("its seal is broken: it was changed, or put in another's place") from error


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
