"""Lanes at rest: what is left of a lane that has had nothing to do for a moment.

The task, the memory channel and all else that a lane works with are gone by then. What stays is the
position up to which it had come, because what it settled last may still be on its way to the disk; what is
shown of it; and its connection, ready for the next delivery. Ten thousand lanes at rest cost a few MiB.
"""

from __future__ import annotations

import math
import select
from itertools import islice

import msgspec
import trio

from hookgw.delivery.http.connection import IdleConnection
from hookgw.models.deliveries import LaneState, LaneStatistics, Outcome

GRAIN = 0.1
"""Seconds by which a rest may end late, so that many that end close together are one piece of work."""

ENDED_AT_ONCE = 500
"""How many rests end in one piece of work at most; between two of them other tasks have their turn."""

LOOK_EVERY = 5.0
"""Seconds between two looks for receivers that have closed a connection at rest."""

_CLOSED = getattr(select, "POLLRDHUP", 0)  # elsewhere than on Linux only a reset or a full close is seen


class LaneMemory(msgspec.Struct, kw_only=True, gc=False):
    """What a lane remembers, and all that is left of it while it is at rest.

    Attributes:
        until: when the rest ends, by ``trio.current_time()``: the connection is closed, the lane forgotten.
        last: the highest position that the lane has taken.
        streak: how many of its attempts in a row found the receiver unreachable.
        outcome, error: of its last attempt.
        connection: its open connection while it is at rest; ``None`` where it has none.
    """

    until: float = 0.0
    last: int = 0
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
    """The lanes at rest, in the order in which their rests end. It owns their connections."""

    def __init__(self) -> None:
        self._pasts: dict[str, LaneMemory] = {}
        self._poll = select.poll()
        self._lanes: dict[int, str] = {}
        self._looks_at = 0.0
        self._timer = trio.CancelScope()

    def put(self, lane: str, past: LaneMemory) -> None:
        """Lay a lane to rest. Those that come later are to end later."""
        self._pasts[lane] = past
        if past.connection is not None:
            self._poll.register(past.connection.fileno, _CLOSED)
            self._lanes[past.connection.fileno] = lane
        if self._timer.deadline > past.until or self._timer.deadline > self._looks_at:
            self._timer.deadline = min(past.until, self._looks_at)

    def take(self, lane: str) -> LaneMemory | None:
        """End a lane's rest, because there is something to do; its connection belongs to the caller then."""
        past = self._pasts.pop(lane, None)
        if past is not None:
            self._unwatch(past)
        return past

    def statistics(self, lane: str) -> LaneStatistics | None:
        """A snapshot of a lane, if it is at rest."""
        past = self._pasts.get(lane)
        if past is None:
            return None
        return LaneStatistics(
            lane=lane, state=LaneState.IDLE, backlog=0, last_outcome=past.outcome, last_error=past.error
        )

    def lanes(self) -> list[str]:
        """Which lanes are at rest."""
        return list(self._pasts)

    async def wait_over(self) -> list[str]:
        """Wait until rests are over; closes their connections and gives their lanes.

        Meanwhile it closes those connections at rest that the receiver has closed.
        """
        await trio.lowlevel.checkpoint()
        while not (ended := self.end(self._over())):
            with trio.CancelScope(deadline=self._next_work()) as self._timer:
                await trio.sleep_forever()
            self._look()
        return ended

    def end(self, lanes: list[str]) -> list[str]:
        """Close the connections of these lanes and forget them; gives them back."""
        for lane in lanes:
            past = self.take(lane)
            if past is not None:
                past.close()
        return lanes

    def _next_work(self) -> float:
        first = next(iter(self._pasts.values()), None)
        return (
            math.inf if first is None else max(trio.current_time() + GRAIN, min(first.until, self._looks_at))
        )

    def _over(self) -> list[str]:
        now = trio.current_time()
        return [lane for lane, past in islice(self._pasts.items(), ENDED_AT_ONCE) if past.until <= now]

    def _look(self) -> None:
        """Close what the receivers have closed: where many do so, their sockets would add up."""
        now = trio.current_time()
        if now < self._looks_at:
            return
        self._looks_at = now + LOOK_EVERY
        for fileno, _ in self._poll.poll(0):
            past = self._pasts[self._lanes[fileno]]
            self._unwatch(past)
            past.close()

    def _unwatch(self, past: LaneMemory) -> None:
        if past.connection is not None:
            self._poll.unregister(past.connection.fileno)
            del self._lanes[past.connection.fileno]
