"""The data file's schema, as numbered migrations.

``PRAGMA user_version`` holds the number of the newest one that was applied. Each runs in one
transaction with its number, so that a process killed in the middle finds the file as it was before.
A migration that was released is never edited: a change of the schema is a further one.

What a commit costs is the number of pages it changes, so the indexes keep new entries together: event
ids lead theirs because most ids grow with time, what changes when a delivery is settled is only in
partial indexes that stay small, and the index over the whole history never changes. The index of the
outbox holds what is counted and looked for there, so that a backlog is walked without its rows.

Times are whole microseconds since the epoch. Names that repeat in every row (instances, kinds,
registrations, lanes) are kept once, in ``names``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from hookgw.models.errors import StartError
from hookgw.models.masking import without_user

APPLICATION_ID = 0x686B6777
"""``hkgw``: how a data file of ours is told from any other SQLite file."""

Migration = Sequence[str]

MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE names (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            instance INTEGER NOT NULL,
            id TEXT NOT NULL,
            kind INTEGER NOT NULL,
            time INTEGER NOT NULL,
            accepted_at INTEGER NOT NULL,
            data BLOB NOT NULL,
            sender TEXT,
            server_url TEXT,
            heard INTEGER NOT NULL,
            UNIQUE (id, instance)
        )""",
        "CREATE INDEX unheard ON events (accepted_at) WHERE heard = 0",
        """CREATE TABLE deliveries (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            event INTEGER NOT NULL,
            instance INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            registration INTEGER NOT NULL,
            lane INTEGER NOT NULL,
            state TEXT NOT NULL,
            accepted_at INTEGER NOT NULL,
            size INTEGER NOT NULL,
            position INTEGER NOT NULL,
            queued_at INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            failures INTEGER NOT NULL,
            next_at INTEGER NOT NULL,
            finished_at INTEGER,
            reason TEXT
        )""",
        """CREATE INDEX outbox ON deliveries (lane, position, registration, size)
            WHERE state = 'pending'""",
        "CREATE INDEX deliveries_of_event ON deliveries (event)",
        "CREATE INDEX history ON deliveries (instance, seq, kind, accepted_at)",
        """CREATE INDEX undelivered ON deliveries (instance, state, seq, kind, accepted_at)
            WHERE state <> 'delivered'""",
        "CREATE INDEX finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL",
        "CREATE TABLE bodies (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        """CREATE TABLE attempts (
            delivery INTEGER NOT NULL,
            number INTEGER NOT NULL,
            at INTEGER NOT NULL,
            duration INTEGER NOT NULL,
            outcome TEXT NOT NULL,
            status INTEGER,
            error TEXT,
            answer TEXT NOT NULL,
            PRIMARY KEY (delivery, number)
        ) WITHOUT ROWID""",
        """CREATE TABLE shelves (
            shelf TEXT NOT NULL,
            key BLOB NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (shelf, key)
        ) WITHOUT ROWID""",
        "CREATE TABLE probe (only INTEGER PRIMARY KEY CHECK (only = 1), writes INTEGER NOT NULL)",
    ),
    (  # lanes are called by their URL without user and password
        """INSERT OR IGNORE INTO names (name)
            SELECT without_user(name) FROM names WHERE name LIKE 'http%://%@%'""",
        """UPDATE deliveries SET lane = new.number FROM names old, names new
            WHERE old.number = lane AND old.name LIKE 'http%://%@%'
            AND new.name = without_user(old.name) AND new.number <> old.number""",
        "DELETE FROM names WHERE name LIKE 'http%://%@%' AND without_user(name) <> name",
    ),
)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a data file to the newest schema; a file without tables gets all of it.

    Args:
        connection: in autocommit mode.
        path: the file, for messages.
        migrations: all that there are, the first one first.

    Raises:
        StartError: the file is not hookgw's, or a newer hookgw wrote it.
        sqlite3.Error: the disk refused; what was applied before stays, nothing else.
    """
    version = _version(connection, path)
    if version > len(migrations):
        raise StartError(
            f"The data file {path} has schema {version}, and this hookgw knows schemas up to "
            f"{len(migrations)}: a newer hookgw wrote it.",
            "Install that version again, or set storage.path to another file.",
        )
    connection.create_function("without_user", 1, without_user, deterministic=True)
    for number in range(version, len(migrations)):
        _apply(connection, migrations[number], number + 1)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION_ID and (application or version or tables):
        raise StartError(
            f"The file {path} is a database of another program, not hookgw's.",
            "Set storage.path to another file.",
        )
    return version


def _apply(connection: sqlite3.Connection, migration: Migration, number: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in migration:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
