"""The two clocks of hookgw.

A clock has two readings, both in seconds since the Unix epoch. ``wall`` is the machine's time, for timestamps
that others read. ``steady`` is the machine's time at start plus the time that has passed since, so it never
jumps. Every decision (when to retry, what to expire) uses ``steady``: when the machine's clock jumps by an
hour, nothing is retried early and nothing expires early. What is stored of events and deliveries has steady
times, so "two hours ago" is counted back from the steady time, too, where it selects some of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

_STALL = 0.1
"""Seconds without a turn of the event loop that are not its usual work."""
_TURNS = 20
"""Turns of it in which thousands of sockets are read, and short requests answered."""


class Clock:
    """Reads the time inside a Trio run.

    Args:
        wall: returns the machine's time in seconds since the epoch. The default follows the machine even
            under Trio's mock clock.

    Attributes:
        trio_time: returns what ``trio.current_time()`` does, without its two steps to the clock of this run:
            each event reads it several times.
        offset: what makes a reading of ``trio_time`` a steady time.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self.trio_time = trio.lowlevel.current_clock().current_time
        # Trio's clock starts at an arbitrary number; the offset makes its readings seconds since the epoch.
        self.offset = wall() - self.trio_time()

    def wall(self) -> float:
        return self._wall()

    def steady(self) -> float:
        return self.trio_time() + self.offset

    def apart(self) -> float:
        """Return by how many seconds the machine's time is ahead of the steady one.

        It is 0 unless somebody has set the machine's clock since the start, or the machine has slept.
        """
        return self.wall() - self.steady()

    def deadline(self, steady: float) -> float:
        """Convert a steady time into a deadline for a cancel scope."""
        return steady - self.offset


async def let_arrive(late: float) -> None:
    """Let what has arrived come first, if somebody else's deadline is noticed late.

    Nothing ran meanwhile: the machine was frozen, or the event loop was busy. What came in time has not been
    read yet, and must not be called late. Behind SIGCONT, not even Trio has looked: it interrupts
    epoll_wait(2), and Python, whose own timeout is over, does not ask again (PEP 475).

    Args:
        late: seconds since the deadline.
    """
    if late > _STALL:
        for _ in range(_TURNS):
            await trio.lowlevel.checkpoint()


def virtual_clock(start: float = 1_700_000_000.0) -> Clock:
    """Return a clock with both readings on Trio's clock, for tests under a mock clock.

    Args:
        start: the reading at Trio's time 0, where a mock clock begins.
    """
    return Clock(lambda: start + trio.current_time())
