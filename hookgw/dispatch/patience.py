"""When lanes that have nothing to do are sent to rest.

One task does it for all of them: a timer for each lane would be set and cancelled again round nearly every
delivery of a lane that is not always busy, which costs more than all else of being idle.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Protocol

import trio

GRAIN = 0.1
"""Seconds by which a lane may be sent to rest late, so that many are one piece of work."""


class Idler(Protocol):
    """What can be sent to rest: a lane."""

    def dismiss(self) -> None:
        """Go to rest, if there still is nothing to do."""


class Patience:
    """The lanes that have nothing to do, in the order in which that began.

    Args:
        seconds: for how long they may stay so.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[Idler, float] = {}
        self._timer = trio.CancelScope()

    def begin(self, lane: Idler) -> float:
        """A lane has nothing to do from now on; gives the time, by ``trio.current_time()``."""
        now = trio.current_time()
        self._until[lane] = now + self._seconds
        if self._timer.deadline == math.inf:
            self._timer.deadline = now + self._seconds
        return now

    def end(self, lane: Idler) -> None:
        """It has something to do, or ends."""
        self._until.pop(lane, None)

    async def run(self) -> None:
        """Send lanes to rest when their time has come, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._next_work()) as self._timer:
                await trio.sleep_forever()
            for lane in self._due(trio.current_time()):
                del self._until[lane]
                lane.dismiss()

    def _due(self, now: float) -> list[Idler]:
        return [lane for lane, _ in takewhile(lambda item: item[1] <= now, self._until.items())]

    def _next_work(self) -> float:
        first = next(iter(self._until.values()), math.inf)
        return max(first, trio.current_time() + GRAIN)
