"""One timer for the deadlines of all exchanges.

A ``trio.CancelScope`` of its own for each exchange costs a third of the whole exchange (its entry in
Trio's heap is pushed and popped again, although it hardly ever expires). Here an exchange that waits on
an open connection costs a dictionary entry, and one task sleeps until the earliest deadline that it has
seen. An exchange whose deadline passes is ended by closing its connection, which is what must happen to
that connection anyway.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

import trio

GRAIN = 0.01
"""Seconds by which a deadline may be late, so that many deadlines close together wake the task once."""


class Closable(Protocol):
    """What is ended by being closed: the tasks that wait on it then get ``trio.ClosedResourceError``."""

    def close_nowait(self) -> None:
        """Close at once. Idempotent."""


class Deadlines:
    """Watches deadlines. :meth:`run` must be running, in a nursery of its user, while it is used."""

    def __init__(self) -> None:
        self._open: dict[_Limit, None] = {}
        self._timer: trio.CancelScope | None = None
        self._wakes_at = -math.inf

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Close what is past its deadline. Runs until it is cancelled; start it with ``nursery.start``."""
        try:
            while True:
                self._wakes_at = self._next_wake()
                with trio.CancelScope(deadline=self._wakes_at) as self._timer:
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
                    await trio.sleep_forever()
                self._expire()
        finally:
            self._timer = None

    def until(self, deadline: float, resource: Closable) -> AbstractContextManager[None]:
        """A block that must be over by a deadline, by ``trio.current_time()``.

        At the deadline ``resource`` is closed; the ``trio.ClosedResourceError`` that this raises in the
        block ends the block, and goes no further.

        Raises:
            RuntimeError: on entry, where :meth:`run` is not running.
        """
        return _Limit(self, deadline, resource)

    def enter(self, limit: _Limit) -> None:
        """Watch a limit."""
        if self._timer is None:
            raise RuntimeError("nobody watches these deadlines: start Deadlines.run first")
        self._open[limit] = None
        if limit.deadline < self._wakes_at:
            self._timer.deadline = self._wakes_at = limit.deadline

    def leave(self, limit: _Limit) -> None:
        """Watch it no longer."""
        del self._open[limit]

    def _next_wake(self) -> float:
        earliest = min((limit.deadline for limit in self._open), default=math.inf)
        return max(earliest, trio.current_time() + GRAIN)

    def _expire(self) -> None:
        now = trio.current_time()
        for limit in [limit for limit in self._open if limit.deadline <= now and not limit.expired]:
            limit.expire()


class _Limit:
    __slots__ = ("_deadlines", "_resource", "deadline", "expired")

    def __init__(self, deadlines: Deadlines, deadline: float, resource: Closable) -> None:
        self._deadlines = deadlines
        self._resource = resource
        self.deadline = deadline
        self.expired = False

    def __enter__(self) -> None:
        self._deadlines.enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        self._deadlines.leave(self)
        return self.expired and kind is trio.ClosedResourceError

    def expire(self) -> None:
        self.expired = True
        self.deadline = math.inf
        self._resource.close_nowait()
