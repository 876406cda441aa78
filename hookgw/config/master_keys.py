"""The master keys, as the settings give them."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path

import msgspec
import structlog

from hookgw.config.settings import StorageSettings
from hookgw.models.errors import StartError
from hookgw.models.masking import repr_without

logger = structlog.get_logger("hookgw.store")


def read_master_keys(settings: StorageSettings) -> MasterKeys:
    """The keys that seal what is stored.

    Args:
        settings: checked by :mod:`hookgw.config.rules`; the key file is read here.

    Returns:
        No present key where the settings name none.

    Raises:
        StartError: the file cannot be read, or holds no key.
    """
    old = tuple(parse_master_key(text) for text in settings.old_master_keys if text)
    if settings.master_key_file:
        return MasterKeys(_key_in(Path(settings.master_key_file)), old)
    if settings.master_key and settings.master_key != CLEAR:
        return MasterKeys(parse_master_key(settings.master_key), old)
    return MasterKeys(None, old, unseal=settings.master_key == CLEAR)


def _key_in(file: Path) -> bytes:
    try:
        if file.stat().st_mode & stat.S_IROTH:
            logger.warning("others can read the master key", file=str(file), mend=f"chmod o-r {file}")
        return parse_master_key(file.read_text("ascii"))
    except OSError as error:
        raise StartError(f"storage.master_key_file: {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        wanted = "it must hold one line, the base64 of 32 bytes, as hookgw master-key prints it"
        raise StartError(f"storage.master_key_file: {file} holds no master key: {wanted}.") from error


CLEAR = "clear"
"""What stands in the place of a key where everything that is sealed is to be in the clear again."""


KEY_BYTES = 32


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
