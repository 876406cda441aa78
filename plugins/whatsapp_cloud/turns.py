"""The order in which requests arrived, for tasks that wait in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Turns:
    """Lets tasks act in the order in which they joined, whatever each does before its turn."""

    def __init__(self) -> None:
        self._queue: deque[trio.Event] = deque()

    @contextmanager
    def join(self) -> Iterator[trio.Event]:
        """Take a place for the block. Wait for the event before you act; the end of the block gives way."""
        turn = trio.Event()
        self._queue.append(turn)
        self._call_first()
        try:
            yield turn
        finally:
            # A task that was cancelled while it waited is not the first; the first one goes on undisturbed.
            self._queue.remove(turn)
            self._call_first()

    def _call_first(self) -> None:
        if self._queue:
            self._queue[0].set()
