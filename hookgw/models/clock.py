"""Time as hookgw uses it.

Two readings, both in seconds since the Unix epoch. ``wall`` is what the machine says now: it goes
into timestamps that others read. ``steady`` is what it said at start plus the time that has passed
since, so it never jumps: every decision (retry when, expire what) is made on it, and an hour's jump
of the machine's clock neither retries early nor expires what is young.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

import trio

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", re.IGNORECASE | re.ASCII
)


class Clock:
    """Reads the time inside a Trio run.

    Args:
        wall: gives the machine's time in seconds since the epoch. Under Trio's mock clock pass
            nothing: the default follows the machine, and tests that need control give their own.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._offset = wall() - trio.current_time()

    def wall(self) -> float:
        """What the machine says now."""
        return self._wall()

    def steady(self) -> float:
        """The time by which decisions are made; it never jumps."""
        return trio.current_time() + self._offset

    def deadline(self, steady: float) -> float:
        """That time as a deadline for a cancel scope."""
        return steady - self._offset


def virtual_clock(start: float = 1_700_000_000.0) -> Clock:
    """A clock whose wall follows Trio's: under a mock clock both readings move together.

    ``start`` is what it says at Trio's time 0, where a mock clock begins.
    """
    return Clock(lambda: start + trio.current_time())


def rfc3339(seconds: float) -> str:
    """A time as RFC 3339 in UTC with milliseconds, cut and not rounded, and ``Z``.

    Raises:
        ValueError: the year is not one of 1 to 9999.
    """
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_to_the_second(whole)}.{micros // 1000:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(whole: int) -> str:
    """Many events share a second, and writing one out costs more than all else of an envelope."""
    return datetime.fromtimestamp(whole, UTC).replace(tzinfo=None).isoformat()


def parse_rfc3339(text: str) -> float:
    """The reverse of :func:`rfc3339`; any offset is taken, a missing one means UTC.

    With an offset the time can lie just outside of the years that :func:`rfc3339` writes.

    Raises:
        ValueError: the text is no RFC 3339 date-time.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is no RFC 3339 time such as 2026-11-20T12:00:00Z")
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
