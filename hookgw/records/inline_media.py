"""Files inside events, as base64, for registrations that ask for them. No I/O.

A connector puts the file into ``data.message.base64``. The session encodes such a payload with the file in
front, and spells the beginning in a way that no JSON encoder does. This beginning is the mark: it is stored
with the payload, the first bytes show it, and the file can be cut out without decoding the rest. A payload
that arrives as JSON gets no mark, so it is delivered unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hookgw.records.events import Event

MARK = b'{ "message" : { "base64" : "'
"""How a payload begins that contains a file."""

LIMIT_RESERVE = 16 * 2**10
"""Bytes of a payload that are kept free for everything beside the file."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def largest_file(max_data: int) -> int:
    """Return the bytes of the largest file that fits into a payload as base64; 0 if none does."""
    return max(0, (max_data - LIMIT_RESERVE) // 4 * 3)


def encode_payload(data: Any, *, wants_file: Callable[[], bool], max_data: int) -> bytes:
    """Encode a connector's payload. A file in ``message.base64`` is marked, or left out.

    The file is left out if no registration of the instance wants it, or if the payload would exceed
    ``max_data``.

    Raises:
        TypeError: the payload cannot be encoded as JSON.
    """
    encoded = Event.encode(data)
    # Only connectors come here, and few of their events have a file.
    if b'"base64":"' not in encoded:
        return encoded
    try:
        fields = _decode(encoded)
        message = _decode(fields.pop("message"))
        file = bytes(message.pop("base64"))
    except (KeyError, msgspec.ValidationError):
        return encoded  # a base64 elsewhere, such as that of a QR code
    # A text without escapes: the next quotation mark ends it. Not a regular expression, which takes 10 ms.
    if not file.startswith(b'"') or file == b'""' or b"\\" in file:
        return encoded
    rest = msgspec.json.encode(message)[1:]
    others = msgspec.json.encode(fields)[1:]
    joined = b"%b%b%b%b" % (MARK, file[1:], b"," if message else b"", rest)
    marked = b"%b%b%b" % (joined, b"," if fields else b"", others)
    return marked if wants_file() and len(marked) <= max_data else _cut(marked)


def unmarked(data_json: bytes) -> bytes:
    """Return a payload that arrived as JSON, without the mark: the same value, perhaps with one space less.

    A producer may send a payload that begins with the mark. Registrations without ``base64`` would then lose
    ``message.base64`` or get broken JSON, because the text can contain escapes.
    """
    return b"{" + data_json[2:] if data_json.startswith(MARK) else data_json


def without_file(event: Event) -> Event:
    if not event.data_json.startswith(MARK):
        return event
    return msgspec.structs.replace(event, data_json=_cut(event.data_json))


def _cut(marked: bytes) -> bytes:
    # A base64 text has no escapes: the next quotation mark ends it.
    rest = marked.index(b'"', len(MARK)) + 1
    return b'{"message":{' + marked[rest + marked.startswith(b",", rest) :]
