"""The master keys, as the settings give them."""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from hookgw.config.settings import StorageSettings
from hookgw.models.errors import StartError
from hookgw.store.encryption import CLEAR, MasterKeys, parse_master_key

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
