"""Checkpoints: the write-ahead log is folded into the file beside the commits, not inside of them.

A commit that has to fold the log takes ten times as long as any other. So a connection of its own does it in
a thread of its own, while commits go on. It never catches up with them, and the log can only start over once
all of it is folded. So when the log has grown long, the writer folds the few pages that are new, between two
commits.
"""

from __future__ import annotations

import sqlite3
import threading

import trio

from hookgw.store.sqlite.database import WAL_PAGES, is_disk_error

# The least time between two checkpoints, in seconds. What is written in that time bounds the work of a
# checkpoint, and so how long a commit waits for the same disk.
INTERVAL = 0.1


class Checkpoints:
    """Folds the log after commits, for as long as :meth:`run` runs.

    Args:
        connection: for checkpoints only. The caller closes it.
        writer: the writing connection.
        writing: held while the writing connection is used for a commit or by this.
        in_use: held by the thread that uses the writing connection.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        writer: sqlite3.Connection,
        writing: trio.CapacityLimiter,
        in_use: threading.Lock,
    ) -> None:
        self._in_use = in_use
        self._connection = connection
        self._writer = writer
        self._writing = writing
        self._thread = trio.CapacityLimiter(1)
        self._written = trio.Event()

    def committed(self) -> None:
        """Note that a commit reached the disk."""
        self._written.set()

    async def run(self) -> None:
        """Fold the log, at most once in :data:`INTERVAL`, until cancelled.

        If the disk refuses, the log stays as it is, and a later commit starts the next attempt.
        """
        while True:
            await self._written.wait()
            self._written = trio.Event()
            pages = await trio.to_thread.run_sync(fold, self._connection, limiter=self._thread)
            if pages >= WAL_PAGES:
                await trio.to_thread.run_sync(self._fold_rest, limiter=self._writing)
            await trio.sleep(INTERVAL)

    def _fold_rest(self) -> None:
        with self._in_use:
            fold(self._writer)


def fold(connection: sqlite3.Connection) -> int:
    """Fold what can be folded without waiting; return how many pages the log has."""
    try:
        # PASSIVE: the other modes wait for readers, and make the writer wait.
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error as error:
        if not is_disk_error(error):
            raise
        return 0
    return int(pages)
