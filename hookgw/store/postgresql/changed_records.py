"""Reads the records that have changed since a version."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from psycopg import Connection

from hookgw.records.api_keys import Key
from hookgw.records.browser_sessions import BrowserSession
from hookgw.records.instances import Instance
from hookgw.records.registrations import Registration
from hookgw.store.encryption import RecordCipher
from hookgw.store.fleet import DISABLED_WEBHOOK, GLOBAL_KEYS, RecordChanges
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.record_changes import VERSION, lock_records
from hookgw.store.postgresql.shelves import PostgresqlTable
from hookgw.store.shelves import Shelves


def read_changes(connection: Connection, since: int | None, cipher: RecordCipher | None) -> RecordChanges:
    """Return what has changed after a version.

    Args:
        since: the version; ``None`` for all records, whatever was known before.
    """
    if since is not None and one_row(connection, VERSION) == (since,):
        # Without the lock: who committed a change before this question had its version before it, too.
        return RecordChanges(since)
    instances: dict[str, Instance | None] = {}
    registrations: dict[str, Registration | None] = {}
    sessions: dict[str, BrowserSession | None] = {}
    keys: dict[str, Key | None] = {}
    disabled: dict[str, str | None] = {}
    global_keys: Any = msgspec.UNSET
    with connection.transaction():
        # With the lock, every change up to the version is there, or was undone.
        lock_records(connection, changes=False)
        row = connection.execute(VERSION).fetchone()
        version: int = row[0] if row else since or 0
        if since is None:
            rows = connection.execute("SELECT shelf, key FROM shelves")
        else:
            rows = connection.execute("SELECT shelf, key FROM record_changes WHERE version > %s", (since,))
        shelves = Shelves(partial(PostgresqlTable, connection), cipher)
        for shelf, raw_key in rows.fetchall():
            key = bytes(raw_key).decode()
            match shelf:
                case "instances":
                    instances[key] = shelves.instances.get(key)
                case "registrations":
                    registrations[key] = shelves.registrations.get(key)
                case "sessions":
                    sessions[key] = shelves.sessions.get(key)
                case "keys":
                    keys[key] = shelves.keys.get(key)
                case "values" if key.startswith(DISABLED_WEBHOOK):
                    reason = shelves.values.get(key)
                    disabled[key.removeprefix(DISABLED_WEBHOOK)] = reason if isinstance(reason, str) else None
                case "values" if key == GLOBAL_KEYS:
                    global_keys = shelves.values.get(key)
                case _:
                    pass  # no node keeps it in memory
    return RecordChanges(
        version, instances, registrations, sessions, global_keys, disabled, since is None, keys
    )
