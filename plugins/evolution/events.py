"""What Evolution API posts, as events of hookgw.

``{"event", "instance", "data", "destination", "date_time", "sender", "server_url", "apikey"}``, of
``src/api/integrations/event/webhook/webhook.controller.ts``; version 1 posts the same.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import msgspec
import trio

from hookgw import Session, event_id_of, jids_of
from hookgw.connectors import NetworkEvents, decode_json, mapping, seconds, text

STATES = {"open": "open", "connecting": "connecting", "close": "close", "refused": "close"}
"""Evolution API's words for the state of a connection. It says "refused" when no code was scanned in time."""
_DEEPEST = 150
_LARGEST_INTEGER = 2**63
_TOO_DEEP = "is nested too deeply"
_LARGEST_ENVELOPE = 64 * 1024
_MOST_VALUES = 20_000
"""JSON values of one of the events that a long list becomes."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One event of Evolution API.

    Attributes:
        event: its kind, in any spelling; empty if it names none.
        data: the payload.
        data_json: the same, byte for byte as it came; ``None`` if it had to be repaired.
        date_time: when Evolution API raised it, in its own words; empty for none.
        sender: the account; ``None`` for none.
        is_beside: whether the data is what stood beside the data of an event.
    """

    event: str
    data: Any = None
    data_json: bytes | None = None
    date_time: str = ""
    sender: str | None = None
    is_beside: bool = False

    @property
    def kind(self) -> str:
        """The kind in capitals."""
        return self.event.upper().replace(".", "_").replace("-", "_")

    @property
    def sent(self) -> int:
        """When the message was sent, in seconds since the epoch; 0 if there is no such time."""
        return seconds(mapping(self.data).get("messageTimestamp"))

    def parts(self, count: int) -> list[Report]:
        """Return the report; or, of a list, so many reports with a part of it each."""
        if count == 1 or not isinstance(self.data, list):
            return [self]
        size = -(-len(self.data) // count)
        slices = [self.data[start : start + size] for start in range(0, len(self.data), size)]
        return [msgspec.structs.replace(self, data=part, data_json=None) for part in slices]

    def event_id(self, kind: str) -> str:
        """Return the id of the event.

        Evolution API posts the same object again until it is answered: what was raised at the same time with
        the same data is the same event. Messages have an id of their own, by which a report, the history and
        the answer to a call are one event.

        Args:
            kind: of hookgw's catalog.
        """
        data = mapping(self.data)
        key = mapping(data.get("key", data if kind == "MESSAGES_DELETE" else None))
        chat, id_ = text(key.get("remoteJid")), text(key.get("id"))
        if chat and kind != "MESSAGES_DELETE":
            # Evolution API 2.3.7 has the number in webhooks, and in its database "@lid" beside the number.
            chat = jids_of(key)[0]
        if chat and id_ and kind in ("SEND_MESSAGE", "MESSAGES_DELETE"):
            return event_id_of(kind, chat, id_)
        if chat and id_ and kind == "MESSAGES_UPSERT":
            # The history does not say how a message of the account was sent.
            return event_id_of("SEND_MESSAGE" if key.get("fromMe") is True else kind, chat, id_)
        encoded = msgspec.json.encode(self.data) if self.data_json is None else self.data_json
        return event_id_of(kind, self.date_time, hashlib.sha256(encoded).hexdigest())


class _Envelope(msgspec.Struct):
    event: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    date_time: str | None = None
    sender: str | None = None
    is_latest: Any = msgspec.field(default=msgspec.UNSET, name="isLatest")
    progress: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_Envelope).decode


async def read_reports(session: Session, body: bytes, path: str) -> list[Report]:
    """Return the events in a request; none if it is JSON without any.

    Of a list of contacts, chats or messages that has very many values, each part becomes an event.

    Args:
        session: reads the body.
        body: of the request.
        path: what follows hookgw's URL: the kind, if the webhook goes by events.

    Raises:
        ValueError: the body is not JSON, perhaps because a part of it is missing.
        EventLeftOut: it is too large to be read.
    """
    left_out: list[bytes] = []
    if len(body) <= session.max_data + _LARGEST_ENVELOPE:  # a larger one cannot be stored as it came
        try:
            found = _decode(body)
            body.decode()  # the decoder skips over texts without a look at their encoding
        except (ValueError, RecursionError):
            pass
        else:
            data_json = bytes(found.data)  # a view of the whole body otherwise
            with suppress(ValueError):
                data = await session.decode_json(data_json, events=("", "/#"), left_out=left_out.append)
                report = Report(
                    event=found.event or path,
                    data=data,
                    data_json=None if left_out else data_json,
                    date_time=found.date_time or "",
                    sender=found.sender or None,
                )
                reports = [] if left_out and not data else await _in_parts(session, report)
                return [*reports, *_beside(report, isLatest=found.is_latest, progress=found.progress)]
    try:
        whole = await session.decode_json(body, events=("/data", "/data/#", "/#"), left_out=left_out.append)
    except ValueError as error:
        if str(error) != _TOO_DEEP:
            raise
        return []  # nobody can read it, however often it comes
    if isinstance(whole, dict):
        whole = [] if left_out and "data" not in whole else [whole]
    reports = []
    for one in whole if isinstance(whole, (list, NetworkEvents)) else ():
        await trio.lowlevel.checkpoint()
        if isinstance(one, dict):
            data = one.get("data")
            if left_out and isinstance(data, NetworkEvents) and not data:
                continue
            with suppress(RecursionError):
                report = Report(
                    event=text(one.get("event")) or path,
                    data=data if isinstance(data, NetworkEvents) else plain(data),
                    date_time=text(one.get("date_time")),
                    sender=text(one.get("sender")) or None,
                )
                reports += await _in_parts(session, report)
                more = {name: plain(one.get(name, msgspec.UNSET)) for name in ("isLatest", "progress")}
                reports += _beside(report, **more)
    return reports


def _beside(report: Report, **fields: Any) -> list[Report]:
    """Return a report of how far a history sync is, which Evolution API tells beside the messages."""
    said = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    encoded = msgspec.json.encode(said)
    return [msgspec.structs.replace(report, data=None, data_json=encoded, is_beside=True)] if said else []


async def _in_parts(session: Session, report: Report) -> list[Report]:
    """Return a report, or of a list with very many values, a report for each part of it."""
    if not isinstance(report.data, NetworkEvents):
        return [report]
    texts = await session.in_turns(_join(report.data, session.max_data))
    if len(texts) > 1:
        return [msgspec.structs.replace(report, data=None, data_json=one) for one in texts]
    data = list(report.data)
    if report.data and not data:
        return []  # all of it was left out
    return [msgspec.structs.replace(report, data=data if report.data_json is not None else plain(data))]


def _join(found: NetworkEvents, largest: int) -> Generator[None, None, list[bytes]]:
    """Return the items of a list as lists that are large, but not too large."""
    texts: list[bytes] = []
    parts: list[bytes] = []
    values = size = 0
    for part in found.texts():
        yield
        # At least as many as are counted when it is decoded: long numbers count more, too.
        more = 1 + sum(map(part.count, (b",", b":", b"["))) + part.count(b"\\") // 100
        more += (len(part) - len(part.translate(None, b"0123456789"))) * 10 // 64
        if parts and (values + more > _MOST_VALUES or size + len(part) > largest):
            texts.append(b"[%b]" % b",".join(parts))
            parts, values, size = [], 0, 0
        parts.append(part[1:-1])
        values, size = values + more, size + len(part)
    return [*texts, b"[%b]" % b",".join(parts)]


def repaired(report: Report) -> Report | None:
    """Return a report whose payload hookgw can store; ``None`` if there is nothing to repair.

    JavaScript cuts texts in the middle of an emoji, and other programs write numbers that no double holds.
    """
    if report.data_json is None:
        return None
    try:
        data = plain(decode_json(report.data_json))
    except (ValueError, RecursionError):
        return None
    return Report(event=report.event, data=data, date_time=report.date_time, sender=report.sender)


def plain(value: Any, depth: int = 0) -> Any:
    """Return a JSON value that every reader understands in the same way."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value) is int and abs(value) >= _LARGEST_INTEGER:
        return None if abs(value) > sys.float_info.max else float(value)
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        return {plain(name): plain(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in value]
    return value
