"""The master keys in the settings."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from hookgw.kernel.errors import StartError
from hookgw.kernel.masking import repr_without

if TYPE_CHECKING:
    from hookgw.config.settings import StorageSettings

logger = structlog.get_logger("hookgw.store")

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


def read_master_keys(settings: StorageSettings) -> MasterKeys:
    """Return the master keys, reading the key file if the settings name one.

    Raises:
        StartError: the file cannot be read or contains no key.
    """
    old = tuple(parse_master_key(text) for text in settings.old_master_keys if text)
    if settings.master_key_file:
        file = Path(settings.master_key_file)
        setting = f"storage.master_key_file: {file}"
        try:
            if file.stat().st_mode & stat.S_IROTH:
                # Not at the top: Windows lacks what it needs, and commands there use the rest of this file.
                from hookgw.config.file_permissions import way_to_hide

                logger.warning("others can read the master key", file=str(file), fix=way_to_hide(file))
            return MasterKeys(parse_master_key(file.read_text("ascii")), old)
        except OSError as error:
            raise StartError(f"{setting} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            # Also for a file that is not ASCII: UnicodeDecodeError is a ValueError.
            wanted = "write one line, the base64 of 32 bytes, as hookgw master-key prints it"
            raise StartError(f"{setting} contains no master key: {wanted}.") from error
    if settings.master_key and settings.master_key != CLEAR:
        return MasterKeys(parse_master_key(settings.master_key), old)
    return MasterKeys(None, old, unseal=settings.master_key == CLEAR)


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
