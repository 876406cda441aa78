"""Parks lanes that have been idle for a while, or at once when too many others are idle.

Starting a retired lane costs about half a delivery; ten thousand idle lanes would take 100 MiB.
"""

from __future__ import annotations

import math
from typing import Protocol

import trio

MOST = 5_000
"""The most lanes that may be idle with a task. Each takes some 10 KiB; a start costs a third of an event."""

IDLE_GRAIN = 0.1
"""Seconds by which a lane may be retired late, so that one wake-up retires many."""


class IdleLane(Protocol):
    def retire(self) -> None: ...


class IdleLanes:
    """The idle lanes, the longest idle first.

    Args:
        most: how many lanes may be idle. If there are more, the longest idle ones are retired.
    """

    # One task watches the time for all lanes. A timer for each lane would be set and cancelled around
    # nearly every delivery of a lane that is not always busy: 25 µs per event, when it was like that.

    def __init__(self, seconds: float, most: int = MOST) -> None:
        self._seconds = seconds
        self._most = most
        self._until: dict[IdleLane, float] = {}
        self._timer = trio.CancelScope()
        self._is_timed = False
        self._now = trio.lowlevel.current_clock().current_time

    def begin(self, lane: IdleLane) -> float:
        """Note that a lane is idle from now on; return the current time of Trio's clock."""
        now = self._now()
        self._until[lane] = now + self._seconds
        if not self._is_timed:
            self._is_timed, self._timer.deadline = True, now + self._seconds
        if len(self._until) > self._most:
            self._retire(next(iter(self._until)))
        return now

    def end(self, lane: IdleLane) -> None:
        """Note that a lane has work again, or ended."""
        self._until.pop(lane, None)

    async def run(self) -> None:
        while True:
            # Waking up no sooner than IDLE_GRAIN from now retires many lanes at a time.
            first = next(iter(self._until.values()), math.inf)
            self._is_timed = first < math.inf
            with trio.CancelScope(deadline=max(first, trio.current_time() + IDLE_GRAIN)) as self._timer:
                await trio.sleep_forever()
            now = trio.current_time()
            due = [lane for lane, until in self._until.items() if until <= now]
            while due:  # which keeps no lane until the next round: it may be of a registration that is gone
                self._retire(due.pop())

    def _retire(self, lane: IdleLane) -> None:
        del self._until[lane]
        lane.retire()
