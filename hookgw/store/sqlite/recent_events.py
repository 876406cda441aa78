"""The newest events, in memory, so that the index of the log does not read back what was just written."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from hookgw.store.log import INDEX_BYTES, INDEX_ROWS

EventRow: TypeAlias = tuple[Any, ...]
MOST_ROWS = 4 * INDEX_ROWS
MOST_BYTES = 2 * INDEX_BYTES

_seq_of = itemgetter(0)


class RecentEvents:
    """Rows of events as :func:`~hookgw.store.sqlite.append.append` writes them: all behind one place.

    With more than :data:`MOST_ROWS`, or payloads of :data:`MOST_BYTES`, it forgets all, and begins anew with
    the next commit. One thread adds rows, and another one takes them.
    """

    def __init__(self, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES) -> None:
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._lock = threading.Lock()
        self._rows: list[EventRow] = []
        self._size = 0
        # All events with higher numbers are here.
        self._begin: int | None = None

    def add(self, rows: Sequence[EventRow]) -> None:
        """Add what a commit has appended, with higher numbers than all before."""
        if not rows:
            return
        size = sum([len(row[6]) for row in rows])
        with self._lock:
            if len(self._rows) + len(rows) > self._most_rows or self._size + size > self._most_bytes:
                self._rows, self._size, self._begin = [], 0, None
                return
            if self._begin is None:
                self._begin = rows[0][0] - 1
            self._rows += rows
            self._size += size

    def take(self, after: int, rows: int) -> list[EventRow]:
        """Return the next events behind one, and forget those up to it; empty if some may not be here.

        An event that is returned may have been removed from the file meanwhile.
        """
        with self._lock:
            if self._begin is None or self._begin > after:
                return []
            done = bisect_right(self._rows, after, key=_seq_of)
            self._size -= sum([len(row[6]) for row in self._rows[:done]])
            del self._rows[:done]
            self._begin = after
            return self._rows[:rows]
