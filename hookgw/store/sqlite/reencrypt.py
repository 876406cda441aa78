"""Bring all records to the present master key, at start.

Either all records are in the clear, or all are encrypted. A record in the clear among encrypted ones was not
written by hookgw, and stops the start: otherwise somebody who can write to the file could plant a
registration.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import structlog

from hookgw.config.master_keys import MasterKeys
from hookgw.models.errors import StartError
from hookgw.store.encryption import PREFIX, DecryptionFailed, RecordCipher, encrypted_with, key_id
from hookgw.store.sqlite.shelves import place_of

logger = structlog.get_logger("hookgw.store")

# How many records are in memory at once.
PAGE = 500
# A value that exists from the first start with a key on: a file without records knows its key, too.
CHECK_KEY = "sealing.check"

_KEYS_FOUND = f"""SELECT DISTINCT CASE WHEN CAST(substr(value, 1, {len(PREFIX) + 1}) AS TEXT) = '"{PREFIX}'
    THEN CAST(substr(value, 1, {len(PREFIX) + 17}) AS TEXT) END FROM shelves"""  # noqa: S608 - constants
_ADD_CHECK = "INSERT OR IGNORE INTO shelves VALUES ('values', ?, ?)"
_NEXT_PAGE = """SELECT shelf, key, value FROM shelves WHERE (shelf, key) > (?, ?)
    ORDER BY shelf, key LIMIT ?"""


def reencrypt(connection: sqlite3.Connection, keys: MasterKeys, path: Path) -> RecordCipher | None:
    """Encrypt all records with the present key, in one transaction, unless they are already.

    The former records are overwritten in the file, including their earlier versions. A process that is killed
    meanwhile leaves the records as they were, and the next start does it again.

    Args:
        connection: the writing connection, in autocommit mode.
        keys: from the settings.
        path: the data file, for messages.

    Returns:
        The cipher for all further records; ``None`` if they are in the clear.

    Raises:
        StartError: a key is missing or wrong, or somebody else changed a record.
        sqlite3.Error: the disk refused; nothing was changed.
    """
    found = {row[0] and encrypted_with(row[0]) for row in connection.execute(_KEYS_FOUND)}
    configured = [key_id(key) for key in (keys.present, *keys.old) if key is not None]
    unknown = sorted(name for name in found if name and name not in configured)
    if unknown:
        problem = f"The data file {path} is encrypted with the master key {', '.join(unknown)}, and "
        if not configured:
            raise StartError(
                f"{problem}no master key is configured.",
                "Set storage.master_key (or HOOKGW_MASTER_KEY), or storage.master_key_file, to that key.",
            )
        raise StartError(
            f"{problem}storage.master_key, storage.master_key_file and storage.old_master_keys have only "
            f"{', '.join(configured)}.",
            "Add that key: under old_master_keys, to encrypt everything with a new one.",
        )
    if None in found and len(found) > 1:
        raise StartError(
            f"The data file {path} has records in the clear among encrypted ones: hookgw did not write them.",
            "Replace the file with a backup.",
        )
    if keys.present is None:
        if found - {None}:
            if not keys.unseal:
                raise StartError(
                    f"The data file {path} is encrypted, and storage.master_key is not set.",
                    "Set it, or storage.master_key_file. To store everything in the clear again, set "
                    "storage.master_key: clear.",
                )
            old = RecordCipher(keys.old[0], keys.old)
            _rewrite(connection, path, lambda place, value: old.decrypt(place, msgspec.json.decode(value)))
            logger.info("data file decrypted", file=str(path))
        return None
    cipher = RecordCipher(keys.present, keys.old)

    def convert(place: bytes, value: bytes) -> bytes:
        clear = cipher.decrypt(place, msgspec.json.decode(value)) if encrypted_with(value) else value
        return msgspec.json.encode(cipher.encrypt(place, clear))

    if found != {cipher.id}:
        _rewrite(connection, path, convert)
        logger.info("data file encrypted", file=str(path), key=cipher.id)
    if None in found:  # at the first start with a key; else somebody replaced the file with another one
        logger.warning("records were in the clear, encrypted now", file=str(path))
    return cipher


def _rewrite(connection: sqlite3.Connection, path: Path, convert: Callable[[bytes, bytes], bytes]) -> None:
    """Convert every record, by its place and value, in one transaction; leave no trace of the former ones."""
    # VACUUM first: it drops what earlier changes left in free pages. If the process dies between it and the
    # transaction, the next start does both again.
    with _pragma(connection, "temp_store", "FILE"):  # it needs a copy of the whole data file
        connection.execute("VACUUM")
    with _pragma(connection, "secure_delete", "ON"):  # SQLite writes zeros over what it removes
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(_ADD_CHECK, (CHECK_KEY.encode(), b"true"))
            for shelf, key, value in _records(connection):
                try:
                    converted = convert(place_of(shelf, key), bytes(value))
                except (DecryptionFailed, msgspec.DecodeError) as error:
                    raise StartError(
                        f"The data file {path} is damaged: on the shelf {shelf}, {key.decode()!r} cannot be "
                        f"decrypted ({error}).",
                        "Replace the file with a backup.",
                    ) from error
                connection.execute("REPLACE INTO shelves VALUES (?, ?, ?)", (shelf, key, converted))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    # The log still has the former pages: fold it and cut it off.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _records(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes, bytes]]:
    after: tuple[str, bytes] = ("", b"")
    while rows := connection.execute(_NEXT_PAGE, (*after, PAGE)).fetchall():
        yield from rows
        after = rows[-1][:2]


@contextmanager
def _pragma(connection: sqlite3.Connection, name: str, value: str) -> Iterator[None]:
    """Change a setting of the connection for the length of a block."""
    before = int(connection.execute(f"PRAGMA {name}").fetchone()[0])
    connection.execute(f"PRAGMA {name} = {value}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA {name} = {before}")
