"""What Evolution API posts, as events of hookgw. No I/O.

``{"event", "instance", "data", "destination", "date_time", "sender", "server_url", "apikey"}``, of
``src/api/integrations/event/webhook/webhook.controller.ts``; version 1 posts the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from typing import Any

import msgspec

from hookgw import decode_json, event_id_of

STATES = {"open": "open", "connecting": "connecting", "close": "close", "refused": "close"}
"""Evolution API's words for the state of a connection. It says "refused" when no code was scanned in time."""
_DEEPEST = 150
_LARGEST_INTEGER = 2**63
_LONGEST_INTEGER = 400


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One event of Evolution API.

    Attributes:
        event: its kind, in any spelling; empty if it names none.
        data: the payload.
        data_json: the same, byte for byte as it came; ``None`` if it had to be repaired.
        date_time: when Evolution API raised it, in its own words; empty for none.
        sender: the account; ``None`` for none.
    """

    event: str
    data: Any = None
    data_json: bytes | None = None
    date_time: str = ""
    sender: str | None = None

    @property
    def kind(self) -> str:
        """The kind in capitals."""
        return self.event.upper().replace(".", "_").replace("-", "_")

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
        the same data is the same event. Sent and deleted messages have the ids that hookgw gives them when
        the call was its own.

        Args:
            kind: of hookgw's catalog.
        """
        if kind in ("SEND_MESSAGE", "MESSAGES_DELETE"):
            data = self.data
            key = (
                data.get("key", data if kind == "MESSAGES_DELETE" else None)
                if isinstance(data, dict)
                else None
            )
            parts = [key.get("remoteJid"), key.get("id")] if isinstance(key, dict) else []
            named = [part for part in parts if isinstance(part, str) and part]
            if len(named) == 2:
                return event_id_of(kind, *named)
        encoded = msgspec.json.encode(self.data) if self.data_json is None else self.data_json
        return event_id_of(kind, self.date_time, hashlib.sha256(encoded).hexdigest())


class _Envelope(msgspec.Struct):
    event: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    date_time: str | None = None
    sender: str | None = None


_decode = msgspec.json.Decoder(_Envelope).decode


def read_reports(body: bytes, path: str) -> list[Report]:
    """Return the events in a request; none if it is JSON without any.

    Args:
        body: of the request.
        path: what follows hookgw's URL: the kind, if the webhook goes by events.

    Raises:
        ValueError: the body is not JSON, perhaps because a part of it is missing.
    """
    try:
        found = _decode(body)
        data = decode_json(bytes(found.data))
        body.decode()  # the decoder skips over texts without a look at their encoding
    except (ValueError, RecursionError):
        return _read_leniently(body, path)
    return [
        Report(
            event=found.event or path,
            data=data,
            # A view of the whole body otherwise.
            data_json=bytes(found.data),
            date_time=found.date_time or "",
            sender=found.sender or None,
        )
    ]


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


def _read_leniently(body: bytes, path: str) -> list[Report]:
    try:
        found = plain(json.loads(body.decode("utf-8", "replace"), parse_int=_int))
    except RecursionError:
        return []
    return [
        Report(
            event=_text(one.get("event")) or path,
            data=one.get("data"),
            date_time=_text(one.get("date_time")),
            sender=_text(one.get("sender")) or None,
        )
        for one in (found if isinstance(found, list) else [found])
        if isinstance(one, dict)
    ]


def _int(digits: str) -> int | None:
    # Python refuses the longest ones, which would look like a body that is cut off.
    return int(digits) if len(digits) <= _LONGEST_INTEGER else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


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
