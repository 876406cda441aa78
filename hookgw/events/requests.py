"""The body of ``/event/emit``: one event, a JSON array of events, or lines of JSON. No I/O.

Envelopes of other gateways are accepted unchanged: dotted names, ``destination``, ``apikey`` and the like.
The payload keeps the bytes that arrived.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from hookgw.config.settings import Settings
from hookgw.kernel.errors import Invalid, TooLarge
from hookgw.kernel.json_decoding import LARGE, no_collection
from hookgw.kernel.json_fields import kind_of, show_name, unknown_field
from hookgw.kernel.json_text import MAX_VALUES, decode_strict, why_refused
from hookgw.kernel.long_json import end_of_value, skip_blank
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import YEAR_10000, parse_rfc3339
from hookgw.kernel.units import Size
from hookgw.records.events import EVENT_ID, Catalog, Event, EventKind, event_id_of, new_event_id
from hookgw.records.inline_media import unmarked
from hookgw.records.payload_schemas import SchemaBook
from hookgw.records.sentences import BODY_REFUSED, OPERATIONAL_KIND

MAX_REASONS = 100
"""Bad events of a batch for which a reason is given. Further ones are named by their index only."""
# Finding the nearest kind takes 0.3 ms and more: suggestions for a batch of 10,000 bad names would take
# seconds.
_MAX_HINTS = 10

_KNOWN = frozenset({"event", "data", "id", "date_time", "sender", "server_url"})
# What a body at the path of a kind has if it is an envelope. Any other body there is the payload.
_NEEDED = frozenset({"event", "data"})
# Fills the readable part of an id that is made from a message, so that no phone number is in it: ids reach
# logs, and outlive the events.
_FILLER = "the-chat-is-only-in-the-hash"
# One message may raise several of these, each with other content.
_EDITS = frozenset({"MESSAGES_EDITED", "SEND_MESSAGE_UPDATE"})
# Fields of other gateways' envelopes, and of hookgw's lists: they mean nothing here, and clients send them.
_IGNORED = frozenset({"destination", "apikey", "acceptedAt"})
_MAX_WARNINGS = 20
# What an event of a batch may have beside its data.
_ENVELOPE = 64 * 1024

# Bytes of a list up to which its items are found in one pass.
_SHORT_LIST = 128 * 1024
# Bytes of a longer list in which several items are found in one pass, if they all begin with as many bytes
# alike.
_PART = 64 * 1024
_ALIKE = 8
# Bytes in which the end of one item is sought at first; then in twice as many, and so on.
_WINDOW = 4096
_SPACE = b" \t\r\n"

EVENT_ID_FORM = Sentence.declared("event.id_form", "{where} must be 1 to 255 characters of A-Z a-z 0-9 _ -.")
DATA_TOO_LONG = Sentence.declared(
    "event.data_too_long", "{where} has {bytes:,} bytes; at most {limit} are allowed."
)


class _Payload(msgspec.Struct):
    data: msgspec.Raw


_payload_of = msgspec.json.Decoder(_Payload).decode
_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class EmitLimits(msgspec.Struct, frozen=True):
    """The limits of one request.

    Attributes:
        max_data: bytes of ``data``.
        max_single: bytes of a single event.
        max_events: events of a batch.
        max_values: JSON values of an event; see :func:`hookgw.kernel.json_text.check_values`.
    """

    max_data: int = 2**20
    max_single: int = 2**20
    max_events: int = 10_000
    max_values: int = MAX_VALUES

    @classmethod
    def of(cls, settings: Settings) -> EmitLimits:
        """Return the limits that the settings name."""
        events, server = settings.events, settings.server
        return cls(events.max_data, server.max_body, server.max_batch_events, events.max_values)

    @property
    def max_item(self) -> int:
        return max(self.max_single, self.max_data + _ENVELOPE)


class CheckedEvent(msgspec.Struct, frozen=True):
    """An event that breaks no rule.

    Only :class:`EventReader` makes them, and the intake of what it has checked: so nothing is checked twice.

    Attributes:
        event: to accept.
        violation: of the schema of its kind, as a sentence that begins with ``data``.
    """

    event: Event
    violation: Sentence | None = None


class Batch(msgspec.Struct):
    """The events of a request in their order, and a warning for each ignored field.

    ``is_single`` is true if the body was one event, not a list.
    """

    checked: list[CheckedEvent]
    warnings: list[str]
    is_single: bool = False

    @property
    def events(self) -> list[Event]:
        return [checked.event for checked in self.checked]


def _lines(body: bytes) -> Iterator[bytes | None]:
    """Yield the lines that are not blank; ``None`` is a pause."""
    at = yield from skip_blank(body, 0)
    while at < len(body):
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end
        yield body[at:end]
        at = yield from skip_blank(body, end)


def items_of(body: bytes, longest: int) -> Iterator[bytes | None]:  # noqa: C901 -- a list from left to right
    """Yield the items of a JSON list; ``None`` is a pause.

    The time between two items does not grow with the list: only ``longest`` limits it.

    Raises:
        Invalid: the list is malformed, or an item has more than so many bytes.
    """
    if len(body) <= _SHORT_LIST:
        try:
            yield from map(bytes, _raw_items(body))
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid(BODY_REFUSED(reason=why_refused(body, error))) from None
        return
    view, count, size = memoryview(body), 0, 0
    at = yield from skip_blank(body, body.index(b"[") + 1)
    # Items usually begin alike. Where one seems to begin, a part of the list ends: if it is well-formed
    # on its own, all of its items are found at once.
    mark = b"," + body[at : at + _ALIKE]
    if not body.startswith(b"]", at):
        while True:
            cut = body.rfind(mark, at, at + _PART) if mark else -1
            if cut > at:
                try:
                    items = _raw_items(b"[%b]" % body[at:cut])
                except (msgspec.DecodeError, RecursionError):
                    mark = b""
                else:
                    yield from map(bytes, items)
                    count, at = count + len(items), cut + 1
                    continue
            try:
                end = end_of_value(view, at, max(_WINDOW, 2 * size), longest)
            except ValueError as error:
                raise Invalid(BODY_REFUSED(reason=error)) from None
            if end is None:
                raise _too_long(count, longest)
            if end - at > _PART:
                yield None
            yield body[at:end]
            count, size = count + 1, end - at
            at = yield from skip_blank(body, end)
            if not body.startswith(b",", at):
                break
            at = yield from skip_blank(body, at + 1)
    if not body.startswith(b"]", at):
        raise Invalid.of(
            "body.no_comma", "The body is not JSON: expected ',' or ']' (byte {byte}).", byte=at + 1
        )
    at = yield from skip_blank(body, at + 1)
    if at < len(body):
        raise Invalid.of(
            "body.trailing", "The body is not JSON: trailing characters (byte {byte}).", byte=at + 1
        )


def _too_long(index: int, longest: int) -> Invalid:
    return Invalid.of(
        "event.too_long_of_batch",
        "events[{index}] has more than {longest:,} bytes, the maximum for an event of a batch.",
        index=index,
        longest=longest,
    )


class EventReader(msgspec.Struct):
    """Reads the events of one request.

    Attributes:
        instance: the instance of all events; they may name another.
        now: the time of events without one, in seconds since the epoch.
        key: the ``Idempotency-Key`` header, which is the id of a single event.
        path_kind: the kind that the path names, in any spelling; an event may then be its payload alone.
        by_message: whether events without an id get one from their message; see :func:`id_of_message`.
        schemas: find violations; ``None`` if nobody wants to know them.
        kind: the kind of the name in the path.
        ignored: a warning for each ignored field: once, however many events of a batch have it.
        hints: whether unknown kinds get suggestions.

    Raises:
        Invalid: the key or the kind is invalid.
    """

    instance: str
    catalog: Catalog
    now: float
    limits: EmitLimits = EmitLimits()
    key: str | None = None
    path_kind: str | None = None
    by_message: bool = False
    schemas: SchemaBook | None = None
    kind: EventKind | None = None
    ignored: dict[str, None] = {}
    hints: bool = True

    def __post_init__(self) -> None:
        key = self.key
        if key is not None:
            # The header's draft standard makes it a quoted string; most clients send it without quotes.
            self.key = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
            if not EVENT_ID.fullmatch(self.key):
                raise Invalid.of(
                    "idempotency.id_form",
                    "Idempotency-Key must be 1 to 255 characters of A-Z a-z 0-9 _ -.",
                )
        if self.path_kind is not None:
            self.kind = self.catalog.resolve(self.path_kind, "The kind in the path")

    def read(  # noqa: C901 -- reads once from top to bottom
        self, body: bytes, *, lines: bool
    ) -> Generator[None, None, Batch]:
        """Read the events in a body, and pause after each one.

        A batch of 16 MiB takes a second and more. The caller decides at each pause whether other work is
        next.

        Args:
            body: JSON, or with ``lines`` (``application/x-ndjson``) one JSON object per line.

        Raises:
            Invalid: with the index of every bad event. None of the events may be accepted then.
            TooLarge: a single event exceeds its limit.
        """
        single = self.read_single(body, lines=lines)
        if single is not None:
            return single
        limits, key, longest = self.limits, self.key, self.limits.max_item
        events: list[CheckedEvent] = []
        problems: list[str] = []
        unexplained: list[str] = []
        index = 0
        for item in _lines(body) if lines else items_of(body, longest):
            if item is None:
                yield
                continue
            if len(item) > longest:
                raise _too_long(index, longest)
            if index >= limits.max_events:
                raise Invalid.of(
                    "batch.too_many_events",
                    "The batch has too many events: at most {most:,} are allowed.",
                    most=limits.max_events,
                )
            if key is not None and index:
                raise Invalid.of(
                    "idempotency.several_events",
                    "Idempotency-Key is the id of a single event, but the batch has several.",
                )
            try:
                events.append(self._event(item, f"events[{index}]"))
            except Invalid as error:
                self.hints = len(problems) < _MAX_HINTS
                if len(problems) < MAX_REASONS:
                    problems.extend(error.messages)
                else:
                    unexplained.append(f"events[{index}]")
            index += 1
            yield
        if key is not None and not index:
            raise Invalid.of(
                "idempotency.no_events",
                "Idempotency-Key is the id of a single event, but the batch is empty.",
            )
        if unexplained:
            problems.append(
                Sentence(
                    "events.invalid_unexplained",
                    "These events are invalid too, for reasons not listed: {events}.",
                    events=", ".join(unexplained),
                )
            )
        if problems:
            raise Invalid(*problems)
        return Batch(events, list(self.ignored))

    def read_single(self, body: bytes, *, lines: bool) -> Batch | None:
        """Read a body that is one event, as :meth:`read` does. ``None`` if it is a list, or lines."""
        # The first byte decides nearly always, without copying a body of 16 MiB to strip it.
        if lines or (body[:1] != b"{" and body.lstrip(_SPACE)[:1] == b"["):
            return None
        # Only a batch may use the larger limit of the request body.
        if len(body) > self.limits.max_single:
            raise TooLarge.of(
                "body.single_event_too_long",
                "The body of a single event may have at most {limit}.",
                limit=Size(self.limits.max_single),
            )
        return Batch([self._event(body, "")], list(self.ignored), is_single=True)

    def _event(self, text: bytes, where: str) -> CheckedEvent:  # noqa: C901 -- one check after the other, on the hot path
        """Read one event. ``Invalid`` has the first mistake, prefixed with ``where``."""
        if len(text) >= LARGE and gc.isenabled():
            with no_collection():  # until the decoded payload is gone, which is only needed for the checks
                return self._event(text, where)  # goes on from here, because the collector is off
        limits = self.limits
        try:
            value = decode_strict(text, limits.max_values)
        except ValueError as error:
            raise Invalid(
                Sentence("event.refused", "{where} {reason}.", where=where, reason=error)
                if where
                else BODY_REFUSED(reason=error)
            ) from None
        envelope: dict[str, Any] = {}
        event_id, kind, time = self.key, self.kind, self.now
        if kind is not None and not (isinstance(value, dict) and value.keys() >= _NEEDED):
            payload, data = value, text.strip(_SPACE)
        else:
            if not isinstance(value, dict):
                raise Invalid.of(
                    "event.not_object",
                    "{where} must be an object with event and data, not {kind}.",
                    where=where or "The body",
                    kind=kind_of(value),
                )
            envelope = value
            if not envelope.keys() <= _KNOWN:
                self._warn_of_ignored(envelope)

            own_id = envelope.get("id")
            if own_id is not None:
                if not isinstance(own_id, str) or not EVENT_ID.fullmatch(own_id):
                    raise Invalid(EVENT_ID_FORM(where=_at(where, "id")))
                if event_id is not None and own_id != event_id:
                    raise Invalid.of(
                        "event.id_differs",
                        "{where} differs from the Idempotency-Key header: send one of them.",
                        where=_at(where, "id"),
                    )
                event_id = own_id

            name = envelope.get("event")
            kind = self.catalog.get(name) if isinstance(name, str) else None
            if kind is None:
                raise self._unknown_kind(name, _at(where, "event"))
            if self.kind is not None and kind.name != self.kind.name:
                raise Invalid.of(
                    "event.kind_differs",
                    "{where} is {name}, but the path says {path_name}.",
                    where=_at(where, "event"),
                    name=kind.name,
                    path_name=self.kind.name,
                )

            if "data" not in envelope:
                raise Invalid.of(
                    "event.data_missing", "{where} is missing: it is the payload.", where=_at(where, "data")
                )
            # The bytes of the payload, so that the order of keys and the digits of numbers survive.
            payload, data = envelope["data"], bytes(_payload_of(text).data)

        data = unmarked(data)
        if kind.operational:
            sentence = OPERATIONAL_KIND(kind=kind.name)
            raise Invalid(sentence.at(f"{where}: ") if where else sentence)
        if len(data) > limits.max_data:
            raise Invalid(
                DATA_TOO_LONG(where=_at(where, "data"), bytes=len(data), limit=Size(limits.max_data))
            )
        violation = None if self.schemas is None else self.schemas.violation(kind.name, payload, len(data))
        if event_id is None and self.by_message:
            event_id = id_of_message(kind.name, payload, data)

        date_time = envelope.get("date_time")
        if date_time is not None:
            try:
                time = parse_rfc3339(date_time) if isinstance(date_time, str) else -1.0
            except ValueError:
                time = -1.0
            # Times before 1970 are clients' bugs, and an offset can push a time beyond the year 9999.
            if not 0 <= time < YEAR_10000:
                form = "an RFC 3339 time such as 2026-11-20T12:00:00.000Z"
                raise Invalid.of(
                    "event.time_form", "{where} must be {form}.", where=_at(where, "date_time"), form=form
                )

        sender, server_url = envelope.get("sender"), envelope.get("server_url")
        for name, given in (("sender", sender), ("server_url", server_url)):
            # PostgreSQL stores no NUL in a text.
            if given is not None and not (
                isinstance(given, str) and len(given) <= 2048 and "\0" not in given
            ):
                raise Invalid.of(
                    "event.text_form",
                    "{where} must be a string of at most 2,048 characters, none of them NUL.",
                    where=_at(where, name),
                )
        return CheckedEvent(
            Event(
                id=event_id or new_event_id(self.now),
                kind=kind.name,
                instance=self.instance,
                data_json=data,
                time=time,
                sender=sender,
                server_url=server_url,
            ),
            violation,
        )

    def _unknown_kind(self, name: object, where: str) -> Invalid:
        """Return the error about the name of a kind that the catalog does not have."""
        if name is None:
            return Invalid.of(
                "event.kind_missing", "{where} is missing: it is the name of an event kind.", where=where
            )
        if self.hints:
            self.catalog.resolve(name, where)  # raises, with the nearest name
        return Invalid.of("event.kind_unknown", "{where} is not a known event kind.", where=where)

    def _warn_of_ignored(self, envelope: dict[str, Any]) -> None:
        for name in envelope:
            if len(self.ignored) >= _MAX_WARNINGS:
                return
            if name in _KNOWN or name in _IGNORED:
                continue
            if name != "instance":
                self.ignored[unknown_field(show_name(name))] = None
            # The body must not choose the instance: the key was checked against the one in the path.
            elif envelope[name] != self.instance:
                self.ignored[f"instance was ignored: the path says {self.instance}."] = None


def id_of_message(kind: str, data: Any, data_json: bytes) -> str | None:
    """Return the id of an event that reports a message: the same if the event comes again.

    ``None`` if the payload does not tell a repetition from another event of the same message.
    """
    if not isinstance(data, dict):
        return None
    key = data.get("key")
    key = key if isinstance(key, dict) else data
    message = key.get("id") if key is not data else None
    parts: list[Any] = [key.get("remoteJid"), key.get("fromMe"), key.get("participant")]
    if kind == "MESSAGES_UPDATE":
        # Each status of a message is a separate event, and in a group each reader's. Votes in a poll all have
        # the same status.
        message, status = message or data.get("keyId") or data.get("id"), data.get("status")
        if not isinstance(status, str) or data.get("pollUpdates"):
            return None
        parts.append(status)
    # Evolution API 2.3.7 tells an edit as a status, with the new content beside it.
    if kind in _EDITS or (kind == "MESSAGES_UPDATE" and data.get("message")):
        parts.append(data_json.decode())
    if not message or not isinstance(message, str):
        return None
    return event_id_of(message, kind, _FILLER, *map(_part, parts))


def _part(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else repr(value)


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
