"""Which deliveries a call selects: the bodies of replays and cancellations, and the queries of lists. No I/O.

The parsers take decoded JSON and raise ``Invalid`` with every mistake. Durations count back from ``now``, in
seconds since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.host_name import parse_host
from hookgw.kernel.json_fields import (
    Fields,
    as_bool,
    as_text,
    list_of,
    name_up_to,
    not_empty,
    one_of,
    text_up_to,
    whole_number,
)
from hookgw.kernel.json_moments import as_moment, check_range
from hookgw.kernel.rules import check_url
from hookgw.kernel.schema_parts import MOMENT_SCHEMA, NAME_SCHEMA, WITHOUT_NUL, or_null, text_schema
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import time_of_query
from hookgw.records.deliveries import DeliveryState, parse_delivery_id
from hookgw.records.event_kinds import MAX_KINDS
from hookgw.records.events import Catalog, Event
from hookgw.records.instances import check_name
from hookgw.records.selection import DeliverySelection
from hookgw.records.tags import check_tags, parse_tags
from hookgw.web.openapi.describe import filter_of

MAX_TEXT = 255
"""The most characters of a text that is searched, and of a person's name."""
MAX_INSTANCES = 1_000
_MAX_LABEL = 128
REPLAY_STATES = ("dead", "all")
STATUS_PATTERN = "^([1-5][0-9][0-9]|[1-5][xX][xX])$"
_STATUSES = "a status such as 503, or 5xx for all that begin so"
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(?::([0-9]{1,5}))?")


INSTANCES = filter_of(
    "instances",
    "Only these instances, separated by commas: names, or beginnings of names followed by `*`.",
    {"type": "string"},
)
_TEXT = text_schema(MAX_TEXT)
FINISHED_SINCE = filter_of(
    "finishedSince", "Only deliveries that finished at this time or later.", MOMENT_SCHEMA
)
_OF_ANY_STATE = (
    filter_of("label", "Only deliveries to the registration with this label.", NAME_SCHEMA),
    filter_of(
        "host", "Only deliveries to registrations with a URL at this host, with or without its port.", _TEXT
    ),
    filter_of(
        "status",
        "Only deliveries with this status in the newest attempt: `503`, or `5xx`.",
        {"type": "string", "pattern": STATUS_PATTERN},
    ),
    filter_of(
        "error",
        "Only deliveries with this text in their reason, or in the error or answer of the newest attempt.",
        _TEXT,
    ),
    filter_of(
        "failedSince",
        "Only the delivery with this id, and later ones.",
        {"type": "string", "pattern": "^dlv_[0-9]{1,18}$"},
    ),
)
OF_DELIVERY = (
    filter_of(
        "state",
        "Only deliveries in this state; with `failedSince`, `dead` by default.",
        {"enum": [*DeliveryState]},
    ),
    *_OF_ANY_STATE,
    FINISHED_SINCE,
)
"""What lists of deliveries select by, and lists of events: an event is found by its deliveries."""
PERSON = filter_of(
    "person",
    "Only deliveries with a payload that names this person, as an erasure finds it.",
    _TEXT | {"pattern": WITHOUT_NUL},
)
OF_EVENT = (
    PERSON,
    filter_of("text", "Only deliveries with this text in the payload.", _TEXT),
    filter_of("since", "Only deliveries accepted at this time or later.", MOMENT_SCHEMA),
    filter_of("until", "Only deliveries accepted before this time, which is after `since`.", MOMENT_SCHEMA),
)
IN_BODY = {one.name: or_null({**one.schema}, one.meaning) for one in (*_OF_ANY_STATE, *OF_EVENT)}
"""The fields of a body that selects deliveries, beside kinds."""


class Asked(NamedTuple):
    """What a call selects, and whether it only counts."""

    selection: DeliverySelection
    dry_run: bool = False


def parse_replay(body: Any, catalog: Catalog, *, now: float, over_all: bool = False) -> Asked:
    """Read the body of a replay. An unknown field is a mistake, and so is an empty range.

    Args:
        over_all: whether the path names no instance, so that the body has ``instances``.
    """
    fields = Fields.of_body(body)
    # Required, because replaying the whole history by accident cannot be undone.
    begins = (("since",), ("finishedSince", "finished_since"), ("failedSince", "failed_since"))
    if all(fields.find(*names) is None for names in begins):
        fields.problems.append(Sentence("replay.since_missing", "since is missing."))
    state = fields.read(one_of(REPLAY_STATES), "dead", "state")
    return _parse(fields, catalog, "a replay", now, state, over_all=over_all)


def parse_cancellation(body: Any, catalog: Catalog, *, now: float, over_all: bool = False) -> Asked:
    """Read the body of a cancellation, as :func:`parse_replay` does."""
    fields = Fields.of_body(body)
    return _parse(fields, catalog, "a cancellation", now, None, over_all=over_all)


class Resend(NamedTuple):
    """How to send a delivery again: with other data, or once to another URL; otherwise as it is."""

    data_json: bytes | None = None
    url: str | None = None


def parse_resend(body: Any) -> Resend:
    """Read the body of a resend. An unknown field is a mistake, and so are data and a URL together."""
    fields = Fields.of_body(body)
    data = fields.read(lambda value, _: Event.encode(value), None, "data")
    url = fields.pick(check_url, "url")
    fields.refuse_unknown("a resend")
    if data is not None and url is not None:
        fields.problems.append(Sentence("resend.data_and_url", "data and url cannot be given together."))
    fields.finish()
    return Resend(data, url)


def parse_list(
    query: Mapping[str, str],
    catalog: Catalog,
    *,
    now: float,
    over_all: bool,
    tags: Sequence[str] = (),
) -> DeliverySelection:
    """Read what a list selects. Names are separated by commas; empty means left out."""
    body: dict[str, Any] = {name: value for name, value in query.items() if value}
    for name in ("instances", "events"):
        if name in body:
            body[name] = body[name].split(",")
    for name in ("since", "until", "finishedSince"):
        if name in body:
            body[name] = time_of_query(body[name])
    if "kind" in body:
        body["events"] = [*body.get("events", ()), catalog.stored_name(body.pop("kind"), "kind")]
    state = body.pop("state", None)
    if state is not None and state not in [*DeliveryState]:
        raise Invalid.of(
            "query.state",
            "state must be one of {choices}, not {state!r}.",
            choices=", ".join(DeliveryState),
            state=state[:64],
        )
    if state is None and "failedSince" in body:
        state = DeliveryState.DEAD.value
    found = _parse(Fields(("", body)), catalog, "a list", now, state, over_all=over_all).selection
    return msgspec.structs.replace(found, tags=parse_tags(tags)) if tags else found


def _parse(
    fields: Fields, catalog: Catalog, whole: str, now: float, state: str | None, *, over_all: bool
) -> Asked:
    text = text_up_to(MAX_TEXT)
    selection = DeliverySelection(
        instances=fields.read(_instances, (), "instances") if over_all else (),
        # Of a query, they are a parameter that may be repeated.
        tags=fields.read(_tags, (), "tags") if over_all and whole != "a list" else (),
        label=fields.pick(text_up_to(_MAX_LABEL), "label"),
        host=fields.pick(_host, "host"),
        kinds=fields.read(list_of(catalog.stored_name, MAX_KINDS), (), "kinds", "events"),
        state=state,
        status=fields.pick(_status, "status"),
        error=fields.pick(text, "error"),
        person=fields.pick(name_up_to(MAX_TEXT), "person"),
        text=fields.pick(text, "text"),
        since=fields.pick(as_moment(now), "since"),
        until=fields.pick(as_moment(now), "until"),
        # Pending deliveries have not finished.
        finished_since=None
        if whole == "a cancellation"
        else fields.pick(as_moment(now), "finishedSince", "finished_since"),
        failed_since=fields.pick(_delivery, "failedSince", "failed_since"),
    )
    dry_run = whole != "a list" and fields.read(as_bool, False, "dryRun", "dry_run")
    fields.refuse_unknown(whole)
    check_range(fields, selection.since, selection.until)
    fields.finish()
    return Asked(selection, dry_run)


def _instance(value: Any, where: str) -> str:
    name = as_text(value, where)
    check_name(name.removesuffix("*") or "any", where)
    return name


_instances = not_empty(
    list_of(_instance, MAX_INSTANCES),  # a program that has found none means none, not all
    Sentence.declared(
        "selection.no_instances",
        "{where} names no instance. Leave it out to select all that the key reaches.",
    ),
)


def _tags(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    return tuple(check_tags(value, where).items())


def _host(value: Any, where: str) -> str:
    """Check a host, with or without a port; return its plain form."""
    text = text_up_to(MAX_TEXT)(value, where)
    found = _HOST.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        host, port = parse_host(found[1]).removesuffix("."), found[2]
    except ValueError:
        raise Invalid.of(
            "field.not_host",
            "{where} must be a host such as example.com or [::1], with or without a port, not {text!r}.",
            where=where,
            text=text[:64],
        ) from None
    if port is None:
        return host
    return f"[{host}]:{int(port)}" if ":" in host else f"{host}:{int(port)}"


def _status(value: Any, where: str) -> tuple[int, int]:
    if isinstance(value, str):
        if re.fullmatch(r"[1-5]xx", value, re.IGNORECASE):
            return int(value[0]) * 100, int(value[0]) * 100 + 99
        value = int(value) if value.isascii() and value.isdecimal() and len(value) == 3 else value
    try:
        status = whole_number(100, 599)(value, where)
    except Invalid:
        raise Invalid.of("query.status", "{where} must be {form}.", where=where, form=_STATUSES) from None
    return status, status


def _delivery(value: Any, where: str) -> int:
    seq = parse_delivery_id(as_text(value, where))
    if seq is None:
        raise Invalid.of(
            "field.not_delivery_id", "{where} must be the id of a delivery, such as dlv_17.", where=where
        )
    return seq
