"""The body of ``/event/emit``: one event, a JSON array of events, or lines of JSON. No I/O.

Envelopes of other gateways are accepted unchanged: dotted names, ``destination``, ``apikey`` and the like.
The payload keeps the bytes that arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from typing import Any

import msgspec

from hookgw.models.clock import parse_rfc3339
from hookgw.models.errors import Invalid, TooLarge
from hookgw.models.events import EVENT_ID, Catalog, Event, new_event_id
from hookgw.models.units import Size
from hookgw.parsing.fields import kind_of, show_name, unknown_field
from hookgw.parsing.json_text import decode_strict, has_more_items

# Finding the nearest kind takes 0.3 ms and more: suggestions for a batch of 10,000 bad names would block the
# event loop for seconds. Further bad events are named by their index only.
MAX_REASONS = 100

_KNOWN = frozenset({"event", "data", "id", "date_time", "sender", "server_url"})
# Fields of other gateways' envelopes that mean nothing here, and that every client of theirs sends.
_IGNORED = frozenset({"destination", "apikey"})
# The first moment that RFC 3339 cannot express, in seconds since the epoch.
_YEAR_10000 = 253402300800.0
_MAX_WARNINGS = 20

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class EmitLimits(msgspec.Struct, frozen=True):
    """The limits of one request: bytes of ``data``, bytes of a single event, number of events."""

    max_data: int = 2**20
    max_single: int = 2**20
    max_events: int = 10_000


class Batch(msgspec.Struct):
    """The events of a request in their order, and a warning for each ignored field.

    ``is_single`` is true if the body was one event, not a list.
    """

    events: list[Event]
    warnings: list[str]
    is_single: bool = False


def parse_events(  # noqa: C901 -- reads once from top to bottom
    body: bytes,
    instance: str,
    catalog: Catalog,
    *,
    now: float,
    lines: bool = False,
    key: str | None = None,
    limits: EmitLimits = EmitLimits(),  # noqa: B008 -- frozen
) -> Batch:
    """Read the events in a body.

    Args:
        body: JSON, or with ``lines`` one JSON object per line.
        instance: the instance of all events, whatever they say.
        catalog: the known event kinds.
        now: the time of events without one, in seconds since the epoch.
        lines: whether the body is ``application/x-ndjson``.
        key: the ``Idempotency-Key`` header, which is the id of a single event.
        limits: see :class:`EmitLimits`.

    Raises:
        Invalid: with the index of every bad event. None of the events may be accepted then.
        TooLarge: a single event exceeds its limit.
    """
    if key is not None:
        # The header's draft standard makes it a quoted string; most clients send it without quotes.
        key = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
        if not EVENT_ID.fullmatch(key):
            raise Invalid("Idempotency-Key must be 1 to 255 characters of A-Z a-z 0-9 _ -.")
    reader = _Reader(instance, catalog, now, key, limits.max_data)
    items = _split(body, lines, limits.max_events)
    if items is None:
        # Only a batch may use the larger limit of the request body.
        if len(body) > limits.max_single:
            raise TooLarge(f"The body of a single event may have at most {Size(limits.max_single)}.")
        return Batch([reader.event(body, "")], list(reader.ignored), is_single=True)
    if len(items) > limits.max_events:
        raise _too_many(limits.max_events)
    if key is not None and len(items) != 1:
        raise Invalid(f"Idempotency-Key is the id of a single event, but the batch has {len(items):,}.")
    events: list[Event] = []
    problems: list[str] = []
    unexplained: list[str] = []
    for index, item in enumerate(items):
        try:
            events.append(reader.event(bytes(item), f"events[{index}]"))
        except Invalid as error:
            reader.hints = len(problems) < MAX_REASONS
            if reader.hints:
                problems.extend(error.messages)
            else:
                unexplained.append(f"events[{index}]")
    if unexplained:
        problems.append(f"These events are invalid too, for reasons not listed: {', '.join(unexplained)}.")
    if problems:
        raise Invalid(*problems)
    return Batch(events, list(reader.ignored))


def _split(body: bytes, lines: bool, most: int) -> Sequence[bytes | msgspec.Raw] | None:
    """Return the events of a batch, or a few more than ``most``; ``None`` for a single event."""
    if lines:
        # One line more than allowed is enough to refuse the batch; a million short ones are never split.
        return list(islice((line for line in BytesIO(body) if line.strip()), most + 1))
    # The first byte decides nearly always, without copying a body of 16 MiB to strip it.
    if body[:1] != b"[" and body.lstrip(b" \t\r\n")[:1] != b"[":
        return None
    if has_more_items(body, most):
        raise _too_many(most)
    try:
        return _raw_items(body)
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except msgspec.DecodeError as error:
        raise Invalid(f"The body is not JSON: {error}.") from None


def _too_many(most: int) -> Invalid:
    return Invalid(f"The batch has too many events: at most {most:,} are allowed.")


class _Reader:
    """Reads events one by one; ``hints`` turns the suggestions for unknown kinds on."""

    def __init__(self, instance: str, catalog: Catalog, now: float, key: str | None, max_data: int) -> None:
        self._instance = instance
        self._catalog = catalog
        self._now = now
        self._key = key
        self._max_data = max_data
        # Ordered, and each warning once, however many events of a batch have the field.
        self.ignored: dict[str, None] = {}
        self.hints = True

    def event(self, text: bytes, where: str) -> Event:  # noqa: C901 -- one check after the other, on the hot path
        """Read one event.

        Raises:
            Invalid: with the first mistake, prefixed with ``where``.
        """
        try:
            envelope = decode_strict(text)
        except ValueError as error:
            raise Invalid(f"{where or 'The body'} {error}.") from None
        if not isinstance(envelope, dict):
            kind = kind_of(envelope)
            raise Invalid(f"{where or 'The body'} must be an object with event and data, not {kind}.")
        if not envelope.keys() <= _KNOWN:
            self._warn_of_ignored(envelope)

        event_id = envelope.get("id")
        if event_id is None:
            event_id = self._key or new_event_id()
        elif not isinstance(event_id, str) or not EVENT_ID.fullmatch(event_id):
            raise Invalid(f"{_at(where, 'id')} must be 1 to 255 characters of A-Z a-z 0-9 _ -.")
        elif self._key is not None and event_id != self._key:
            raise Invalid(f"{_at(where, 'id')} differs from the Idempotency-Key header: send one of them.")

        name = envelope.get("event")
        if name is None:
            raise Invalid(f"{_at(where, 'event')} is missing: it is the name of an event kind.")
        found = self._catalog.get(name) if isinstance(name, str) else None
        if found is None and self.hints:
            found = self._catalog.resolve(name, _at(where, "event"))
        if found is None:
            raise Invalid(f"{_at(where, 'event')} is not a known event kind.")

        if "data" not in envelope:
            raise Invalid(f"{_at(where, 'data')} is missing: it is the payload.")
        # The bytes of the payload, so that the order of keys and the digits of numbers survive.
        data = bytes(_raw_fields(text)["data"])
        if len(data) > self._max_data:
            limit = Size(self._max_data)
            raise Invalid(f"{_at(where, 'data')} has {len(data):,} bytes; at most {limit} are allowed.")

        time, given = self._now, envelope.get("date_time")
        if given is not None:
            try:
                time = parse_rfc3339(given) if isinstance(given, str) else -1.0
            except ValueError:
                time = -1.0
            # Times before 1970 are clients' bugs, and an offset can push a time beyond the year 9999.
            if not 0 <= time < _YEAR_10000:
                form = "an RFC 3339 time such as 2026-11-20T12:00:00.000Z"
                raise Invalid(f"{_at(where, 'date_time')} must be {form}.")
        return Event(
            id=event_id,
            kind=found.name,
            instance=self._instance,
            data_json=data,
            time=time,
            sender=_text(envelope.get("sender"), where, "sender"),
            server_url=_text(envelope.get("server_url"), where, "server_url"),
        )

    def _warn_of_ignored(self, envelope: dict[str, Any]) -> None:
        for name in envelope.keys() - _KNOWN - _IGNORED:
            if len(self.ignored) >= _MAX_WARNINGS:
                return
            if name != "instance":
                self.ignored[unknown_field(show_name(name))] = None
            # The body must not choose the instance: the key was checked against the one in the path.
            elif envelope[name] != self._instance:
                self.ignored[f"instance was ignored: the path says {self._instance}."] = None


def _text(value: Any, where: str, name: str) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= 2048):
        return value
    raise Invalid(f"{_at(where, name)} must be a string of at most 2,048 characters.")


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
