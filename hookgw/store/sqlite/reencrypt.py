"""Bring all records of the data file to the present master key, at start."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

from hookgw.config.master_keys import MasterKeys
from hookgw.store import reencrypt as keys_of_records
from hookgw.store.encryption import PREFIX, RecordCipher
from hookgw.store.reencrypt import CHECK_KEY, Convert, records_of
from hookgw.store.sqlite.database import sync_log

_KEYS_FOUND = f"""SELECT DISTINCT CASE WHEN CAST(substr(value, 1, {len(PREFIX) + 1}) AS TEXT) = '"{PREFIX}'
    THEN CAST(substr(value, 1, {len(PREFIX) + 17}) AS TEXT) END FROM shelves"""  # noqa: S608 - constants
_ADD_CHECK = "INSERT OR IGNORE INTO shelves VALUES ('values', ?, ?)"
_NEXT_PAGE = """SELECT shelf, key, value FROM shelves WHERE (shelf, key) > (?, ?)
    ORDER BY shelf, key LIMIT ?"""


def reencrypt(connection: sqlite3.Connection, keys: MasterKeys, path: Path) -> RecordCipher | None:
    """Encrypt all records with the present key, in one transaction, unless they are already.

    The former records are overwritten in the file, including their earlier versions. A process that is killed
    meanwhile leaves the records as they were, and the next start does it again.

    See :func:`hookgw.store.reencrypt.reencrypt`.

    Raises:
        sqlite3.Error: the disk refused; nothing was changed.
    """
    found = [row[0] for row in connection.execute(_KEYS_FOUND)]
    rewrite = partial(_rewrite, connection)
    return keys_of_records.reencrypt(found, keys, rewrite, kind="data file", file=str(path))


def _rewrite(connection: sqlite3.Connection, convert: Convert) -> None:
    # VACUUM first: it drops what earlier changes left in free pages. If the process dies between it and the
    # transaction, the next start does both again.
    (before,) = connection.execute("PRAGMA temp_store").fetchone()
    connection.execute("PRAGMA temp_store = FILE")  # it needs a copy of the whole data file
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute(f"PRAGMA temp_store = {before}")
    # The connection writes zeros over what it removes.
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_ADD_CHECK, (CHECK_KEY.encode(), b"true"))
        for shelf, key, value in records_of(connection, _NEXT_PAGE):
            converted = convert(shelf, key, value)
            connection.execute("REPLACE INTO shelves VALUES (?, ?, ?)", (shelf, key, converted))
    # The log still has the former pages: fold it and cut it off.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    sync_log(connection)
