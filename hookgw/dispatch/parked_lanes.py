"""Parked lanes: lanes without a task, because they have had nothing to do for a moment.

The task, the memory channel and everything else a lane works with are gone. Its :class:`LaneMemory` stays:
the position it had reached, because its last settlements may not be on disk yet; what is shown of it; and its
connection, ready for the next delivery. Ten thousand parked lanes cost a few MiB.
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
"""Seconds by which a lane may be forgotten late, so that many are one piece of work."""

ENDED_AT_ONCE = 500
"""The most lanes forgotten in one piece of work. Other tasks have their turn between two pieces."""

LOOK_EVERY = 5.0
"""Seconds between two looks for connections that receivers have closed."""

# Elsewhere than on Linux only a reset or a full close of the connection is seen.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class LaneMemory(msgspec.Struct, kw_only=True, gc=False):
    """What a lane remembers from one task to the next.

    Attributes:
        until: when a parked lane is forgotten and its connection closed, by ``trio.current_time()``.
        last: the highest position that the lane has taken.
        streak: how many of its attempts in a row found the receiver unreachable.
        outcome, error: of its last attempt.
        connection: its open connection while it is parked; ``None`` if it has none.
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
        """Park a lane. A lane that is parked later must be forgotten later."""
        self._memories[lane] = memory
        if memory.connection is not None:
            self._poll.register(memory.connection.fileno, _CLOSED)
            self._lane_of_file[memory.connection.fileno] = lane
        if self._timer.deadline > memory.until or self._timer.deadline > self._look_at:
            self._timer.deadline = min(memory.until, self._look_at)

    def take(self, lane: str) -> LaneMemory | None:
        """Remove a lane, because it has something to do. Its connection belongs to the caller."""
        memory = self._memories.pop(lane, None)
        if memory is not None:
            self._unwatch(memory)
        return memory

    def redirect(self, lane: str) -> None:
        """The lane's registration has another target: close the connection, forget the former failures."""
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
        """Wait until lanes are due, close their connections, and return their keys.

        Connections that the receiver has closed are closed meanwhile.
        """
        await trio.lowlevel.checkpoint()
        while not (due := self.forget(self._due())):
            with trio.CancelScope(deadline=self._next_work()) as self._timer:
                await trio.sleep_forever()
            self._look()
        return due

    def forget(self, lanes: list[str]) -> list[str]:
        """Forget lanes and close their connections; return the same list."""
        for lane in lanes:
            memory = self.take(lane)
            if memory is not None:
                memory.close()
        return lanes

    def _next_work(self) -> float:
        first = next(iter(self._memories.values()), None)
        if first is None:
            return math.inf
        return max(trio.current_time() + GRAIN, min(first.until, self._look_at))

    def _due(self) -> list[str]:
        now = trio.current_time()
        return [lane for lane, memory in islice(self._memories.items(), ENDED_AT_ONCE) if memory.until <= now]

    def _look(self) -> None:
        # Without this, sockets in CLOSE_WAIT add up where many receivers close idle connections early.
        now = trio.current_time()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        for fileno, _ in self._poll.poll(0):
            memory = self._memories[self._lane_of_file[fileno]]
            self._unwatch(memory)
            memory.close()

    def _unwatch(self, memory: LaneMemory) -> None:
        if memory.connection is not None:
            self._poll.unregister(memory.connection.fileno)
            del self._lane_of_file[memory.connection.fileno]
