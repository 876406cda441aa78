"""Times in requests: an RFC 3339 time, or how long ago it was. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Check, Fields, kind_of
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import clamp_time, parse_rfc3339
from hookgw.kernel.units import parse_duration

_TIME_FORM = "an RFC 3339 time such as 2026-11-20T12:00:00Z, or a time ago: 10m, 2h, 3d"


def as_moment(now: float) -> Check[float]:
    """Return the check of a time. Durations count back from ``now``, in seconds since the epoch."""

    def check(value: Any, where: str) -> float:
        if not isinstance(value, str):
            raise Invalid.of(
                "field.not_time",
                "{where} must be {form}, not {kind}.",
                where=where,
                form=_TIME_FORM,
                kind=kind_of(value),
            )
        try:
            return clamp_time(now - parse_duration(value))
        except ValueError:
            pass
        try:
            return clamp_time(parse_rfc3339(value))
        # OverflowError: an offset can move the first or last day of the calendar out of it.
        except (ValueError, OverflowError):
            raise Invalid.of(
                "field.time_unreadable",
                "{where} must be {form}, not {value!r}.",
                where=where,
                form=_TIME_FORM,
                value=value[:64],
            ) from None

    return check


def check_range(fields: Fields, since: float | None, until: float | None) -> None:
    """Note a mistake in ``fields`` if a range is empty."""
    # With other mistakes, since may not be what was sent.
    if not fields.problems and since is not None and until is not None and since >= until:
        fields.problems.append(Sentence("field.since_after_until", "since must be before until."))
