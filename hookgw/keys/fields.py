"""Every field of a key, once, and the body of ``/key/create``. No I/O.

A row, and a line in :class:`~hookgw.records.api_keys.Key`, is all that a new field needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from msgspec import UNSET

from hookgw.kernel.audited import camel
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
from hookgw.kernel.json_fields import Fields, as_text, list_of, not_empty, show_name
from hookgw.kernel.schema_parts import NAME_SCHEMA, TIME_SCHEMA, Schema, Time, ref
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import parse_rfc3339, rfc3339
from hookgw.kernel.units import DAY, Duration
from hookgw.records.api_keys import MEANINGS, Key, Reach, Right, Rights
from hookgw.records.instances import check_name
from hookgw.records.tags import check_tags

LONGEST_LIFE = 3650 * DAY
MAX_INSTANCES = 1_000
"""The most instances that a key names."""


class Showing(NamedTuple):
    """What a key is shown with.

    Attributes:
        instance: that it belongs to; ``None`` for none.
        current: the caller's key.
        names_of: returns the present names of the instances that a reach names; ``None`` for any.
    """

    instance: str | None
    current: Key
    now: float
    names_of: Callable[[Reach | None], list[str] | None] = lambda _: None


def _check_moment(value: Any, where: str, reading: Reading) -> float:
    latest = reading.context + LONGEST_LIFE
    try:
        # A time in the past passes: the gateway compares it with its own clock when it creates the key.
        expires_at = parse_rfc3339(as_text(value, where))
    except (ValueError, OverflowError):
        raise Invalid.of(
            "key.expiry_form",
            "{where} must be an RFC 3339 time such as 2026-11-20T12:00:00Z.",
            where=where,
        ) from None
    if expires_at > latest:
        raise Invalid.of(
            "key.expiry_too_late",
            "{where} must be at most {longest} ahead, by {latest}.",
            where=where,
            longest=Duration(LONGEST_LIFE),
            latest=rfc3339(latest),
        )
    return expires_at


_names = not_empty(
    list_of(check_name, MAX_INSTANCES),
    Sentence.declared("key.instances_empty", "{where} must name an instance."),
)
_check_tags = not_empty(check_tags, Sentence.declared("key.tags_empty", "{where} must have a tag."))


def _check_names(value: Any, where: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_names(value, where)))


def _check_right(value: Any, where: str) -> str:
    right, is_of_label, label = as_text(value, where).partition(":")
    if right not in list(map(str, Right)) or (is_of_label and right != Right.RECEIVE):
        raise Invalid.of(
            "key.right_unknown",
            "{where} must be one of {choices}, or receive:LABEL, not {value}.",
            where=where,
            choices=", ".join(Right),
            value=show_name(str(value)),
        )
    if is_of_label:
        check_name(label, f"{where}: the label")
    return str(value)


_rights = not_empty(
    list_of(_check_right, 2 * len(Right)),
    Sentence.declared("key.rights_empty", "{where} must name a right."),
)


def _check_rights(value: Any, where: str) -> tuple[str, ...]:
    words = _rights(value, where)
    if len({word for word in words if word.startswith(Right.RECEIVE)}) > 1:
        raise Invalid.of(
            "key.receive_twice",
            "{where} must have receive once: with one label, or for all of them.",
            where=where,
        )
    return Rights.of(words).words


_RIGHT_SCHEMA: Schema = {
    "type": "string",
    "pattern": f"^({'|'.join(Right)}|receive:[A-Za-z0-9._-]{{1,128}})$",
}


FIELDS = (
    Field(
        name="name",
        kind=Line(as_text, NAME_SCHEMA, str),  # the gateway checks it
        meaning="The name.",
        shows="unique among the keys of the instance, or among those of no instance.",
        when_set=REQUIRED,
    ),
    Field(
        name="tags",
        kind=Kind(_check_tags, ref("TagsOfInstance"), dict[str, str]),
        meaning="The key reaches the instances that have all of these tags, also those made later.",
        shows="the tags that an instance must have to be reached.",
        attribute="reach",
        audit=lambda reach: ", ".join(f"{name}={value}" for name, value in reach.tags) if reach else "",
        heading="tags",
        show=lambda key, _: {} if key.reach is None else dict(key.reach.tags),
    ),
    Field(
        name="instances",
        kind=Kind(
            _check_names,
            {"type": "array", "items": NAME_SCHEMA, "minItems": 1, "maxItems": MAX_INSTANCES},
            list[str] | None,
        ),
        meaning="The key reaches these instances, and no later ones of their names.",
        shows="the instances that are reached; ``null`` for all that have the tags.",
        heading="instances",
        show=lambda key, to: to.names_of(key.reach) if to.instance is None else [to.instance],
    ),
    Field(
        name="rights",
        kind=Kind(_check_rights, {"type": "array", "items": _RIGHT_SCHEMA, "minItems": 1}, list[str]),
        meaning="What the key may do, by default what the caller's key may: "
        + "; ".join(f"`{right}`: {meaning}" for right, meaning in MEANINGS.items())
        + ".",
        shows="what the key may do.",
        audit=lambda words: ", ".join(words) if words else "",
        heading="rights",
        show=lambda key, to: list(key.principal(to.instance).rights.words),
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
        "instance",
        str | None,
        "the instance that the key belongs to; ``null`` for none.",
        lambda _, to: to.instance,
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
)

KEY = request_schema(
    FIELDS,
    "Send expiresIn or expiresAt; with neither, the key lasts as long as the caller's key. Send tags or "
    "instances; with neither, the key reaches what the caller's key does. A key for an instance has neither.",
    is_closed=True,
)


def parse_key_request(body: Any, *, now: float, is_of_instance: bool = False) -> dict[str, Any]:
    """Read the body of a key's ``create``; durations count from ``now``, in seconds since the epoch.

    Return the fields of the record that it sets. Raise ``Invalid`` with every mistake.
    """
    fields = Fields.of_body(body)
    given = read_fields(FIELDS, fields, now)
    # What was sent, not what was read: two wrong values are two mistakes, and this is a third one.
    for one, other in (("expires_in", "expires_at"), ("tags", "instances")):
        if all(fields.find(*field.spellings) for field in FIELDS if field.name in (one, other)):
            fields.problems.append(
                Sentence(
                    "key.both_fields", "Send {one} or {other}, not both.", one=camel(one), other=camel(other)
                )
            )
    if is_of_instance and (given["tags"] is not UNSET or given["instances"] is not UNSET):
        fields.problems.append(
            Sentence(
                "key.of_instance_reach",
                "A key of an instance reaches that one: leave tags and instances out.",
            )
        )
    if is_of_instance and isinstance(given["rights"], tuple) and Right.OPERATE in given["rights"]:
        fields.problems.append(
            Sentence(
                "key.of_instance_right",
                "rights: a key of an instance cannot have {right}. Make a key without an instance, with the "
                "instance in its reach.",
                right=Right.OPERATE,
            )
        )
    # A misspelt limit would give more than is meant.
    fields.refuse_unknown("a key")
    fields.finish()
    life = given.pop("expires_in")
    if life is not UNSET:
        given["expires_at"] = now + life
    return {name: value for name, value in given.items() if value is not UNSET}
