"""Time as hookgw uses it.

A clock has two readings, both in seconds since the Unix epoch. ``wall`` is the machine's time now; it goes
into timestamps that others read. ``steady`` is the machine's time at start plus the time that has passed
since, so it never jumps. Every decision (when to retry, what to expire) uses ``steady``: when the machine's
clock jumps by an hour, nothing is retried early and nothing expires early.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

import trio

# ``datetime.fromisoformat`` also accepts week dates, missing seconds and other ISO 8601 forms that
# RFC 3339, section 5.6, does not have.
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", re.IGNORECASE | re.ASCII
)


class Clock:
    """Reads the time inside a Trio run.

    Args:
        wall: returns the machine's time in seconds since the epoch. Tests that need control pass their own;
            the default follows the machine even under Trio's mock clock.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        # trio.current_time without its two steps to the clock of this run: each event reads it several times.
        self._trio_time = trio.lowlevel.current_clock().current_time
        # Trio's clock starts at an arbitrary number; the offset makes its readings seconds since the epoch.
        self._offset = wall() - self._trio_time()

    def wall(self) -> float:
        """Return the machine's time now."""
        return self._wall()

    def steady(self) -> float:
        """Return the time for decisions; it never jumps."""
        return self._trio_time() + self._offset

    def steady_at(self, time: float) -> float:
        """Convert a reading of ``trio.current_time()`` into a steady time."""
        return time + self._offset

    def deadline(self, steady: float) -> float:
        """Convert a steady time into a deadline for a cancel scope."""
        return steady - self._offset


def virtual_clock(start: float = 1_700_000_000.0) -> Clock:
    """Return a clock whose both readings follow Trio's clock, for tests under a mock clock.

    Args:
        start: the reading at Trio's time 0, where a mock clock begins.
    """
    return Clock(lambda: start + trio.current_time())


def rfc3339(seconds: float) -> str:
    """Format a time as RFC 3339 in UTC with ``Z``, truncated to milliseconds.

    Raises:
        ValueError: the year is not between 1 and 9999.
    """
    # Rounding to microseconds first undoes the float's error: 0.001 must not become .000.
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_to_the_second(whole)}.{micros // 1000:03d}Z"


# Many events share a second, and formatting the second costs more than the rest of an envelope.
@lru_cache(maxsize=64)
def _to_the_second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).replace(tzinfo=None).isoformat()


def parse_rfc3339(text: str) -> float:
    """Return the time in an RFC 3339 text, in seconds since the epoch.

    Any offset is accepted; without one the time is in UTC. With an offset, the result can lie just outside
    the years that :func:`rfc3339` can write.

    Raises:
        ValueError: the text is not an RFC 3339 date-time.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not an RFC 3339 time such as 2026-11-20T12:00:00Z")
    # RFC 3339, section 5.6: "t" and "z" may be lower case, which fromisoformat refuses.
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
