"""The data file: making it, connecting to it, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import structlog

from hookgw.config.file_permissions import first_trouble
from hookgw.models.errors import StartError, StorageUnavailable
from hookgw.store.sqlite.lock import hold_lock
from hookgw.store.sqlite.migrations import migrate

logger = structlog.get_logger("hookgw.store")

OLDEST_SQLITE = (3, 38, 0)
"""The first with ``UPDATE … FROM``, ``RETURNING`` and the JSON functions always built in."""

BESIDE = ("-wal", "-shm", ".lock")
"""How the names of the files end that are kept beside a data file."""

WAL_PAGES = 4000
"""From how many pages on the write-ahead log is to begin anew: 16 MiB."""

_BUG = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_SCHEMA}


class Connections(NamedTuple):
    """The connections to one data file, each used by one thread at a time.

    Attributes:
        writer: the only one that writes.
        lanes: for the refills of lanes.
        queries: for everything else that reads, so that a long listing holds no lane up.
        checkpoints: folds the write-ahead log into the file, as no other connection does by itself.
    """

    writer: sqlite3.Connection
    lanes: sqlite3.Connection
    queries: sqlite3.Connection
    checkpoints: sqlite3.Connection


@contextmanager
def open_database(path: Path) -> Iterator[Connections]:
    """Lock, make and migrate a data file, and hold connections to it for the length of a block.

    A missing directory is made with mode 0700, a missing file with 0600; where others can write, the
    start is refused. At the end the write-ahead
    log is folded into the file, the connections are closed and the lock is given up.

    Raises:
        StartError: the file is in use, damaged, not hookgw's or too new, or it cannot be made or
            written; the message names it and says what to do.
    """
    _check_sqlite()
    with ExitStack() as stack:
        with start_errors(path):
            _make(path)
            stack.enter_context(hold_lock(path.resolve()))
            writer = stack.enter_context(closing(_connect(path, cache_kib=32768)))
            migrate(writer, path)
            lanes = stack.enter_context(closing(_connect_reader(path)))
            queries = stack.enter_context(closing(_connect_reader(path)))
            checkpoints = stack.enter_context(closing(_connect(path, cache_kib=64)))
        yield Connections(writer, lanes, queries, checkpoints)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise what the disk does to a block as :class:`~hookgw.models.errors.StorageUnavailable`.

    Other errors, which are bugs or bad values, pass.
    """
    try:
        yield
    except sqlite3.Error as error:
        if not is_disk_error(error):
            raise
        raise StorageUnavailable(
            f"The data file {path} cannot be used now: {error} ({error.sqlite_errorname})."
        ) from error


def is_disk_error(error: BaseException) -> bool:
    """Whether an error tells of the disk (full, read-only, locked, damaged), and not of a bug."""
    if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _BUG


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StartError(
            f"This Python has SQLite {sqlite3.sqlite_version}; hookgw needs {wanted} or newer.",
            "Use a Python that was built with a newer SQLite.",
        )


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_private(path.resolve())
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def keep_private(path: Path) -> None:
    """Refuse a data file, or its folder, that others can write to; let nobody else read the file.

    Args:
        path: the data file itself, no link to it. It and what SQLite and we keep beside it may be missing.

    Raises:
        StartError: others can write there; the message has the command that mends it.
        OSError: it cannot be looked at, or not changed.
    """
    files = [path, *(path.with_name(path.name + suffix) for suffix in BESIDE)]
    trouble = first_trouble([path.parent, *files])
    if trouble is not None:
        raise StartError(f"storage.path: others could change the data file: {trouble}")
    for file in filter(Path.exists, files):
        status = file.stat()
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            file.chmod(0o600)
            logger.warning("a file that others could read is ours alone now", file=str(file))


def _connect(path: Path, *, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=5
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_PAGES * 4096}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _connect_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path, cache_kib=8192)
    connection.execute("PRAGMA query_only = ON")
    return connection


@contextmanager
def start_errors(path: Path) -> Iterator[None]:
    """Raise what the disk does to a block as :class:`~hookgw.models.errors.StartError`."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"The data file {path} cannot be opened: {error.strerror} ({error.filename}).",
            "Make its directory writable for hookgw, or set storage.path to another file.",
        ) from error
    except sqlite3.Error as error:
        raise StartError(
            f"The data file {path} cannot be used: {error} ({error.sqlite_errorname}).", _advice(error)
        ) from error


def _advice(error: sqlite3.Error) -> str:
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if error.sqlite_errorcode & 0xFF in damaged:
        return "It is damaged or no data file: put a backup in its place, or move it away to start anew."
    return "Make the file and its directory writable for hookgw and see that the disk has space."
