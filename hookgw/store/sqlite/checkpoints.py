"""Checkpoints: the write-ahead log is folded into the file beside the commits, not inside of them.

A commit that has to fold the log takes ten times as long as any other. So a connection of its own does it in
a thread of its own, while commits go on. It never catches up with them, and the log can only start over once
all of it is folded. So when the log has grown long, the writer folds the few pages that are new, between two
commits.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from functools import partial

import structlog
import trio

from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.kernel.errors import StorageUnavailable
from hookgw.store.sqlite.database import WAL_PAGES, DatabaseConnections, sync_log
from hookgw.store.sqlite.open_file import OpenFile, is_disk_error, is_locked

logger = structlog.get_logger("hookgw.store")

# The least time between two checkpoints, in seconds. What is written in that time bounds the work of a
# checkpoint, and so how long a commit waits for the same disk.
INTERVAL = 0.1
# If fewer pages than this (4 MiB) are written in an interval, the next checkpoint waits for up to so many
# intervals, until there may be as many: a page that each commit changes is then folded less often.
FOLD_PAGES = 1000
MOST_INTERVALS = 3
# How often, and for how many seconds each time, emptying the log waits for reads.
EMPTY_TRIES = 50
EMPTY_TIMEOUT = 0.05


class Checkpoints:
    """Folds the log after commits, for as long as :meth:`run` runs.

    Args:
        writing: held while the writing connection is used for a commit or by this.
        in_use: held by the thread that uses the writing connection.
    """

    def __init__(
        self,
        connections: DatabaseConnections,
        writing: trio.CapacityLimiter,
        in_use: threading.Lock,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._in_use = in_use
        self._connection = connections.checkpoints
        self._writer = connections.writer
        self._file = connections.file
        self._writing = writing
        self._threads = threads
        self._thread = trio.CapacityLimiter(1)
        self._written = trio.Event()
        self._is_refused = False

    def committed(self) -> None:
        self._written.set()

    async def empty(self) -> bool:
        """Empty the log, so that it has no earlier images of pages; return whether that succeeded.

        Commits wait for it, for :data:`EMPTY_TIMEOUT` at most each time, while reads are in the log. After
        :data:`EMPTY_TRIES` such times it gives up.
        """
        for _ in range(EMPTY_TRIES):
            await self._threads.run(partial(self._fold, self._connection), limiter=self._thread)
            if await self._threads.run(self._truncate, limiter=self._writing):
                return True
            await trio.sleep(INTERVAL)
        return False

    async def run(self) -> None:
        """Fold the log, at most once in :data:`INTERVAL` and at least once in :data:`MOST_INTERVALS` of them
        while there are commits, until cancelled.

        If the disk refuses, the log stays as it is, and a later commit starts the next attempt. The log
        grows, and nothing is lost.
        """
        intervals, former = 1.0, 0
        while True:
            await self._written.wait()
            self._written = trio.Event()
            pages = await self._threads.run(partial(self._fold, self._connection), limiter=self._thread)
            if pages >= WAL_PAGES:
                await self._threads.run(self._fold_rest, limiter=self._writing)
            # The log may have started over.
            new = pages - former if pages > former else pages
            former = pages
            intervals = min(max(intervals * FOLD_PAGES / max(new, 1), 1.0), MOST_INTERVALS)
            await trio.sleep(INTERVAL * intervals)

    def _truncate(self) -> bool:
        with self._in_use:
            return self._may_fold() and truncate(self._writer, self._file)

    def _fold_rest(self) -> None:
        with self._in_use:
            self._fold(self._writer)

    def _fold(self, connection: sqlite3.Connection) -> int:
        if not self._may_fold():
            return 0
        try:
            pages = fold(connection, self._file)
        except sqlite3.Error as error:
            if not is_disk_error(error):
                raise
            if not self._is_refused and not is_locked(error):
                self._is_refused = True
                logger.warning(
                    "the disk refuses to fold the write-ahead log into the data file: the log grows until it "
                    "does",
                    reason=f"{error} ({error.sqlite_errorname})",
                    file=str(self._file.path),
                )
            return 0
        if self._is_refused:
            self._is_refused = False
            logger.info("the write-ahead log is folded into the data file again", file=str(self._file.path))
        return pages

    def _may_fold(self) -> bool:
        """Whether the file is ours alone: another program may use one that was moved, with another log."""
        with suppress(StorageUnavailable):
            self._file.check_usable()
            self._file.check_commit(is_done=True)
            return True
        return False


def truncate(connection: sqlite3.Connection, file: OpenFile) -> bool:
    """Fold the log and make it empty, on disk, too; return whether no read was in the way."""
    usual = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {int(EMPTY_TIMEOUT * 1000)}").fetchall()
    try:
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        sync_log(connection)
    except OSError:
        return False
    except sqlite3.Error as error:
        file.note(error)
        if not is_disk_error(error):
            raise
        return False
    finally:
        file.note_folded()
        connection.execute(f"PRAGMA busy_timeout = {usual}").fetchall()
    return not is_busy


def fold(connection: sqlite3.Connection, file: OpenFile) -> int:
    """Fold what can be folded without waiting; return how many pages the log has.

    Raises:
        sqlite3.Error: the disk refuses, or another program holds the file.
    """
    try:
        # PASSIVE: the other modes wait for readers, and make the writer wait.
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error as error:
        file.note(error)
        raise
    finally:
        file.note_folded()
    return int(pages)
