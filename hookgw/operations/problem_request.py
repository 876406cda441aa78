"""The body of ``/problem/mute``. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import Fields, as_text
from hookgw.kernel.schema_parts import MOMENT_SCHEMA, object_schema, text_schema
from hookgw.kernel.times import clamp_time, parse_rfc3339
from hookgw.kernel.units import parse_duration
from hookgw.operations.repairs import LONGEST_REASON

MUTE = object_schema(
    "Why, and until when.",
    {
        "reason": text_schema(
            LONGEST_REASON, description="Why nobody needs to look at it. The audit keeps it."
        ),
        "until": MOMENT_SCHEMA
        | {
            "description": "A time ahead, or a duration from now.",
            "examples": ["7d", "2026-12-24T12:00:00Z"],
        },
    },
    required=["reason", "until"],
    is_closed=True,
)


def parse_mute(body: Any, now: float) -> tuple[str, float]:
    """Read the reason, and the time in seconds since the epoch.

    Raises:
        Invalid: the body is not an object, or a field is missing or wrong. Whether the time is ahead is not
            checked here.
    """

    def as_time(value: Any, where: str) -> float:
        text = as_text(value, where)
        try:
            return clamp_time(now + parse_duration(text))
        except ValueError:
            pass
        try:
            return clamp_time(parse_rfc3339(text))
        except (ValueError, OverflowError):
            raise Invalid.of(
                "problem.not_until",
                "{where} must be a duration such as 7d, or an RFC 3339 time such as 2026-12-24T12:00:00Z.",
                where=where,
            ) from None

    fields = Fields.of_body(body)
    reason = fields.need(as_text, "", "reason")
    until = fields.need(as_time, 0.0, "until")
    fields.refuse_unknown("a mute")
    fields.finish()
    return reason.strip(), until
