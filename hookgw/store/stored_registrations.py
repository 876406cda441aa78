"""What is registered and pending, read from outside of the gateway, also while one runs.

Nothing is changed.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hookgw.config.file_presence import is_there
from hookgw.config.master_keys import MasterKeys
from hookgw.config.settings import StorageSettings
from hookgw.kernel.errors import StorageUnavailable
from hookgw.records.registrations import Registration
from hookgw.store.encryption import RecordCipher, encrypted_with
from hookgw.store.engines import database_of
from hookgw.store.records import PendingChange
from hookgw.store.shelves import Shelves


class StoredRegistrations(NamedTuple):
    """The registrations of instances by id, and what is pending for them and for the configured ones."""

    registrations: dict[str, Registration]
    pending: PendingChange


_ONE = "SELECT value FROM shelves WHERE shelf = 'registrations' LIMIT 1"

NOTHING = StoredRegistrations({}, {})


def read_stored(settings: StorageSettings, keys: MasterKeys) -> StoredRegistrations:
    """Read the registrations and the counts of what is pending.

    Nothing if there is no storage yet, or one of another schema, which the next start migrates.

    Raises:
        StartError: the storage cannot be read.
        StorageUnavailable: a record cannot be decrypted with these keys, or is damaged.
    """
    if settings.engine == "sqlite":
        return _read_file(Path(settings.path), keys)
    return _read_database(settings, keys)


def _read_file(path: Path, keys: MasterKeys) -> StoredRegistrations:
    from hookgw.store.sqlite.backup import open_existing
    from hookgw.store.sqlite.database import start_errors
    from hookgw.store.sqlite.maintenance import read_schema
    from hookgw.store.sqlite.outbox import pending_counts
    from hookgw.store.sqlite.schema import VERSION
    from hookgw.store.sqlite.shelves import SqliteTable

    with start_errors(path):
        if not is_there(path) or not path.is_file() or not path.stat().st_size:
            return NOTHING
    with start_errors(path), closing(open_existing(path)) as connection:
        if read_schema(connection, path) != VERSION:
            return NOTHING
        connection.execute("BEGIN")  # one moment for all reads
        shelves = Shelves(
            partial(SqliteTable, connection), _cipher(keys, connection.execute(_ONE).fetchone())
        )
        return StoredRegistrations(shelves.registrations.load(), pending_counts(connection))


def _read_database(settings: StorageSettings, keys: MasterKeys) -> StoredRegistrations:
    server = database_of(settings.url, settings.schema)
    from hookgw.store.postgresql.outbox import pending_counts
    from hookgw.store.postgresql.schema import VERSION
    from hookgw.store.postgresql.shelves import PostgresqlTable
    from hookgw.store.postgresql.start_checks import start_errors

    with start_errors(server), closing(server.connect()) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if connection.execute("SELECT to_regclass('hookgw_schema')").fetchone() == (None,):
            return NOTHING
        if connection.execute("SELECT version FROM hookgw_schema").fetchone() != (VERSION,):
            return NOTHING
        record = connection.execute(_ONE).fetchone()
        shelves = Shelves(partial(PostgresqlTable, connection), _cipher(keys, record))
        return StoredRegistrations(shelves.registrations.load(), pending_counts(connection))


def _cipher(keys: MasterKeys, record: tuple[bytes] | None) -> RecordCipher | None:
    """Return what decrypts the records: as they are now, which the next start may change."""
    if record is None or encrypted_with(bytes(record[0])) is None:
        return None
    known = [key for key in (keys.present, *keys.old) if key is not None]
    if not known:
        raise StorageUnavailable.of(
            "storage.no_master_key", "The records are encrypted, and no master key is configured."
        )
    return RecordCipher(known[0], known[1:])
