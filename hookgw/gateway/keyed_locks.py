"""Locks by name. A lock exists only while somebody holds it or waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class KeyedLocks:
    """One lock for each name, in the order of the calls."""

    def __init__(self) -> None:
        self._locks: dict[str, trio.Lock] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of a name for the length of a block; wait until nobody else holds it."""
        lock = self._locks.setdefault(name, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._locks.get(name) is lock:
                del self._locks[name]

    def is_held(self, name: str) -> bool:
        """Return whether :meth:`hold` would wait."""
        return name in self._locks
