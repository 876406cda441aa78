"""Retired lanes have no task, because they have been idle for a while.

The task, the memory channel and everything else a lane works with are gone. Its
:class:`~hookgw.lanes.lane_memory.LaneMemory` stays: the position that the lane had reached, because its last
settlements may not be on disk yet, and the last outcome, which is shown. Ten thousand retired lanes cost a
few MiB.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from itertools import islice

import trio

from hookgw.lanes.lane_memory import LaneMemory

RETIRED_LANES_GRAIN = 0.1
"""Seconds by which a lane may be forgotten late, so that one wake-up forgets many."""

FORGET_AT_ONCE = 500
"""The most lanes that are forgotten without a checkpoint, so that other tasks run in between."""


class RetiredLanes:
    """The retired lanes, in the order in which they are to be forgotten."""

    def __init__(self) -> None:
        self._memories: dict[str, LaneMemory] = {}
        self._timer = trio.CancelScope()

    def put(self, lane: str, memory: LaneMemory) -> None:
        """Retire a lane.

        Lanes are forgotten in the order in which they were retired: a lane with a late ``until`` also keeps
        the lanes that were retired after it.
        """
        self._memories[lane] = memory
        if self._timer.deadline > memory.until:
            self._timer.deadline = memory.until

    def take(self, lane: str) -> LaneMemory | None:
        return self._memories.pop(lane, None)

    def redirect(self, lane: str) -> None:
        self._memories[lane].redirected()

    def find(self, lane: str) -> LaneMemory | None:
        return self._memories.get(lane)

    def lanes(self) -> list[str]:
        return list(self._memories)

    async def wait_due(self, wait_settled: Callable[[], Awaitable[None]]) -> list[str]:
        """Wait until lanes are due, forget them, and return their keys.

        No checkpoint lies between forgetting lanes and the return, so the caller knows of every lane that is
        forgotten.

        Args:
            wait_settled: waits until all settlements are on disk. The next lane of a key that is forgotten
                before would read its last deliveries again.
        """
        await trio.lowlevel.checkpoint()
        while True:
            now = trio.current_time()
            first = islice(self._memories.items(), FORGET_AT_ONCE)
            if due := [lane for lane, memory in first if memory.until <= now]:
                await wait_settled()
                # A lane may have started again meanwhile.
                kept = self._memories
                return self.forget([lane for lane in due if lane in kept and kept[lane].until <= now])
            deadline = math.inf
            if self._memories:
                deadline = max(now + RETIRED_LANES_GRAIN, next(iter(self._memories.values())).until)
            with trio.CancelScope(deadline=deadline) as self._timer:
                await trio.sleep_forever()

    def forget(self, lanes: list[str]) -> list[str]:
        for lane in lanes:
            self._memories.pop(lane, None)
        return lanes
