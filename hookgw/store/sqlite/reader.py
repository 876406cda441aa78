"""The reading side of the data file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from hookgw.store.sqlite.database import storage_errors

T = TypeVar("T")


class Reader:
    """One connection that reads, one call at a time, in worker threads.

    Args:
        connection: for it alone. The caller closes it.
        path: the file, for messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._limiter = trio.CapacityLimiter(1)

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the connection. Being cancelled takes effect before it or after it.

        Raises:
            StorageUnavailable: the disk refuses.
            Exception: what the function raised.
        """
        return await trio.to_thread.run_sync(partial(self._call, function), limiter=self._limiter)

    def _call(self, function: Callable[[sqlite3.Connection], T]) -> T:
        with storage_errors(self._path):
            return function(self._connection)
