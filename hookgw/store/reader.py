"""Connections that read, in worker threads beside the commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import trio

from hookgw.concurrency.light import in_task
from hookgw.concurrency.threads import Threads
from hookgw.kernel.errors import StorageUnavailable
from hookgw.store.commits.read_failures import ReadFailures

C = TypeVar("C")
"""A connection of an engine, as its statements use it."""
C_contra = TypeVar("C_contra", contravariant=True)
T = TypeVar("T")
P = ParamSpec("P")


class ConnectionReader(ABC, Generic[C]):
    """Lends connections to functions that read: each one to one call at a time.

    Callers take turns, so that long work in short calls holds nobody up for long.
    """

    def __init__(self, owned: Sequence[Any], failures: ReadFailures | None, threads: Threads) -> None:
        self._free = list(owned)
        self._failures = failures or ReadFailures()
        self._limiter = trio.CapacityLimiter(len(owned))
        self._threads = threads

    @abstractmethod
    def _call(self, one: Any, function: Callable[[C], T]) -> T:
        """Call a function with one of the connections, and translate the errors of the engine."""

    @staticmethod
    @abstractmethod
    def _is_unreadable(error: StorageUnavailable) -> bool:
        """Return whether the storage does not give back what was written to it."""

    async def run(self, function: Callable[[C], T]) -> T:
        """Run a function that only reads. Cancellation takes effect before or after it.

        Raises:
            StorageUnavailable: the storage refuses.
            Exception: from the function.
        """
        await in_task()
        with self._failures.noted(self._is_unreadable):
            return await self._threads.run(partial(self._lend, function), limiter=self._limiter)

    def bound(self, statement: Callable[Concatenate[C, P], T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return a statement as an async function, which runs it on one of the connections."""

        def read(*given: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
            return self.run(lambda connection: statement(connection, *given, **named))

        return read

    def _take(self) -> Any:
        return self._free.pop()  # there is one: the limiter lets in as many calls as connections

    def _lend(self, function: Callable[[C], T]) -> T:
        one = self._take()
        try:
            return self._call(one, function)
        finally:
            self._free.append(one)
