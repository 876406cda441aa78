"""Locks by name. A lock exists only while somebody holds it or waits for it: names come from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import trio


class KeyedLocks:
    """One lock for each name, in the order of the calls.

    Args:
        most: how many may hold the lock of a name at a time.
    """

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._locks: dict[Hashable, trio.Semaphore] = {}

    @asynccontextmanager
    async def hold(self, name: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a name for the length of a block; wait until it is free."""
        lock = self._locks.setdefault(name, trio.Semaphore(self._most))
        try:
            async with lock:
                yield
        finally:
            if lock.value == self._most and self._locks.get(name) is lock:
                del self._locks[name]

    def __len__(self) -> int:
        """Return how many locks somebody holds."""
        return len(self._locks)

    def is_held(self, name: Hashable) -> bool:
        """Return whether anybody holds the lock of a name."""
        return name in self._locks
