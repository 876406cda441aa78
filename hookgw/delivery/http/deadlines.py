"""One timer for the deadlines of all exchanges.

A separate ``trio.CancelScope`` per exchange costs a third of the whole exchange: Trio pushes and pops an
entry of its heap, although the deadline hardly ever expires. Here a deadline costs one dictionary entry, and
one task sleeps until the earliest deadline. When an exchange's deadline passes, its connection is
interrupted: its exchange ends with the error of a passed deadline, and its owner closes it or keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import trio

from hookgw.concurrency.clock import let_arrive

DEADLINE_GRAIN = 0.01
"""Seconds by which a deadline may be late, so that deadlines close together share one wake-up."""


class Interruptible(Protocol):
    """A resource; interrupting it raises ``trio.ClosedResourceError`` in the tasks that wait on it."""

    def interrupt_nowait(self) -> None: ...


class Deadlines:
    """Enforces deadlines. :meth:`run` must be running while :meth:`watch` is used.

    Attributes:
        unwatch: forgets a resource. The timer keeps its deadline: waking up once too often costs less than
            finding the next deadline at once.
    """

    def __init__(self) -> None:
        # A dict, not a heap: nearly every deadline is removed before it passes, and removal must be cheap.
        self._deadlines: dict[Interruptible, float] = {}
        self.unwatch: Callable[[Interruptible], None] = self._deadlines.__delitem__
        self._timer: trio.CancelScope | None = None
        self._wakes_at = -math.inf

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Interrupt each resource at its deadline, until cancelled. Start it with ``nursery.start``."""
        try:
            while True:
                # This scan visits every exchange in flight, so the timer never wakes more often than once a
                # DEADLINE_GRAIN.
                earliest = min(self._deadlines.values(), default=math.inf)
                self._wakes_at = max(earliest, trio.current_time() + DEADLINE_GRAIN)
                with trio.CancelScope(deadline=self._wakes_at) as self._timer:
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
                    await trio.sleep_forever()
                now = trio.current_time()
                await let_arrive(now - self._wakes_at)
                # Collect first: interrupting a resource may remove its deadline from the dictionary.
                for resource in [one for one, deadline in self._deadlines.items() if deadline <= now]:
                    # Its task may take a while to end; what has expired must not wake the timer again.
                    self._deadlines[resource] = math.inf
                    resource.interrupt_nowait()
        finally:
            self._timer = None

    def watch(self, resource: Interruptible, deadline: float) -> None:
        """Interrupt a resource at a deadline, unless :meth:`unwatch` is called before.

        The caller keeps ownership. The deadline, by ``trio.current_time()``, may be :data:`DEADLINE_GRAIN`
        seconds late.

        Raises:
            RuntimeError: :meth:`run` is not running.
        """
        if self._timer is None:
            raise RuntimeError("Nothing enforces these deadlines; start Deadlines.run first.")
        self._deadlines[resource] = deadline
        # Exchanges mostly have the same timeout, so a later exchange rarely has the earliest deadline: the
        # timer is almost never moved.
        if deadline < self._wakes_at:
            self._timer.deadline = self._wakes_at = deadline
