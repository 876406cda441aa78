"""Parked lanes: lanes without a task, because they have been idle for a while.

The task, the memory channel and everything else a lane works with are gone. Its :class:`LaneMemory` stays:
the position that the lane had reached, because its last settlements may not be on disk yet, and its last
outcome, which is shown. Ten thousand parked lanes cost a few MiB.
"""

from __future__ import annotations

import math
from itertools import islice

import msgspec
import trio

from hookgw.models.deliveries import FIRST, Outcome, Position

GRAIN = 0.1
"""Seconds by which a lane may be forgotten late, so that one wake-up forgets many."""

FORGET_AT_ONCE = 500
"""The most lanes that are forgotten without a checkpoint, so that other tasks run in between."""


class LaneMemory(msgspec.Struct, kw_only=True, gc=False):
    """The state of a lane that outlives its task.

    Attributes:
        until: when a parked lane is forgotten, by ``trio.current_time()``.
        last: the highest position that the lane has taken.
        streak: how many of its attempts in a row found the receiver unreachable.
        outcome, error: of its last attempt.
        tried, tried_since: the delivery whose attempts failed last, and when the first of them began.
        stuck: the delivery of which was reported that it holds the lane up.
    """

    until: float = 0.0
    last: Position = FIRST
    streak: int = 0
    outcome: Outcome | None = None
    error: str | None = None
    tried: int | None = None
    tried_since: float = 0.0
    stuck: int | None = None


class ParkedLanes:
    """The parked lanes, in the order in which they are to be forgotten."""

    def __init__(self) -> None:
        self._memories: dict[str, LaneMemory] = {}
        self._timer = trio.CancelScope()

    def put(self, lane: str, memory: LaneMemory) -> None:
        """Park a lane.

        Lanes are forgotten in the order in which they were parked: a lane with a late ``until`` also keeps
        the lanes that were parked after it.
        """
        self._memories[lane] = memory
        if self._timer.deadline > memory.until:
            self._timer.deadline = memory.until

    def take(self, lane: str) -> LaneMemory | None:
        """Remove a lane, because it has something to do."""
        return self._memories.pop(lane, None)

    def redirect(self, lane: str) -> None:
        """Reset a lane's streak: its registration has another target."""
        self._memories[lane].streak = 0

    def find(self, lane: str) -> LaneMemory | None:
        """Return the memory of a lane, if it is parked."""
        return self._memories.get(lane)

    def lanes(self) -> list[str]:
        """Return the keys of all parked lanes."""
        return list(self._memories)

    async def wait_due(self) -> list[str]:
        """Wait until lanes are due, forget them, and return their keys.

        No checkpoint lies between forgetting lanes and the return, so no lane is forgotten without the
        caller's knowledge.
        """
        await trio.lowlevel.checkpoint()
        while True:
            now = trio.current_time()
            first = islice(self._memories.items(), FORGET_AT_ONCE)
            if due := [lane for lane, memory in first if memory.until <= now]:
                return self.forget(due)
            deadline = math.inf
            if self._memories:
                deadline = max(now + GRAIN, next(iter(self._memories.values())).until)
            with trio.CancelScope(deadline=deadline) as self._timer:
                await trio.sleep_forever()

    def forget(self, lanes: list[str]) -> list[str]:
        """Forget lanes; return the same list."""
        for lane in lanes:
            self._memories.pop(lane, None)
        return lanes
