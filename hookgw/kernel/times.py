"""RFC 3339, the form in which hookgw writes and reads times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

# ``datetime.fromisoformat`` also accepts week dates and other ISO 8601 forms that RFC 3339, section 5.6, does
# not have. Nor has it a minute without seconds, but Java writes whole minutes so.
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", re.IGNORECASE | re.ASCII
)
# A plus sign in a query that is not escaped arrives as a space.
_LOST_PLUS = re.compile(r" (?=\d\d:\d\d$)")


YEAR_10000 = 253_402_300_800.0
"""The first moment that RFC 3339 cannot express, in seconds since the epoch."""


def clamp_time(seconds: float) -> float:
    """Return the nearest time from 1970 to 9999, for what is asked of all that was, or for ever."""
    return min(max(seconds, 0.0), YEAR_10000 - 1)


def rfc3339(seconds: float) -> str:
    """Format a time as RFC 3339 in UTC with ``Z``, truncated to milliseconds.

    Raises:
        ValueError: the year is not between 1 and 9999.
    """
    # Rounding to microseconds first undoes the float's error: 0.001 must not become .000.
    millis = round(seconds * 1_000_000) // 1000
    return f"{_to_the_second(millis // 1000)}.{millis % 1000:03d}Z"


# Many events share a second, and formatting the second costs more than the rest of an envelope.
@lru_cache(maxsize=64)
def _to_the_second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).replace(tzinfo=None).isoformat()


def parse_rfc3339(text: str) -> float:
    """Return the time in an RFC 3339 text, in seconds since the epoch.

    Any offset is accepted; without one the time is in UTC. A whole minute needs no seconds. With an offset,
    the result can lie just outside the years that :func:`rfc3339` can write.

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


def time_of_query(text: str) -> str:
    """Return the text of a time in a query, with the plus sign of its offset."""
    return _LOST_PLUS.sub("+", text)
