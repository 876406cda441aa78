"""Parked lanes: lanes without a task, because they have been idle for a while.

The task, the memory channel and everything else a lane works with are gone. Its :class:`LaneMemory` stays:
the position that the lane had reached, because its last settlements may not be on disk yet; its last outcome,
which is shown; and its connection, ready for the next delivery. Ten thousand parked lanes cost a few MiB.
"""

from __future__ import annotations

import math
import select
from itertools import islice

import msgspec
import trio

from hookgw.delivery.http.connection import IdleConnection
from hookgw.models.deliveries import FIRST, Outcome, Position

GRAIN = 0.1
"""Seconds by which a lane may be forgotten late, so that one wake-up forgets many."""

FORGET_AT_ONCE = 500
"""The most lanes that are forgotten without a checkpoint, so that other tasks run in between."""

LOOK_EVERY = 5.0
"""Seconds between two looks for connections that receivers have closed."""

# Other systems than Linux lack POLLRDHUP: they report only a reset or a close in both directions.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class LaneMemory(msgspec.Struct, kw_only=True, gc=False):
    """The state of a lane that outlives its task.

    Attributes:
        until: when a parked lane is forgotten and its connection closed, by ``trio.current_time()``.
        last: the highest position that the lane has taken.
        streak: how many of its attempts in a row found the receiver unreachable.
        outcome, error: of its last attempt.
        connection: its open connection while the lane is parked; ``None`` if there is none.
    """

    until: float = 0.0
    last: Position = FIRST
    streak: int = 0
    outcome: Outcome | None = None
    error: str | None = None
    connection: IdleConnection | None = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close_nowait()


class ParkedLanes:
    """The parked lanes, in the order in which they are to be forgotten. It owns their connections."""

    def __init__(self) -> None:
        self._memories: dict[str, LaneMemory] = {}
        self._poll = select.poll()
        self._lane_of_file: dict[int, str] = {}
        self._look_at = 0.0
        self._timer = trio.CancelScope()

    def put(self, lane: str, memory: LaneMemory) -> None:
        """Park a lane.

        Lanes are forgotten in the order in which they are parked: a lane that is parked before another and
        remembered for longer keeps the other.
        """
        self._memories[lane] = memory
        if memory.connection is not None:
            self._poll.register(memory.connection.fileno, _CLOSED)
            self._lane_of_file[memory.connection.fileno] = lane
        if self._timer.deadline > memory.until or self._timer.deadline > self._look_at:
            self._timer.deadline = min(memory.until, self._look_at)

    def take(self, lane: str) -> LaneMemory | None:
        """Remove a lane, because it has something to do. The caller owns its connection."""
        memory = self._memories.pop(lane, None)
        if memory is not None:
            self._unwatch(memory)
        return memory

    def redirect(self, lane: str) -> None:
        """Close a lane's connection and reset its streak: its registration has another target."""
        memory = self._memories[lane]
        self._unwatch(memory)
        memory.close()
        memory.streak = 0

    def find(self, lane: str) -> LaneMemory | None:
        """Return the memory of a lane, if it is parked."""
        return self._memories.get(lane)

    def lanes(self) -> list[str]:
        """Return the keys of all parked lanes."""
        return list(self._memories)

    async def wait_due(self) -> list[str]:
        """Wait until lanes are due, forget them, and return their keys.

        Meanwhile connections that receivers have closed are closed. No checkpoint lies between forgetting
        lanes and the return, so no lane is forgotten without the caller's knowledge.
        """
        await trio.lowlevel.checkpoint()
        while True:
            now = trio.current_time()
            first = islice(self._memories.items(), FORGET_AT_ONCE)
            if due := [lane for lane, memory in first if memory.until <= now]:
                return self.forget(due)
            deadline = math.inf
            if self._memories:
                first_until = next(iter(self._memories.values())).until
                deadline = max(now + GRAIN, min(first_until, self._look_at))
            with trio.CancelScope(deadline=deadline) as self._timer:
                await trio.sleep_forever()
            now = trio.current_time()
            if now < self._look_at:
                continue
            # Without this, sockets in CLOSE_WAIT add up if many receivers close idle connections early.
            self._look_at = now + LOOK_EVERY
            for fileno, _ in self._poll.poll(0):
                memory = self._memories[self._lane_of_file[fileno]]
                self._unwatch(memory)
                memory.close()

    def forget(self, lanes: list[str]) -> list[str]:
        """Forget lanes and close their connections; return the same list."""
        for lane in lanes:
            memory = self.take(lane)
            if memory is not None:
                memory.close()
        return lanes

    def _unwatch(self, memory: LaneMemory) -> None:
        # Before the connection is closed or used: the system gives the number of a closed socket to the
        # next one.
        if memory.connection is not None:
            self._poll.unregister(memory.connection.fileno)
            del self._lane_of_file[memory.connection.fileno]
