"""Reads the master keys that the settings name."""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from hookgw.config.file_permissions import way_to_hide
from hookgw.config.master_keys import CLEAR, MasterKeys, parse_master_key
from hookgw.config.settings import StorageSettings
from hookgw.kernel.errors import StartError

logger = structlog.get_logger("hookgw.store")


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
