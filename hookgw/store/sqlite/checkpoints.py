"""Checkpoints: the write-ahead log is folded into the file beside the commits, not inside of one.

A commit that has to fold the log takes ten times as long as any other. So a connection of its own does
it in a thread of its own, while commits go on. It never catches up with them, and the log can only
begin anew once all of it is folded. So when the log has grown long, the writer folds the few pages that
came meanwhile, between two commits.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import NamedTuple

import trio

from hookgw.store.sqlite.database import WAL_PAGES, is_disk_error

INTERVAL = 0.1
"""The least time between two checkpoints, in seconds. What is written in it bounds what a checkpoint has
to do, and so how long the disk is busy with it while a commit waits for the same disk."""


class Folded(NamedTuple):
    """What a checkpoint found: how many pages the log has, and how many of them are in the file."""

    pages: int
    done: int


class Checkpoints:
    """Folds the log after commits, for as long as :meth:`run` runs.

    Args:
        own: a connection for it alone. The caller closes it.
        writer: the writing connection.
        writing: held while the writing connection is used.
    """

    def __init__(
        self, own: sqlite3.Connection, writer: sqlite3.Connection, writing: trio.CapacityLimiter
    ) -> None:
        self._own = own
        self._writer = writer
        self._writing = writing
        self._thread = trio.CapacityLimiter(1)
        self._written = trio.Event()

    def committed(self) -> None:
        """A commit reached the disk."""
        self._written.set()

    async def run(self) -> None:
        """Fold the log, at most once in :data:`INTERVAL`, until cancelled.

        Where the disk refuses, the log stays as it is, and it is tried again after a later commit.
        """
        while True:
            await self._written.wait()
            self._written = trio.Event()
            folded = await trio.to_thread.run_sync(fold, self._own, limiter=self._thread)
            if folded.pages >= WAL_PAGES:
                await trio.to_thread.run_sync(partial(fold, self._writer), limiter=self._writing)
            await trio.sleep(INTERVAL)


def fold(connection: sqlite3.Connection) -> Folded:
    """Fold what can be folded without waiting for anybody. Where the disk refuses that is nothing."""
    try:
        _, pages, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error as error:
        if not is_disk_error(error):
            raise
        return Folded(0, 0)
    return Folded(pages, done)
