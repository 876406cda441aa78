"""The schema of the data file, and the migrations of files of earlier versions.

``PRAGMA user_version`` holds the number of the schema. A new file gets :data:`SCHEMA`. A schema that was
released is never edited: a change is a further migration.

The cost of a commit is the number of pages it changes, so the indexes keep new entries together. Event ids
lead theirs, because most ids grow with time. What changes when a delivery is settled is only in partial
indexes that stay small, and the index over the whole history never changes. The index of the outbox holds
what is counted and searched there, so that a backlog is walked without its rows.

Times are whole microseconds since the epoch. Names that repeat in every row (instances, kinds, registrations,
lanes, the URLs of attempts) are stored once, in ``names``; rows have their numbers.

``attempts.url`` is the number of the URL that an attempt was sent to, without user and password, in the form
of :func:`~hookgw.store.sqlite.name_ids.of_url`. It is ``NULL`` for attempts that were not sent.

``attempts.heads`` has the head of a request that did not deliver, an empty line, and the headers of the
response to it. What is delivered has none: it takes one byte in a row.

``audit`` has a row for each change that somebody made. ``instance`` and ``instance_id`` say which instance it
concerns, by name, because entries outlast the instance, and by id, because a later instance may have the same
name. They are ``NULL`` for what concerns no instance. ``entry`` is a JSON object.

``events`` is the log, in the order of ``seq``. ``heard`` says how many deliveries an event got: with 0,
nobody wanted it, and its payload is kept all the same, or is empty if it was accepted with
``events.keep: wanted``. Whoever makes a delivery of an event later raises its ``heard`` in the same
commit: pruning takes events with 0 for unwanted.

``figures`` has a row for each step of time in which something happened, by who it happened to: the number of
the name of an instance, a registration or a tag, or 0 for the gateway. Their times are whole seconds.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import structlog

from hookgw.config.folders import sync_folder
from hookgw.config.service_manager import extended_start
from hookgw.kernel.errors import StartError
from hookgw.store.sqlite.leftovers import UNFINISHED, unfinished_copies
from hookgw.store.sqlite.new_file import give_name

logger = structlog.get_logger("hookgw.store")

APPLICATION_ID = 0x686B6777
"""``hkgw``: distinguishes a data file of ours from any other SQLite file."""

VERSION = 7
OLDEST_VERSION = 6
"""The oldest schema that is migrated."""

# Names the log, so that a cursor of another one is known; twelve digits.
_GENERATION = "lower(hex(randomblob(6)))"

# By time first: what is folded lies together, and what is old goes by ranges. See hookgw/store/figures.py.
FIGURES = (
    """CREATE TABLE figures (
        step INTEGER NOT NULL,
        at INTEGER NOT NULL,
        holder INTEGER NOT NULL,
        accepted INTEGER NOT NULL,
        delivered INTEGER NOT NULL,
        dead INTEGER NOT NULL,
        dropped INTEGER NOT NULL,
        more TEXT NOT NULL,
        PRIMARY KEY (step, at, holder)
    ) WITHOUT ROWID""",
    "CREATE TABLE figure_news (number INTEGER PRIMARY KEY, entries TEXT NOT NULL)",
)

SCHEMA: tuple[str, ...] = (
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
    # Events of which only the id is left, by age: see event_ids.py. With the size, to be counted.
    "CREATE INDEX remembered ON events (accepted_at, heard) WHERE heard < 0",
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
    # By registration first, so that its lanes are found without a list of them. The instance and the size are
    # in it to be counted.
    """CREATE INDEX outbox ON deliveries (registration, lane, position, instance, size)
    WHERE state = 'pending'""",
    # The deliveries that wait for their next attempt: at most one for each lane, a few more after a
    # re-partition.
    "CREATE INDEX waiting ON deliveries (registration) WHERE state = 'pending' AND next_at > 0",
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
        url INTEGER,
        heads TEXT,
        PRIMARY KEY (delivery, number)
    ) WITHOUT ROWID""",
    """CREATE TABLE shelves (
        shelf TEXT NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (shelf, key)
    ) WITHOUT ROWID""",
    "CREATE TABLE probe (only INTEGER PRIMARY KEY CHECK (only = 1), writes INTEGER NOT NULL)",
    # By time rather than by number: pruning goes by time, and lists are limited to a time. An index of rows
    # ends with their numbers, so entries of one moment are in order, too.
    """CREATE TABLE audit (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        instance TEXT,
        instance_id TEXT,
        action TEXT NOT NULL,
        entry TEXT NOT NULL
    )""",
    "CREATE INDEX audited ON audit (at)",
    "CREATE INDEX audited_instances ON audit (instance, at) WHERE instance IS NOT NULL",
    # The index of the log of events: see log.py. It is written behind the commits, in sorted runs: the
    # entries of one instance lie together in each, and a new run goes behind all others.
    """CREATE TABLE log (
        run INTEGER NOT NULL,
        instance INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        accepted_at INTEGER NOT NULL,
        chat INTEGER NOT NULL,
        sender INTEGER NOT NULL,
        message INTEGER NOT NULL,
        unwanted INTEGER NOT NULL,
        PRIMARY KEY (run, instance, seq)
    ) WITHOUT ROWID""",
    "CREATE TABLE log_runs (run INTEGER PRIMARY KEY, since INTEGER NOT NULL, until INTEGER NOT NULL)",
    "CREATE TABLE log_begins (instance INTEGER PRIMARY KEY, at INTEGER NOT NULL)",
    """CREATE TABLE log_state (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        generation TEXT NOT NULL,
        indexed INTEGER NOT NULL,
        is_whole INTEGER NOT NULL
    )""",
    f"INSERT INTO log_state VALUES (1, {_GENERATION}, 0, 0)",  # noqa: S608
    *FIGURES,
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a data file to the present schema; a file without tables gets all of it.

    A file of an earlier version is first copied beside itself, and the copy is kept. If the disk refuses, the
    file is as it was.
    """
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION_ID and (application or version or tables):
        raise StartError(
            f"The file {path} is a database of another program, not hookgw's.",
            "Set storage.path to another file.",
        )
    if version > VERSION:
        advice = "Install that version again, or set storage.path to another file."
        if (copy := path.with_name(f"{path.name}.schema-{VERSION}")).exists():
            advice = (
                f"Install that version again, or go back to before the upgrade: hookgw restore {copy} --force"
            )
        raise StartError(
            f"The data file {path} has schema {version}, and this hookgw knows schemas up to {VERSION}: a "
            "newer hookgw wrote it.",
            advice,
        )
    if version == 0:
        # In one transaction, as an upgrade: a process that is killed in the middle leaves the file as it was.
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
    elif OLDEST_VERSION <= version < VERSION:
        with extended_start():
            unfinished = _copy_beside(connection, path.resolve(), version)
            try:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    upgrade(connection)
            except BaseException:
                # The file is as it was. Without this, restarts on a full disk would pile up copies.
                unfinished.unlink()
                raise
            copy = _keep(unfinished)
            # The log has most of the file now. Folded later, it would hold up the first commits.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        logger.info(
            "data file migrated, the copy of the former file can be deleted once this version works",
            file=str(path),
            version=VERSION,
            copy=str(copy),
        )
    elif version < VERSION:
        raise StartError(
            f"The data file {path} has schema {version}, and this hookgw migrates from schema "
            f"{OLDEST_VERSION} and later.",
            f"Start a hookgw of schema {OLDEST_VERSION} with the file once, or set storage.path to another "
            "file.",
        )
    if version == VERSION:
        _keep_all(path)


def begin_generation(connection: sqlite3.Connection) -> None:
    """Refuse cursors of the log from now on: a backup takes the place of what they were made for."""
    connection.execute(f"UPDATE log_state SET generation = {_GENERATION}")  # noqa: S608


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring the tables of schema 6 to the present schema, in the caller's transaction."""
    connection.execute("ALTER TABLE attempts ADD COLUMN heads TEXT")
    for statement in FIGURES:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _copy_beside(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy the data file to ``<name>.schema-<version>.partial``; return its path."""
    # Of processes that were killed. A full copy each time would fill the disk.
    for former in unfinished_copies(path):
        former.unlink()
    partial = path.with_name(f"{path.name}.schema-{version}{UNFINISHED}")
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(sqlite3.connect(partial, isolation_level=None)) as target:
            target.execute("PRAGMA synchronous = OFF")  # it is synchronized once, below
            connection.backup(target)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)  # the name of the copy must be on disk before the file changes
    return partial


def _keep_all(path: Path) -> None:
    """Keep the copy for a process that was killed right after its migration was on disk."""
    for file in unfinished_copies(path.resolve()):
        if file.name.endswith(UNFINISHED):
            _keep(file)


def _keep(unfinished: Path) -> Path:
    """Give the copy of a finished migration its name, with a number if there is one already; return it."""
    name = unfinished.name.removesuffix(UNFINISHED)
    copy, number = unfinished.with_name(name), 1
    while True:
        try:
            give_name(unfinished, copy)
            break
        except FileExistsError:
            copy, number = unfinished.with_name(f"{name}.{number}"), number + 1
    sync_folder(copy.parent)
    return copy
