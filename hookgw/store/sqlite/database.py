"""The data file: creating it, locking it, connections to it, and the meaning of its errors."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import structlog
import trio

from hookgw.config.file_permissions import first_trouble, shared_by_all
from hookgw.config.folders import make_folder
from hookgw.models.errors import StartError, StorageUnavailable
from hookgw.models.threads import SYSTEM_THREADS, Threads
from hookgw.store.records import DiskSpace
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

# To report a bug of ours as a full disk would hide it behind a message about space.
_BUG = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_SCHEMA}


class Connections(NamedTuple):
    """The connections to one data file, each used by one thread at a time.

    Attributes:
        writer: the only one that writes.
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


@contextmanager
def open_database(path: Path) -> Iterator[Connections]:
    """Lock, create and migrate a data file, and hold connections to it for the length of a block.

    A missing directory is created with mode 0700, a missing file with 0600. At the end the write-ahead log
    is folded into the file, the connections are closed, and the lock is released.

    Raises:
        StartError: the file is in use, damaged, not hookgw's, too old or too new, others can write to it, or
            it cannot be created or written. The message names the file and says what to do.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StartError(
            f"This Python has SQLite {sqlite3.sqlite_version}; hookgw needs {wanted} or newer.",
            "Use a Python that was built with a newer SQLite.",
        )
    with ExitStack() as stack:
        with start_errors(path):
            make_folder(path.parent)
            # SQLite and the lock follow a link, so the permissions of the file itself count.
            keep_private(path.resolve())
            # SQLite would create it with the modes of the umask.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            stack.enter_context(hold_lock(path.resolve()))
            writer = stack.enter_context(closing(_connect(path, cache_kib=32768)))
            migrate(writer, path)
            lanes, background, *lists = (
                stack.enter_context(closing(_connect(path, cache_kib=size, query_only=True)))
                for size in (8192, 4096, *[4096] * LIST_CONNECTIONS)
            )
            checkpoints = stack.enter_context(closing(_connect(path, cache_kib=64)))
        yield Connections(writer, lanes, tuple(lists), background, checkpoints)


@contextmanager
def hold_lock(database: Path) -> Iterator[None]:
    """Hold the lock of a data file for the length of a block: one process at a time.

    The lock is ``flock`` on a file beside the data file, ``<name>.lock``, which stays there. The kernel
    releases it with the process, so a process that died is no obstacle.

    Raises:
        StartError: another process holds it; the message names the file and the process.
        OSError: the lock file cannot be created.
    """
    path = database.with_name(database.name + ".lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StartError(
                f"The data file {database} is in use by another hookgw, process {holder} (it holds {path}).",
                "Stop that process, or set storage.path to another file.",
            ) from None
        # For the message above. The lock itself is the kernel's, whatever the file says.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


class Reader:
    """Connections that read, each one call at a time, in worker threads beside the commits.

    Callers take turns, so that long work in short calls holds nobody up for long.

    Args:
        path: the file, for messages.
        connections: for this reader alone. The caller closes them.
        threads: run the calls.
    """

    def __init__(
        self, path: Path, *connections: sqlite3.Connection, threads: Threads = SYSTEM_THREADS
    ) -> None:
        self._free = list(connections)
        self._path = path
        self._limiter = trio.CapacityLimiter(len(connections))
        self._threads = threads

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on a connection. Cancellation takes effect before or after it.

        Raises:
            StorageUnavailable: the disk refuses.
            Exception: from the function.
        """
        return await self._threads.run(partial(self._call, function), limiter=self._limiter)

    def _call(self, function: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._free.pop()  # there is one: the limiter lets in as many calls as connections
        try:
            with storage_errors(self._path):
                return function(connection)
        finally:
            self._free.append(connection)


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
    """Return how much can still be written to a data file.

    Raises:
        StorageUnavailable: the system does not say.
    """
    # The pages of the log count for SQLite as pages of the file.
    pages = connection.execute("PRAGMA freelist_count").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    used = connection.execute("PRAGMA page_count").fetchone()[0] * size
    try:
        # The file before the disk: what a checkpoint writes between the two is subtracted twice, not missed.
        unfolded = max(used - path.stat().st_size, 0)
        system = os.statvfs(path.resolve().parent)
    except OSError as error:
        raise StorageUnavailable(f"The disk of {path} cannot be examined: {error.strerror}.") from error
    free = system.f_bavail * system.f_frsize
    return DiskSpace(free=free, reusable=pages * size, used=used, unfolded=unfolded)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise errors of the disk as :class:`~hookgw.models.errors.StorageUnavailable`.

    Other errors of SQLite are bugs or bad values, and pass unchanged.
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
    """Return whether an error is one of the disk (full, read-only, locked, damaged), not a bug."""
    # The subclasses of DatabaseError say what the caller did wrong: IntegrityError, ProgrammingError, …
    if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _BUG


@contextmanager
def start_errors(path: Path, *, is_backup: bool = False) -> Iterator[None]:
    """Raise errors of the disk as :class:`~hookgw.models.errors.StartError`.

    Args:
        path: the file, for messages.
        is_backup: it is a backup that is read, and not the data file.
    """
    what = "backup" if is_backup else "data file"
    try:
        yield
    except OSError as error:
        raise StartError(
            f"The {what} {path} cannot be opened: {error.strerror} ({error.filename}).",
            "Make it readable for hookgw."
            if is_backup
            else "Make its directory writable for hookgw, or set storage.path to another file.",
        ) from error
    except sqlite3.Error as error:
        advice = (
            "Make the file readable for hookgw, and check that the disk has space."
            if is_backup
            else "Make the file and its directory writable for hookgw, and check that the disk has space."
        )
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            other = "Use another" if is_backup else "Replace it with a backup, or move it away to start anew"
            advice = f"It is damaged or not a data file. {other}."
        raise StartError(
            f"The {what} {path} cannot be used: {error} ({error.sqlite_errorname}).", advice
        ) from error


def keep_private(path: Path) -> None:
    """Refuse a data file or folder that others can write to; make a file readable by its owner only.

    Args:
        path: the data file itself, not a link to it. The file and the files beside it may be missing.

    Raises:
        StartError: others can write there; the message has the command that fixes it, or another place.
        OSError: a file cannot be examined or changed.
    """
    folder, name = (path, "hookgw.db") if path.is_dir() else (path.parent, path.name)
    if shared_by_all(folder):
        # As /tmp. A chmod there would take the folder away from everybody else.
        raise StartError(
            f"storage.path: others could change the data file: {folder} is a shared folder.",
            f"Put the data file into a folder of its own, such as {folder / 'hookgw' / name}.",
        )
    files = [path, *(path.with_name(path.name + suffix) for suffix in BESIDE)]
    trouble = first_trouble([path.parent, *files])
    if trouble is not None:
        raise StartError(f"storage.path: others could change the data file: {trouble}")
    for file in filter(Path.exists, files):
        status = file.stat()
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            file.chmod(0o600)
            logger.warning("file was readable by others, mode set to 0600", file=str(file))


def _connect(path: Path, *, cache_kib: int, query_only: bool = False) -> sqlite3.Connection:
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
        # What is deleted is overwritten in the pages that change anyway; see also erase.py.
        connection.execute("PRAGMA secure_delete = FAST")
        # A commit that folds the log takes ten times as long as others; see checkpoints.py.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_PAGES * 4096}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
