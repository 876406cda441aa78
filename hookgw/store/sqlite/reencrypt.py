"""Bringing the shelves under the present master key, at start.

The shelves are either all in the clear or all sealed: what is found in the clear among sealed records was not
written by hookgw, and stops the start.
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
from hookgw.store.encryption import PREFIX, DecryptionFailed, RecordCipher, key_id, sealed_with
from hookgw.store.sqlite.shelves import place_of

logger = structlog.get_logger("hookgw.store")

PAGE = 500
"""How many records are in memory at once."""
CHECK_KEY = "sealing.check"
"""A value that is there from the first start with a key on: an empty file knows its key too."""

_KEYS_FOUND = f"""SELECT DISTINCT CASE WHEN CAST(substr(value, 1, {len(PREFIX) + 1}) AS TEXT) = '"{PREFIX}'
    THEN CAST(substr(value, 1, {len(PREFIX) + 17}) AS TEXT) END FROM shelves"""  # noqa: S608 - constants
_ADD_CHECK = "INSERT OR IGNORE INTO shelves VALUES ('values', ?, ?)"
_NEXT_PAGE = """SELECT shelf, key, value FROM shelves WHERE (shelf, key) > (?, ?)
    ORDER BY shelf, key LIMIT ?"""

Convert = Callable[[bytes, bytes], bytes]
"""Gives the new value of a record, from its place and its value."""


def prepare_shelves(connection: sqlite3.Connection, keys: MasterKeys, path: Path) -> RecordCipher | None:
    """Seal what is not sealed with the present key, in one transaction.

    What was there before is overwritten in the file, also where earlier versions of a record lay. A process
    that is killed meanwhile leaves the shelves as they were, and the next start does it again.

    Args:
        connection: the writing one, in autocommit mode.
        keys: those that the settings give.
        path: the data file, for messages.

    Returns:
        What seals from now on; ``None`` where everything is in the clear.

    Raises:
        StartError: a key is missing or wrong, or a record was changed by somebody else.
        sqlite3.Error: the disk refused; nothing was changed.
    """
    found = {row[0] and sealed_with(row[0]) for row in connection.execute(_KEYS_FOUND)}
    _refuse_unknown_keys({name for name in found if name}, keys, path)
    if None in found and len(found) > 1:
        raise StartError(
            f"The data file {path} has records in the clear among sealed ones: hookgw did not write them.",
            "Put a backup in its place.",
        )
    if keys.present is None:
        if found - {None}:
            _unseal(connection, keys, path)
        return None
    sealer = RecordCipher(keys.present, keys.old)
    if found != {sealer.id}:
        _rewrite(connection, path, _sealing(sealer))
        logger.info("data file sealed", file=str(path), key=sealer.id)
    if None in found:  # at the first start with a key; else somebody put another file there
        logger.warning("what was in the clear is sealed now", file=str(path))
    return sealer


def _refuse_unknown_keys(found: set[str], keys: MasterKeys, path: Path) -> None:
    given = [key_id(key) for key in (keys.present, *keys.old) if key is not None]
    unknown = sorted(found - set(given))
    if not unknown:
        return
    problem = f"The data file {path} is sealed with the master key {', '.join(unknown)}, and "
    if not given:
        raise StartError(
            f"{problem}none is given.",
            "Set storage.master_key (or HOOKGW_MASTER_KEY), or storage.master_key_file, to that key.",
        )
    raise StartError(
        f"{problem}only {', '.join(given)} is given by storage.master_key, storage.master_key_file and "
        "storage.old_master_keys.",
        "Give that key there: under old_master_keys, if everything is to be sealed with a new one.",
    )


def _unseal(connection: sqlite3.Connection, keys: MasterKeys, path: Path) -> None:
    if not keys.unseal:
        raise StartError(
            f"The data file {path} is sealed, and no storage.master_key is given.",
            "Set it, or storage.master_key_file; or set storage.master_key: clear, to have everything in the "
            "clear again.",
        )
    opener = RecordCipher(keys.old[0], keys.old)
    _rewrite(connection, path, lambda place, value: opener.open(place, msgspec.json.decode(value)))
    logger.info("data file unsealed", file=str(path))


def _sealing(sealer: RecordCipher) -> Convert:
    def convert(place: bytes, value: bytes) -> bytes:
        clear = sealer.open(place, msgspec.json.decode(value)) if sealed_with(value) else value
        return msgspec.json.encode(sealer.seal(place, clear))

    return convert


def _rewrite(connection: sqlite3.Connection, path: Path, convert: Convert) -> None:
    """Convert every record in one transaction, and leave nothing of the former ones in the file.

    VACUUM first: it drops what earlier changes left in free pages. Where it was done and the transaction
    was not, the next start does both again.
    """
    with _pragma(connection, "temp_store", "FILE"):  # a copy of the whole data file
        connection.execute("VACUUM")
    with _pragma(connection, "secure_delete", "ON"):  # zeros over what is removed
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(_ADD_CHECK, (CHECK_KEY.encode(), b"true"))
            for shelf, key, value in _records(connection):
                changed = _converted(convert, shelf, key, value, path)
                connection.execute("REPLACE INTO shelves VALUES (?, ?, ?)", (shelf, key, changed))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _converted(convert: Convert, shelf: str, key: bytes, value: bytes, path: Path) -> bytes:
    try:
        return convert(place_of(shelf, key), bytes(value))
    except (DecryptionFailed, msgspec.DecodeError) as error:
        raise StartError(
            f"The data file {path} is damaged: on the shelf {shelf}, {key.decode()!r} cannot be opened "
            f"({error}).",
            "Put a backup in its place.",
        ) from error


def _records(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes, bytes]]:
    after: tuple[str, bytes] = ("", b"")
    while rows := connection.execute(_NEXT_PAGE, (*after, PAGE)).fetchall():
        yield from rows
        after = rows[-1][:2]


@contextmanager
def _pragma(connection: sqlite3.Connection, name: str, value: str) -> Iterator[None]:
    """Set one of SQLite's switches for the length of a block."""
    before = int(connection.execute(f"PRAGMA {name}").fetchone()[0])
    connection.execute(f"PRAGMA {name} = {value}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA {name} = {before}")
