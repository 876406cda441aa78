"""The master keys, and their form in the settings. No I/O."""

from __future__ import annotations

import base64
import os

import msgspec

from hookgw.kernel.masking import repr_without

# As storage.master_key: decrypt everything with the old keys and store it unencrypted. An empty key must not
# mean this, because a forgotten variable in the environment would decrypt the file.
CLEAR = "clear"
# AES-256.
KEY_BYTES = 32


class MasterKeys(msgspec.Struct, frozen=True):
    """The master keys of an installation.

    Attributes:
        present: encrypts all records; ``None`` for no encryption.
        old: decrypt records that were encrypted before.
        unseal: without a present key: store records unencrypted that the old keys decrypt.
    """

    present: bytes | None = None
    old: tuple[bytes, ...] = ()
    unseal: bool = False

    __repr__ = repr_without("present", "old")


def new_master_key() -> str:
    """Create a master key, in the form of the settings."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def parse_master_key(text: str) -> bytes:
    """Decode base64 of 32 bytes, in the standard or the URL-safe alphabet (RFC 4648, section 4 or 5).

    Raises:
        ValueError: the text is not that; the message is a sentence that does not repeat it.
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError("a master key is the base64 of 32 bytes: create one with hookgw master-key.")
    return key
