"""One timer for the deadlines of all exchanges.

A separate ``trio.CancelScope`` per exchange costs a third of the whole exchange: Trio pushes and pops an
entry of its heap, although the deadline hardly ever expires. Here a deadline costs one dictionary entry, and
one task sleeps until the earliest deadline. An exchange whose deadline passes ends because its connection is
closed, which has to happen to that connection anyway.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

import trio

GRAIN = 0.01
"""Seconds by which a deadline may be late, so that deadlines close together share one wake-up."""


class Closable(Protocol):
    """A resource; closing it raises ``trio.ClosedResourceError`` in the tasks that wait on it."""

    def close_nowait(self) -> None:
        """Close at once. Idempotent."""


class Deadlines:
    """Enforces deadlines. :meth:`run` must be running while :meth:`until` is used."""

    def __init__(self) -> None:
        # A dict, not a heap: nearly every limit is removed before it expires, and removal must be cheap.
        self._limits: dict[_Limit, None] = {}
        self._timer: trio.CancelScope | None = None
        self._wakes_at = -math.inf

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Close each resource at its deadline, until cancelled. Start it with ``nursery.start``."""
        try:
            while True:
                # This scan visits every exchange in flight, so the timer never wakes more often than once a
                # GRAIN.
                earliest = min((limit.deadline for limit in self._limits), default=math.inf)
                self._wakes_at = max(earliest, trio.current_time() + GRAIN)
                with trio.CancelScope(deadline=self._wakes_at) as self._timer:
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
                    await trio.sleep_forever()
                now = trio.current_time()
                # Collect first: closing a resource may remove its limit from the dictionary.
                for limit in [limit for limit in self._limits if limit.deadline <= now]:
                    limit.expire()
        finally:
            self._timer = None

    def until(self, deadline: float, resource: Closable) -> AbstractContextManager[None]:
        """Return a context manager for a block that must end by a deadline.

        At the deadline ``resource`` is closed. The ``trio.ClosedResourceError`` that this raises in the block
        ends the block and is swallowed; every other error passes.

        Args:
            deadline: by ``trio.current_time()``. It may be :data:`GRAIN` seconds late.
            resource: what the block waits on. The caller keeps ownership.

        Raises:
            RuntimeError: on entry, if :meth:`run` is not running.
        """
        return _Limit(self, deadline, resource)

    def watch(self, limit: _Limit) -> None:
        if self._timer is None:
            raise RuntimeError("Nothing enforces these deadlines; start Deadlines.run first.")
        self._limits[limit] = None
        # Exchanges mostly have the same timeout, so a later exchange rarely has the earliest deadline: the
        # timer is almost never moved.
        if limit.deadline < self._wakes_at:
            self._timer.deadline = self._wakes_at = limit.deadline

    def unwatch(self, limit: _Limit) -> None:
        # The timer keeps its deadline: waking up once too often costs less than finding the next deadline
        # now.
        del self._limits[limit]


class _Limit:
    __slots__ = ("_deadlines", "_resource", "deadline", "expired")

    def __init__(self, deadlines: Deadlines, deadline: float, resource: Closable) -> None:
        self._deadlines = deadlines
        self._resource = resource
        self.deadline = deadline
        self.expired = False

    def __enter__(self) -> None:
        self._deadlines.watch(self)

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        self._deadlines.unwatch(self)
        # Without `expired`, another task that closes the connection would look like a timeout.
        return self.expired and kind is trio.ClosedResourceError

    def expire(self) -> None:
        self.expired = True
        # The block may take a while to end; an expired limit must not wake the timer again.
        self.deadline = math.inf
        self._resource.close_nowait()
