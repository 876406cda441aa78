"""Locks by name. A lock exists only while a task holds it or waits for it: names come from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import trio

from hookgw.concurrency.light import in_task


class KeyedLocks:
    """One lock for each name, in the order of the calls, for at most ``most`` tasks at a time."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._locks: dict[Hashable, trio.Semaphore] = {}
        self._freed: dict[Hashable, trio.Event] = {}

    @asynccontextmanager
    async def hold(self, name: Hashable) -> AsyncIterator[None]:
        await in_task()
        lock = self._locks.setdefault(name, trio.Semaphore(self._most))
        try:
            async with lock:
                yield
        finally:
            if lock.value == self._most and self._locks.get(name) is lock:
                del self._locks[name]
                if name in self._freed:
                    self._freed.pop(name).set()

    async def free(self, name: Hashable) -> None:
        """Wait until nobody holds a lock or waits for it, without taking it."""
        await in_task()
        while name in self._locks:
            await self._freed.setdefault(name, trio.Event()).wait()

    def __len__(self) -> int:
        """Return how many locks somebody holds."""
        return len(self._locks)

    def is_held(self, name: Hashable) -> bool:
        return name in self._locks
