"""Every field of a key, once, and the body of ``/key/create``. No I/O.

A row, and a line in :class:`~hookgw.records.api_keys.Key`, is all that a new field needs.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from msgspec import UNSET

from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import (
    REQUIRED,
    Field,
    Input,
    Kind,
    Line,
    Option,
    Period,
    Reading,
    Shown,
    read_fields,
    request_schema,
    write_time,
)
from hookgw.kernel.json_fields import Fields, as_object, as_text
from hookgw.kernel.schema_parts import NAME_SCHEMA, TIME_SCHEMA, Time
from hookgw.kernel.times import parse_rfc3339, rfc3339
from hookgw.kernel.units import DAY, Duration
from hookgw.records.api_keys import Key

LONGEST_LIFE = 3650 * DAY


class Showing(NamedTuple):
    """What a key is shown with: its instance, or ``None`` if it is global; the caller's key; the time."""

    instance: str | None
    current: Key
    now: float


def _check_moment(value: Any, where: str, reading: Reading) -> float:
    latest = reading.context + LONGEST_LIFE
    try:
        # A time in the past passes: the gateway compares it with its own clock when it creates the key.
        expires_at = parse_rfc3339(as_text(value, where))
    except (ValueError, OverflowError):
        raise Invalid(f"{where} must be an RFC 3339 time such as 2026-11-20T12:00:00Z.") from None
    if expires_at > latest:
        raise Invalid(f"{where} must be at most {Duration(LONGEST_LIFE)} ahead, by {rfc3339(latest)}.")
    return expires_at


FIELDS = (
    Field(
        name="name",
        kind=Line(as_text, NAME_SCHEMA, str),  # the gateway checks it
        meaning="The name.",
        shows="unique among the keys of the instance, or among the global keys.",
        when_set=REQUIRED,
    ),
    Field(
        name="expires_in",
        kind=Period(1, LONGEST_LIFE),
        meaning="How long the key is valid.",
        form=Input("Valid for", "ever, or such as 30d"),
        option=Option("How long the key is valid, for example 30d.", "DURATION"),
    ),
    Field(
        name="expires_at",
        kind=Kind(_check_moment, TIME_SCHEMA, Time | None, write_time, needs=True),
        meaning="The time at which the key expires.",
        shows="when the key expires; ``null`` for never.",
        audit=lambda at: write_time(at) or "",
        heading="expires",
        option=Option("When it expires, for example 2026-12-31T00:00:00Z.", "TIME"),
    ),
)
"""What clients write."""
SHOWN = (
    FIELDS[0],
    Shown(
        "instance", str | None, "the instance's name; ``null`` for a global key.", lambda _, to: to.instance
    ),
    Shown(
        "state",
        Literal["active", "expired"],
        "whether the key is valid.",
        lambda key, to: "expired" if key.is_expired(to.now) else "active",
    ),
    Shown(
        "created_at",
        Time | None,
        "when the key was created; ``null`` if unknown.",
        lambda key, _: write_time(key.created_at),
    ),
    *FIELDS[1:],
    Shown(
        "origin",
        str | None,
        "the first key of the chain in which each key created the next; ``null`` if a global key created "
        "this one for an instance.",
        lambda key, _: key.origin or None,  # to find the descendants of a leaked key
    ),
    Shown("current", bool, "whether this call used the key.", lambda key, to: key.hash == to.current.hash),
)
"""What responses have, in their order."""
CREATED = (
    *SHOWN,
    Shown("key", str, "the key itself, which is shown only here.", is_secret=True),
    Shown("warnings", list[str], "fields of the request that were ignored.", is_optional=True),
)

KEY = request_schema(
    FIELDS, "Send expiresIn or expiresAt; with neither, the key lasts as long as the caller's key."
)


def parse_key_request(body: Any, *, now: float) -> tuple[dict[str, Any], list[str]]:
    """Read the body of a key's ``create``; durations count from ``now``, in seconds since the epoch.

    Return the fields of the record that it sets, and a warning for each ignored field. Raise ``Invalid`` with
    every mistake.
    """
    fields = Fields(("", as_object(body, "The body")))
    given = read_fields(FIELDS, fields, now)
    # What was sent, not what was read: two wrong values are two mistakes, and this is a third one.
    if all(fields.find(*field.spellings) for field in FIELDS[1:3]):
        fields.problems.append("Send expiresIn or expiresAt, not both.")
    warnings = fields.finish()
    life = given.pop("expires_in")
    if life is not UNSET:
        given["expires_at"] = now + life
    return {name: value for name, value in given.items() if value is not UNSET}, warnings
