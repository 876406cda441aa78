"""Backups: a consistent copy of the data file, made in steps by SQLite's online backup.

A step copies some pages. If another connection changes the source between two steps, SQLite starts the copy
over, so that a copy of a busy file would never end. There are two ways around that, and each has its place:

- The gateway copies with the connection that writes. If a commit then changes a page that was copied already,
  SQLite writes it to the copy, too, and nothing starts over. Steps and commits take turns, so a step must be
  short. The copy is the file at the moment of its last step, and the write-ahead log does not grow.
- Another process (``hookgw backup``) copies inside a read transaction. Commits do not wait for it, and the
  copy is the file at the beginning. Meanwhile the log cannot start over: it grows by what is written, and the
  copy is given up before the log takes more than the file does.
"""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import trio

from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.file_presence import is_there
from hookgw.config.folders import why_not_made
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, StorageUnavailable
from hookgw.kernel.sentences import Sentence
from hookgw.store.sqlite.database import start_errors
from hookgw.store.sqlite.file_lock import log_of, refuse_foreign_log
from hookgw.store.sqlite.log_index import index_of
from hookgw.store.sqlite.new_file import new_file
from hookgw.store.sqlite.open_file import is_disk_error
from hookgw.store.sqlite.schema import APPLICATION_ID

# How many pages one step copies: commits wait for it, about half a millisecond.
PAGES = 64
PAGE_BYTES = 4096
# After so many pages, the copy is synchronized, and the free space looked at. Without that, the system would
# write hundreds of MiB at some moment, and a commit would wait for all of them.
SYNC_PAGES = 2048
# The least rest between two steps, in seconds. A rest is as long as the step was, so that a copy takes at
# most half of the writer's time.
LEAST_REST = 0.001

MOST_LOG = 256 * 2**20
"""The bytes that the write-ahead log may have in any case while another process copies the file."""

Progress = Callable[[int, int], None]
"""Called with the pages that are copied, and all pages as far as known. Both may grow."""


# macOS has no fdatasync.
sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class OnlineBackup(Collaborator):
    """Copies the data file with the connection that writes. ``in_use`` is held by the thread that uses it."""

    _writer: sqlite3.Connection
    _in_use: threading.Lock
    _path: Path
    _threads: Threads = SYSTEM_THREADS

    def __post_init__(self) -> None:
        self._thread = trio.CapacityLimiter(1)

    async def back_up(self, file: Path, on_progress: Progress, *, min_free: int = 0) -> int:
        """See :meth:`hookgw.store.Backups.back_up`."""
        copy = partial(self._copy, file, on_progress, min_free)
        return await self._threads.run(copy, limiter=self._thread, uses_loop=True)

    def _copy(self, file: Path, on_progress: Progress, min_free: int) -> int:
        with (
            _errors(file),
            new_file(file) as partial_file,
            closing(Target(partial_file, self._path, min_free)) as target,
        ):
            with self._in_use:
                # Not the size of the file: the path may name another one.
                target.check_space(self._writer.execute("PRAGMA page_count").fetchone()[0])
            begun = 0.0

            def between(done: int, total: int) -> None:
                nonlocal begun
                # At once: a commit waits.
                self._in_use.release()
                took = time.perf_counter() - begun
                try:
                    self._threads.run_in_loop(partial(on_progress, done, total))
                    target.between(done, total)
                    self._threads.sleep(max(took, LEAST_REST))
                finally:
                    # Also if this was cancelled: SQLite uses the connection to end the copy, too.
                    self._in_use.acquire()
                    begun = time.perf_counter()

            with self._in_use:
                begun = time.perf_counter()
                target.copy(self._writer, between)
            return target.size()


def back_up_file(path: Path, file: Path, on_progress: Progress, *, min_free: int) -> int:
    """Copy a data file, whether or not a gateway uses it; return the bytes of the copy.

    Args:
        file: the copy, which must not exist.
        on_progress: see :data:`Progress`. What it raises ends the copy.
        min_free: as for :meth:`hookgw.store.Backups.back_up`.
    """
    with start_errors(path), closing(open_existing(path)) as source, ExitStack() as copy:
        # The first read begins the transaction: until its end, SQLite shows the file as it is now.
        source.execute("BEGIN")
        application, pages = source.execute(
            "SELECT application_id, page_count FROM pragma_application_id, pragma_page_count"
        ).fetchone()
        if application != APPLICATION_ID:
            raise StorageUnavailable.of(
                "storage.not_a_data_file", "The file {path} is not a data file of hookgw.", path=path
            )
        copy.enter_context(_errors(file))
        partial_file = copy.enter_context(new_file(file))
        target = copy.enter_context(closing(Target(partial_file, path, min_free)))
        target.check_space(pages)
        log, most = path.resolve().with_name(f"{path.resolve().name}-wal"), max(pages * PAGE_BYTES, MOST_LOG)
        begun = time.perf_counter()

        def between(done: int, total: int) -> None:
            nonlocal begun
            took = time.perf_counter() - begun
            on_progress(done, total)
            target.between(done, total)
            size = log.stat().st_size if log.exists() else 0
            if size > most:
                raise StorageUnavailable(
                    Sentence(
                        "backup.disk_too_slow",
                        "hookgw writes faster than the disk of {file} can copy: "
                        "{log} has grown to {size:,.0f} MiB.",
                        file=file,
                        log=log,
                        size=size / 2**20,
                    ),
                    Sentence(
                        "backup.use_faster_disk",
                        "Use a faster disk, or POST /storage/backup, which does not hold up the log.",
                    ),
                )
            # The gateway waits for the same disk.
            time.sleep(took)
            begun = time.perf_counter()

        target.copy(source, between)
        return target.size()


def open_existing(path: Path) -> sqlite3.Connection:
    """Open a data file for reading, also on a disk that is read-only; it is not created."""
    if not is_there(path):
        raise StorageUnavailable.of("storage.no_data_file", "There is no data file {path}.", path=path)
    # The last program that closes the file folds the log into it, also one that only reads.
    refuse_foreign_log(path)
    real = path.resolve()
    log, index = log_of(real), index_of(real)
    options = "mode=rw"
    # SQLite wants to write the index of the log. Nobody can write here, so nothing needs the index or locks.
    if os.statvfs(real.parent).f_flag & os.ST_RDONLY and not index.exists():
        has_log = log.exists() and log.stat().st_size
        options = "mode=ro&vfs=unix-none" if has_log else "immutable=1"
    connection = sqlite3.connect(f"{real.as_uri()}?{options}", uri=True, isolation_level=None, timeout=5)
    try:
        if "unix-none" in options:
            # The index is then in memory.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def check_space(folder: Path, needed: int, min_free: int = 0) -> None:
    """Raise ``StorageUnavailable`` if a disk has no room for so many bytes, beside those that stay free."""
    free = shutil.disk_usage(folder).free
    if free < needed + min_free:
        # Rounded apart: the two are never the same number.
        values = {"folder": folder, "free": free // 2**20, "needed": math.ceil((needed + min_free) / 2**20)}
        raise StorageUnavailable(
            Sentence(
                "backup.no_room_with_min_free",
                "The disk of {folder} has {free:,.0f} MiB free, and the copy needs {needed:,.0f} MiB with "
                "the storage.min_free that hookgw leaves free there.",
                **values,
            )
            if min_free
            else Sentence(
                "backup.no_room",
                "The disk of {folder} has {free:,.0f} MiB free, and the copy needs {needed:,.0f} MiB.",
                **values,
            )
        )


@contextmanager
def _errors(file: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise Conflict.of(
            "backup.name_taken",
            "There is a file {file} already. Choose another name: nothing is replaced.",
            file=file,
        ) from error
    except OSError as error:
        raise StorageUnavailable.of(
            "backup.not_written",
            "The backup {file} cannot be written: {reason}.",
            file=file,
            reason=why_not_made(file, error),
        ) from error
    except sqlite3.Error as error:
        if not is_disk_error(error):
            raise
        raise StorageUnavailable.of(
            "backup.not_written_by_sqlite",
            "The backup {file} cannot be made: {error} ({code}).",
            file=file,
            error=error,
            code=error.sqlite_errorname,
        ) from error


class Target:
    """The file that a copy goes to, empty at first. ``min_free`` bytes stay free if both are on one disk."""

    def __init__(self, file: Path, source: Path, min_free: int) -> None:
        self._file = file
        folder = file.parent
        is_same_disk = min_free and folder.stat().st_dev == source.resolve().stat().st_dev
        self._min_free = min_free if is_same_disk else 0
        self._synced = 0
        # Without locks, because nobody else knows the file: on some network disks, SQLite's would conflict
        # with that of new_file.
        self._connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?nolock=1", uri=True, isolation_level=None, check_same_thread=False
        )
        # A copy that is cut short is thrown away, so nothing in it needs a journal.
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)

    def copy(self, source: sqlite3.Connection, between: Progress) -> None:
        source.backup(
            self._connection,
            pages=PAGES,
            progress=lambda _, remaining, total: between(total - remaining, total),
        )

    def between(self, done: int, total: int) -> None:
        """Keep the copy on disk, and the disk free enough, while it grows."""
        if abs(done - self._synced) >= SYNC_PAGES:  # a copy that starts over has fewer pages again
            self._synced = done
            sync(self._descriptor)
            self.check_space(total - done)

    def check_space(self, pages: int) -> None:
        """Raise ``StorageUnavailable`` if the disk has no room for so many pages more."""
        check_space(self._file.parent, pages * PAGE_BYTES, self._min_free)

    def size(self) -> int:
        self._connection.close()
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        # The connection first: closing another descriptor of the file would drop its locks.
        self._connection.close()
        os.close(self._descriptor)
