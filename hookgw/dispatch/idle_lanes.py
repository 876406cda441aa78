"""When lanes that have nothing to do are sent to rest.

A lane is sent to rest when it had nothing to do for some time, or when too many others have nothing to do
either: to wake one costs about half a delivery, and ten thousand that stay awake would take 100 MiB.

One task watches the time for all of them: a timer for each lane would be set and cancelled again round nearly
every delivery of a lane that is not always busy, which costs more than all else of being idle.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Protocol

import trio

MOST = 1_000
"""How many lanes may be idle and awake, with some 10 KiB each."""

GRAIN = 0.1
"""Seconds by which a lane may be sent to rest late, so that many are one piece of work."""


class Parkable(Protocol):
    """What can be sent to rest: a lane."""

    def park(self) -> None:
        """Go to rest, if there still is nothing to do."""


class IdleLanes:
    """The lanes that have nothing to do, in the order in which that began.

    Args:
        seconds: for how long they may stay so.
        most: how many may be so at a time; where there are more, those go that have been so for longest.
    """

    def __init__(self, seconds: float, most: int = MOST) -> None:
        self._seconds = seconds
        self._most = most
        self._until: dict[Parkable, float] = {}
        self._timer = trio.CancelScope()

    def begin(self, lane: Parkable) -> float:
        """A lane has nothing to do from now on; gives the time, by ``trio.current_time()``."""
        now = trio.current_time()
        self._until[lane] = now + self._seconds
        if self._timer.deadline == math.inf:
            self._timer.deadline = now + self._seconds
        if len(self._until) > self._most:
            self._park(next(iter(self._until)))
        return now

    def end(self, lane: Parkable) -> None:
        """It has something to do, or ends."""
        self._until.pop(lane, None)

    async def run(self) -> None:
        """Send lanes to rest when their time has come, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._next_work()) as self._timer:
                await trio.sleep_forever()
            for lane in self._due(trio.current_time()):
                self._park(lane)

    def _park(self, lane: Parkable) -> None:
        del self._until[lane]
        lane.park()

    def _due(self, now: float) -> list[Parkable]:
        return [lane for lane, _ in takewhile(lambda item: item[1] <= now, self._until.items())]

    def _next_work(self) -> float:
        first = next(iter(self._until.values()), math.inf)
        return max(first, trio.current_time() + GRAIN)
