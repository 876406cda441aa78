"""Reads the records that have changed since a version."""

from __future__ import annotations

from functools import partial
from typing import Any

from psycopg import Connection

from hookgw.store.encryption import RecordCipher
from hookgw.store.fleet import DISABLED_WEBHOOK, RecordChanges
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.record_changes import VERSION, lock_records
from hookgw.store.postgresql.shelves import PostgresqlTable
from hookgw.store.shelves import Shelves

_KEPT = ("instances", "registrations", "sessions", "keys")
"""The shelves that each node keeps in memory, as fields of :class:`RecordChanges`."""


def read_changes(connection: Connection, since: int | None, cipher: RecordCipher | None) -> RecordChanges:
    """Return what has changed after a version.

    Args:
        since: the version; ``None`` for all records, whatever was known before.
    """
    if since is not None and one_row(connection, VERSION) == (since,):
        # Without the lock: who committed a change before this question had its version before it, too.
        return RecordChanges(since)
    found: dict[str, dict[str, Any]] = {shelf: {} for shelf in _KEPT}
    disabled: dict[str, str | None] = {}
    with connection.transaction():
        # With the lock, every change up to the version is there, or was undone.
        lock_records(connection, changes=False)
        (version,) = one_row(connection, VERSION)
        if since is None:
            rows = connection.execute("SELECT shelf, key FROM shelves")
        else:
            rows = connection.execute("SELECT shelf, key FROM record_changes WHERE version > %s", (since,))
        shelves = Shelves(partial(PostgresqlTable, connection), cipher)
        for shelf, raw_key in rows.fetchall():
            key = bytes(raw_key).decode()
            if shelf in found:
                found[shelf][key] = getattr(shelves, shelf).get(key)
            elif shelf == "values" and key.startswith(DISABLED_WEBHOOK):
                reason = shelves.values.get(key)
                disabled[key.removeprefix(DISABLED_WEBHOOK)] = reason if isinstance(reason, str) else None
    return RecordChanges(version, **found, disabled_webhooks=disabled, is_whole=since is None)
