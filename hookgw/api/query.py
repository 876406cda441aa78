"""Reads the parameters that the queries of several lists have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hookgw.models.clock import parse_rfc3339
from hookgw.models.errors import Invalid


def read_limit(given: Mapping[str, str], default: int, most: int) -> int:
    """Return the parameter ``limit``.

    Raises:
        Invalid: it is not a whole number from 1 to ``most``.
    """
    limit = given.get("limit", str(default))
    # Six digits are enough, and int() raises an error of its own beyond 4,300.
    number = int(limit) if limit.isascii() and limit.isdecimal() and len(limit) <= 6 else 0
    if not 1 <= number <= most:
        raise Invalid(f"limit must be a whole number from 1 to {most}.")
    return number


def read_times(given: Mapping[str, str], names: Iterable[str] = ("since", "until")) -> dict[str, float]:
    """Return those of the parameters that are given, in seconds since the epoch.

    Raises:
        Invalid: one of them is not a time.
    """
    times: dict[str, float] = {}
    for name in names:
        if name in given:
            try:
                # In a query, a plus sign that is not escaped arrives as a space.
                times[name] = parse_rfc3339(given[name].replace(" ", "+"))
            except (ValueError, OverflowError):
                raise Invalid(
                    f"{name} must be an RFC 3339 time such as 2026-11-20T12:00:00Z, not {given[name][:64]!r}."
                ) from None
    return times
