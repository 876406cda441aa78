"""Files inside events, as base64, for registrations that ask for them. No I/O.

A connector puts the file into ``data.message.base64``. The session keeps the order of such a payload, and
spells two places in a way that no JSON encoder does: its beginning is the mark, which shows that there is a
file, and the file's name shows where, so that the file can be cut out without decoding the rest. A payload
that arrives as JSON gets no mark, so it is delivered unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hookgw.records.events import Event

MARK = b'{\t\r \t\r "'
"""How a payload begins that contains a file: as hardly any producer writes, because it loses a space then."""
_FILE = b'"base64" : "'

MEDIA_PATH = "/media/"
"""Begins the path of a link to a file."""

LIMIT_RESERVE = 16 * 2**10
"""Bytes of a payload that are kept free for everything beside the file."""
LIMIT_SETTING = "events.max_data"

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def largest_file(max_data: int) -> int:
    """Return the bytes of the largest file that fits into a payload as base64; 0 if none does."""
    return max(0, (max_data - LIMIT_RESERVE) // 4 * 3)


def encode_payload(data: Any, *, wants_file: Callable[[], bool], max_data: int) -> bytes:
    """Encode a connector's payload. A file in ``message.base64`` is marked, or left out.

    The file is left out if no registration of the instance wants it, or if the payload would exceed
    ``max_data``: then the payload says so, as :func:`explain_missing_file` does.

    Raises:
        TypeError: the payload cannot be encoded as JSON.
    """
    encoded = Event.encode(data)
    # Only connectors come here, and few of their events have a file.
    if b'"base64":"' not in encoded:
        return encoded
    try:
        fields = _decode(encoded)
        message = _decode(fields["message"])
        file = bytes(message["base64"])
    except (KeyError, msgspec.ValidationError):
        return encoded  # a base64 elsewhere, such as that of a QR code
    # A text without escapes: the next quotation mark ends it. Not a regular expression, which takes 10 ms.
    if not file.startswith(b'"') or file == b'""' or b"\\" in file:
        return encoded
    members = [
        _FILE + file[1:] if name == "base64" else b"%b:%b" % (msgspec.json.encode(name), bytes(value))
        for name, value in message.items()
    ]
    fields["message"] = msgspec.Raw(b"{%b}" % b",".join(members))
    marked = MARK + msgspec.json.encode(fields).removeprefix(b'{"')
    if not wants_file():
        return _cut(marked)
    if len(marked) <= max_data:
        return marked
    found = msgspec.json.decode(_cut(marked))
    explain_missing_file(found, too_large(len(file) // 4 * 3, largest_file(max_data)), LIMIT_SETTING)
    return msgspec.json.encode(found)


def too_large(size: int, most: int) -> str:
    """Return the reason why a file is not inside an event."""
    return f"The file has {size:,} bytes, and an event has room for one of {most:,}."


def explain_missing_file(data: dict[str, Any], reason: str, setting: str | None = None) -> None:
    """Say in a payload why it does not have the file that a registration wants; a link to the file is enough.

    Args:
        data: of an event; it gets ``mediaUnavailable``.
        reason: a sentence.
        setting: what to change so that the file is inside; ``None`` if no setting helps.
    """
    message = data.get("message")
    if isinstance(message, dict) and not message.get("mediaUrl"):
        urls = [one.get("url") for one in message.values() if isinstance(one, dict)]
        # Without server.public_url, hookgw's links are paths. Other URLs lead to what WhatsApp has encrypted.
        if not any(isinstance(url, str) and "://" in url and MEDIA_PATH in url for url in urls):
            data["mediaUnavailable"] = {"reason": reason, "setting": setting}


def unmarked(data_json: bytes) -> bytes:
    """Return a payload that arrived as JSON, without the mark: the same value, perhaps with fewer spaces.

    A producer may send a payload that begins with the mark. Registrations without ``base64`` would then lose
    ``message.base64`` or get broken JSON, because the text can contain escapes.
    """
    return b'{"' + data_json[len(MARK) :] if data_json.startswith(MARK) else data_json


def without_file(event: Event) -> Event:
    if not event.data_json.startswith(MARK):
        return event
    return msgspec.structs.replace(event, data_json=_cut(event.data_json))


def _cut(marked: bytes) -> bytes:
    # A base64 text has no escapes: the next quotation mark ends it.
    start = marked.index(_FILE)
    end = marked.index(b'"', start + len(_FILE)) + 1
    before, after = b"{" + marked[1:start].lstrip(), marked[end:]
    if after.startswith(b","):
        return before + after[1:]
    return before.removesuffix(b",") + after
