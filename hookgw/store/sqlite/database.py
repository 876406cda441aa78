"""The data file: creating it, locking it, connections to it, and the meaning of its errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import structlog

from hookgw.concurrency.threads import START_AGAIN, SYSTEM_THREADS, Threads, try_to_start
from hookgw.config.file_permissions import first_trouble, shared_by_all
from hookgw.config.folders import make_folder
from hookgw.kernel.errors import StartError, StorageUnavailable
from hookgw.store.commits.read_failures import ReadFailures
from hookgw.store.reader import ConnectionReader
from hookgw.store.records import DiskSpace
from hookgw.store.sqlite.file_lock import HeldLock, hold_lock, lock_whole, log_of, refuse_foreign_log
from hookgw.store.sqlite.leftovers import remove_leftovers, unfinished
from hookgw.store.sqlite.log_index import new_index
from hookgw.store.sqlite.open_file import (
    RESTORE,
    OpenFile,
    is_damage,
    is_locked,
    keep_until_exit,
)
from hookgw.store.sqlite.schema import migrate

T = TypeVar("T")
logger = structlog.get_logger("hookgw.store")

# The first with ``UPDATE … FROM``, ``RETURNING`` and the JSON functions always built in.
OLDEST_SQLITE = (3, 38, 0)

# How the names of the files that are kept beside a data file end.
BESIDE = ("-wal", "-shm", ".lock")

# How many lists are read at the same moment.
LIST_CONNECTIONS = 2

# The number of pages (16 MiB) from which the write-ahead log is to start over: reads search the whole log.
WAL_PAGES = 4000

# The bytes of the write-ahead log's file that stay when the log starts over. To write over them takes half of
# the time that a growing file takes: a file system writes a new size to its journal with each commit. The log
# starts over late by what is written in an interval of checkpoints, so up to half of the commits had grown a
# file that was cut to WAL_PAGES each time.
LOG_KEPT = 64 * 2**20

# For how many seconds a start looks for damage in a file that hookgw did not close itself.
CHECK_SECONDS = 2.0


class DatabaseConnections(NamedTuple):
    """The connections to one data file, each used by one thread at a time.

    Attributes:
        lanes: for the refills of lanes.
        lists: what clients ask for. They are several, so that no client waits for the disk of another.
        background: for all other reads, some of which walk through a whole index.
        checkpoints: folds the write-ahead log into the file; no other connection does.
    """

    writer: sqlite3.Connection
    lanes: sqlite3.Connection
    lists: tuple[sqlite3.Connection, ...]
    background: sqlite3.Connection
    checkpoints: sqlite3.Connection
    file: OpenFile


@contextmanager
def open_database(path: Path) -> Iterator[DatabaseConnections]:
    """Lock, create and migrate a data file, and hold connections to it for the length of a block.

    A missing directory is created with mode 0700, a missing file with 0600. At the end the write-ahead log
    is folded into the file, the connections are closed, and the lock is released. If the path names another
    file by then, nothing is folded, and all of it stays open until the process ends.

    A file that hookgw did not close itself is checked for :data:`CHECK_SECONDS`: after a kill, it is as it
    should be, but a copy of a file in use is not. If the time is not enough for all of it, the start goes on.

    Raises:
        StartError: the file is in use, damaged, not hookgw's, too old or too new, others can write to it, or
            it cannot be created or written. The message names the file and says what to do.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StartError(
            f"This Python has SQLite {sqlite3.sqlite_version}; hookgw needs {wanted} or newer.",
            "Use a Python with a newer SQLite, such as uv python install brings.",
        )
    with ExitStack() as stack:
        with start_errors(path):
            make_folder(path.parent)
            # SQLite and the lock follow a link, so the permissions of the file itself count. For links in a
            # circle, Path.resolve() has a RuntimeError before Python 3.13; here, the next look is an OSError.
            keep_private(Path(os.path.realpath(path)))
            if not path.exists() and (left := unfinished(path.resolve())):
                spare, command = left[0]
                raise StartError(
                    f"The data file {path} is not whole yet: hookgw {command} is writing {spare}, or was "
                    "killed.",
                    "Wait for its end, or run the same command again. To begin with an empty data file "
                    f"instead, remove {spare}.",
                )
            # SQLite would create it with the modes of the umask.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            lock = stack.enter_context(hold_lock(path.resolve()))
            # First: they may have what the rest needs of the disk.
            remove_leftovers(path.resolve())
            # Its callback comes after the connections are closed.
            closing_note = stack.enter_context(ExitStack())
            refuse_foreign_log(path)
            is_checked = lock.was_closed(path.stat()) and not log_of(path.resolve()).exists()
            lock.forget()
            stack.enter_context(new_index(path.resolve()))
            # An event of one of 1,000 instances, in a file of 2,000,000 deliveries (2 GiB), reads 3.7 pages
            # with this size, 4.9 with 2 MiB, 3.1 with 8 MiB and 2.6 with 32 MiB. A page takes about 1 µs, of
            # 100 µs that the event takes in the store; all sizes write as much.
            writer = stack.enter_context(closing(connect_file(path, cache_kib=4096)))
            if not is_checked:
                check_integrity(writer, path)
            migrate(writer, path)
            lanes, background, *lists = (
                stack.enter_context(closing(connect_file(path, cache_kib=size, query_only=True)))
                for size in (8192, 4096, *[4096] * LIST_CONNECTIONS)
            )
            checkpoints = stack.enter_context(closing(connect_file(path, cache_kib=64)))
            for connection in (lanes, background, *lists, checkpoints):
                # The first read opens the log, by name. Later, there could be another one.
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            file = OpenFile(path, lock.descriptor)
            log = os.open(log_of(file.real), os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, log)
            lock_whole(log)
            lock.note_open(path.stat(), os.fstat(log))
            closing_note.callback(_note_closed, lock, path)
        try:
            yield DatabaseConnections(writer, lanes, tuple(lists), background, checkpoints, file)
        finally:
            file.examine()
            if file.lost is not None:
                keep_until_exit(stack.pop_all())


def check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Look for damage in a data file for :data:`CHECK_SECONDS`."""
    timer = threading.Timer(CHECK_SECONDS, connection.interrupt)
    if not try_to_start(timer):
        logger.warning("the system refuses a thread; it is tried again", thread="check of the data file")
        while not try_to_start(timer):
            time.sleep(START_AGAIN)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        logger.info(
            "the data file was not closed by hookgw, and no damage was found in the time for a check; "
            "hookgw storage check looks at all of it",
            file=str(path),
            seconds=CHECK_SECONDS,
        )
        return
    finally:
        timer.cancel()
        timer.join()  # or it would interrupt what comes next
    if found != "ok":
        raise StartError(f"The data file {path} is damaged: {found}.", RESTORE)


def _note_closed(lock: HeldLock, path: Path) -> None:
    """Note how the file was left, unless another program has it open still."""
    with suppress(OSError):
        if not log_of(path.resolve()).exists():
            lock.note_closed(path.stat())


class Reader(ConnectionReader[sqlite3.Connection]):
    """Connections for this reader alone; the caller closes them. All that a call reads is of one moment."""

    def __init__(
        self,
        file: OpenFile,
        *connections: sqlite3.Connection,
        failures: ReadFailures | None = None,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        super().__init__(connections, failures, threads)
        self._file = file

    def _call(self, one: sqlite3.Connection, function: Callable[[sqlite3.Connection], T]) -> T:
        with self._file.errors():
            one.execute("BEGIN")
            try:
                return function(one)
            finally:
                if one.in_transaction:  # some errors have ended it
                    one.execute("COMMIT")

    @staticmethod
    def _is_unreadable(error: StorageUnavailable) -> bool:
        code = getattr(error.__cause__, "sqlite_errorcode", 0)
        return code & 0xFF == sqlite3.SQLITE_IOERR


def sync_log(connection: sqlite3.Connection) -> None:
    """Make sure that the write-ahead log has on disk the size that it has now.

    SQLite does not synchronize a log that it has cut off: what was in it could be back after a power cut. It
    would change nothing in the tables, but it may be what somebody wanted to be gone.

    Raises:
        OSError: the disk refuses.
    """
    file: str = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0]
    # SQLite has no locks on this file, which closing another descriptor would drop.
    descriptor = os.open(f"{file}-wal", os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def measure_disk_space(connection: sqlite3.Connection, path: Path) -> DiskSpace:
    # The pages of the log count for SQLite as pages of the file.
    pages = connection.execute("PRAGMA freelist_count").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    used = connection.execute("PRAGMA page_count").fetchone()[0] * size
    try:
        # The file before the disk: what a checkpoint writes between the two is subtracted twice, not missed.
        unfolded = max(used - path.stat().st_size, 0)
        system = os.statvfs(path.resolve().parent)
    except OSError as error:
        raise StorageUnavailable.of(
            "storage.disk_unknown",
            "The disk of {path} cannot be examined: {reason}.",
            path=path,
            reason=error.strerror,
        ) from error
    free = system.f_bavail * system.f_frsize
    return DiskSpace(free=free, reusable=pages * size, used=used, unfolded=unfolded)


@contextmanager
def start_errors(path: Path, *, is_backup: bool = False) -> Iterator[None]:
    """Raise errors of the disk as :class:`~hookgw.kernel.errors.StartError`."""
    what = "backup" if is_backup else "data file"
    try:
        yield
    except OSError as error:
        raise StartError(
            f"The {what} {path} cannot be opened: {error.strerror} ({error.filename or path}).",
            "Make it readable for hookgw."
            if is_backup
            else "Make its directory writable for hookgw, check that the disk has space, or set storage.path "
            "to another file.",
        ) from error
    except sqlite3.Error as error:
        if is_damage(error):
            raise StartError(
                f"The {what} {path} cannot be used: {error} ({error.sqlite_errorname}).",
                "It is damaged or not a data file. "
                + ("Use another." if is_backup else f"{RESTORE} Or move it away to start anew."),
            ) from error
        if is_locked(error):
            raise StartError(
                f"Another program holds the {what} {path}: {error} ({error.sqlite_errorname}).",
                "Close that program, such as a shell of sqlite3 with an open transaction, and try again.",
            ) from error
        # The second one: without room for the index of the log, which SQLite takes for an I/O error.
        if error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
            advice = "Its disk, or the quota of hookgw's user, is full: free some space."
        elif error.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHMMAP:
            advice = (
                "Connections cannot share memory on its file system, as on mergerfs with cache.files=off and "
                "some network file systems. Move it to another file system, or mount that one with a cache."
            )
        elif is_backup:
            advice = "Make the file readable for hookgw, and check that the disk has space."
        else:
            advice = "Make the file and its directory writable for hookgw, and check that the disk has space."
        raise StartError(
            f"The {what} {path} cannot be used: {error} ({error.sqlite_errorname}).", advice
        ) from error


def keep_private(path: Path) -> None:
    """Refuse what is not a file, and what others can write to; make a file readable by its owner only.

    Args:
        path: the data file itself, not a link to it. The file and the files beside it may be missing.
    """
    folder, name = (path, "hookgw.db") if path.is_dir() else (path.parent, path.name)
    if shared_by_all(folder):
        # As /tmp. A chmod there would take the folder away from everybody else.
        raise StartError(
            f"storage.path: others could change the data file: {folder} is a shared folder.",
            f"Put the data file into a folder of its own, such as {folder / 'hookgw' / name}.",
        )
    if path.is_dir():
        raise StartError(f"storage.path: {path} is a folder.", f"Name a file in it, such as {path / name}.")
    if path.exists() and not path.is_file():
        raise StartError(f"storage.path: {path} is not a regular file.", "Name another file.")
    files = [path, *(path.with_name(path.name + suffix) for suffix in BESIDE)]
    trouble = first_trouble([path.parent, *files])
    if trouble is not None:
        raise StartError(f"storage.path: others could change the data file: {trouble}")
    for file in filter(Path.exists, files):
        status = file.stat()
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            # File systems without modes refuse it, or do nothing.
            with suppress(OSError):
                file.chmod(0o600)
            if file.stat().st_mode & 0o077:
                logger.warning("others can read the file, and its file system keeps no modes", file=str(file))
            else:
                logger.warning("file was readable by others, mode set to 0600", file=str(file))


def connect_file(path: Path, *, cache_kib: int, query_only: bool = False) -> sqlite3.Connection:
    # The calls come from changing worker threads, but one at a time. Bulk statements exist in ten sizes each:
    # Python's default of 128 prepared statements could be too few.
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=5
    )
    try:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        if query_only:
            connection.execute("PRAGMA query_only = ON")
            return connection  # the rest is about writing
        # Readers go on beside the writer, and a commit is one write at the end of one file.
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL would lose the newest commits in a power cut, which producers were told are stored.
        connection.execute("PRAGMA synchronous = FULL")
        # What is deleted is overwritten, also in pages that become free. FAST would leave those as they are,
        # and no later erasure would find them: every second payload of 300 bytes was still there. See
        # settle.py for what is left to do, and docs/operations.md for what this costs.
        connection.execute("PRAGMA secure_delete = ON")
        # A commit that folds the log takes ten times as long as others; see checkpoints.py.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
