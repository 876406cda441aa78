"""The bodies of ``/event/emit``: one event, a JSON array of them, or lines of JSON. No I/O.

The envelope that another gateway delivers is taken as it is: dotted names, ``destination``, ``apikey``
and the like. The payload stays the bytes that came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import islice
from typing import Any

import msgspec

from hookgw.models.clock import parse_rfc3339
from hookgw.models.errors import Invalid, TooLarge
from hookgw.models.events import EVENT_ID, Catalog, Event, EventKind, new_event_id
from hookgw.models.units import Size
from hookgw.parsing.fields import kind_of, show_name, unknown_field
from hookgw.parsing.json_text import decode_strict, has_more_items

MAX_REASONS = 100
"""How many bad events of a batch are told why; of the others only the index is named."""

_KNOWN = frozenset({"event", "data", "id", "date_time", "sender", "server_url"})
_PASSED = frozenset({"destination", "apikey"})
"""Parts of other gateways' envelopes that say nothing here."""
_YEAR_10000 = 253402300800.0
"""The first moment that RFC 3339 cannot write, in seconds since the epoch."""
_MAX_WARNINGS = 20

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class EmitLimits(msgspec.Struct, frozen=True):
    """How much a producer may send in one request: bytes of ``data``, bytes of a single event, events."""

    max_data: int = 2**20
    max_single: int = 2**20
    max_events: int = 10_000


class Batch(msgspec.Struct):
    """Events in the order in which they were sent, and warnings about what was ignored of them.

    ``is_single`` says that the one event came as itself and not in a list.
    """

    events: list[Event]
    warnings: list[str]
    is_single: bool = False


def parse_events(
    body: bytes,
    instance: str,
    catalog: Catalog,
    *,
    now: float,
    lines: bool = False,
    key: str | None = None,
    limits: EmitLimits = EmitLimits(),  # noqa: B008 -- frozen
) -> Batch:
    """The events in a body.

    Args:
        body: JSON, or with ``lines`` one JSON object a line.
        instance: whose events they are, whatever they say themselves.
        catalog: the known event kinds.
        now: the time of events that name none, in seconds since the epoch.
        lines: the body is ``application/x-ndjson``.
        key: the ``Idempotency-Key`` header, which is the id of a single event.
        limits: how much is taken.

    Raises:
        Invalid: with every bad index; none of the events is to be taken.
        TooLarge: a single event is over its limit.
    """
    reader = _Reader(instance, catalog, now, _id_of_key(key), limits.max_data)
    items = _split(body, lines, limits.max_events)
    if items is None:
        if len(body) > limits.max_single:
            raise TooLarge(f"The body of a single event may have at most {Size(limits.max_single)}.")
        return Batch([reader.event(body, "")], reader.warnings(), is_single=True)
    if len(items) > limits.max_events:
        raise _too_many(limits.max_events)
    if key is not None and len(items) != 1:
        raise Invalid(f"Idempotency-Key is the id of a single event, but the batch has {len(items):,}.")
    return Batch(_read_all(reader, items), reader.warnings())


def _split(body: bytes, lines: bool, most: int) -> Sequence[bytes | msgspec.Raw] | None:
    """The events of a batch, or somewhat more than ``most`` of them; ``None`` where it is a single event."""
    if lines:
        return list(islice((line for line in BytesIO(body) if line.strip()), most + 1))
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
    return Invalid(f"The batch has too many events: at most {most:,} are taken at once.")


def _read_all(reader: _Reader, items: Iterable[bytes | msgspec.Raw]) -> list[Event]:
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
        problems.append(f"So are these events, for reasons not listed: {', '.join(unexplained)}.")
    if problems:
        raise Invalid(*problems)
    return events


class _Reader:
    """Reads events one by one. ``hints`` says whether a reason is worth the time it takes to find."""

    def __init__(self, instance: str, catalog: Catalog, now: float, key: str | None, max_data: int) -> None:
        self._instance = instance
        self._catalog = catalog
        self._now = now
        self._key = key
        self._max_data = max_data
        self._ignored: dict[str, None] = {}
        self.hints = True

    def event(self, text: bytes, where: str) -> Event:
        """The event in a JSON object.

        Raises:
            Invalid: the first thing that is wrong with it, with ``where`` before it.
        """
        envelope = self._envelope(text, where)
        if not envelope.keys() <= _KNOWN:
            self._note(envelope)
        return Event(
            id=self._id(envelope.get("id"), where),
            kind=self._kind(envelope.get("event"), where).name,
            instance=self._instance,
            data_json=self._data(text, where, "data" in envelope),
            time=self._time(envelope.get("date_time"), where),
            sender=_text(envelope.get("sender"), where, "sender"),
            server_url=_text(envelope.get("server_url"), where, "server_url"),
        )

    def warnings(self) -> list[str]:
        """What was ignored, once for each name."""
        return list(self._ignored)

    def _envelope(self, text: bytes, where: str) -> dict[str, Any]:
        try:
            envelope = decode_strict(text)
        except ValueError as error:
            raise Invalid(f"{where or 'The body'} {error}.") from None
        if not isinstance(envelope, dict):
            raise Invalid(
                f"{where or 'The body'} must be an object with event and data, not {kind_of(envelope)}."
            )
        return envelope

    def _note(self, envelope: dict[str, Any]) -> None:
        for name in envelope.keys() - _KNOWN - _PASSED:
            if len(self._ignored) >= _MAX_WARNINGS:
                return
            if name != "instance":
                self._ignored[unknown_field(show_name(name))] = None
            elif envelope[name] != self._instance:
                self._ignored[f"instance was ignored: the path names it, {self._instance}."] = None

    def _id(self, given: Any, where: str) -> str:
        if given is None:
            return self._key or new_event_id()
        if not isinstance(given, str) or not EVENT_ID.fullmatch(given):
            raise Invalid(f"{_at(where, 'id')} must be 1 to 255 characters of A-Z a-z 0-9 _ -.")
        if self._key is not None and given != self._key:
            raise Invalid(f"{_at(where, 'id')} differs from the Idempotency-Key header: send one of them.")
        return given

    def _kind(self, given: Any, where: str) -> EventKind:
        if given is None:
            raise Invalid(f"{_at(where, 'event')} is missing: it is the name of an event kind.")
        kind = self._catalog.get(given) if isinstance(given, str) else None
        if kind is None and self.hints:
            return self._catalog.resolve(given, _at(where, "event"))
        if kind is None:
            raise Invalid(f"{_at(where, 'event')} is not a known event kind.")
        return kind

    def _data(self, text: bytes, where: str, given: bool) -> bytes:
        if not given:
            raise Invalid(f"{_at(where, 'data')} is missing: it is the payload.")
        data = bytes(_raw_fields(text)["data"])
        if len(data) > self._max_data:
            raise Invalid(
                f"{_at(where, 'data')} has {len(data):,} bytes; at most {Size(self._max_data)} are taken."
            )
        return data

    def _time(self, given: Any, where: str) -> float:
        if given is None:
            return self._now
        try:
            time = parse_rfc3339(given) if isinstance(given, str) else -1.0
        except ValueError:
            time = -1.0
        if not 0 <= time < _YEAR_10000:
            raise Invalid(
                f"{_at(where, 'date_time')} must be an RFC 3339 time such as 2026-11-20T12:00:00.000Z."
            )
        return time


def _text(value: Any, where: str, name: str) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= 2048):
        return value
    raise Invalid(f"{_at(where, name)} must be a string of at most 2,048 characters.")


def _id_of_key(key: str | None) -> str | None:
    """The id in an ``Idempotency-Key``, which some clients put into quotes."""
    if key is None:
        return None
    plain = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if not EVENT_ID.fullmatch(plain):
        raise Invalid("Idempotency-Key must be 1 to 255 characters of A-Z a-z 0-9 _ -.")
    return plain


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
