"""Read the JSON that a network wrote, whose fields may be missing or of any type. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from hookgw.kernel.network_json import NetworkEvents, decode_json, mend

LARGEST_NUMBER = 2**53
"""Beyond it, JSON's numbers are not exact everywhere."""
LATEST_TIME = 253_402_300_799
"""The last second of the year 9999, since the epoch."""

_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,15})?", re.ASCII)
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON array; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def each(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of a list, which are decoded meanwhile; none for any other value.

    An item that is no object is yielded as an empty one, so that a caller in
    :meth:`hookgw.Session.in_turns` can pause at each.
    """
    return map(mapping, value if isinstance(value, (list, NetworkEvents)) else ())


def text(value: Any) -> str:
    """Return a text that can be stored, or an empty one for any other value."""
    if not isinstance(value, str):
        return ""
    # Half of a surrogate pair has no UTF-8: the lenient reader of a broken body lets it through.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def strings(value: Any) -> list[str]:
    """Return the texts in a JSON array; none for any other value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def found_at(value: Any, *path: str) -> Any:
    """Return what is at a path of names in an object; ``None`` if there is nothing."""
    for name in path:
        value = mapping(value).get(name)
    return value


def raw_at(body: bytes, name: str) -> bytes:
    """Return the JSON of a field of an object, byte for byte; ``null`` if there is none.

    Only what no strict reader takes is replaced, as in :meth:`hookgw.Session.decode_json`.
    """
    try:
        raw = bytes(_fields_of(mend(body)).get(name, b"null"))  # a view of the whole body otherwise
        try:
            msgspec.json.decode(raw)
        except ValueError:  # it has a number that no double holds
            raw = msgspec.json.encode(decode_json(raw))
    except (ValueError, RecursionError):
        return b"null"
    return raw


def raw_items(body: bytes) -> list[bytes]:
    """Return the JSON of each item of an array, byte for byte; none for any other value."""
    try:
        return [bytes(item) for item in _items_of(mend(body))]
    except (ValueError, RecursionError):
        return []


def as_written(raw: bytes, value: Any) -> bytes:
    """Return the JSON of a decoded value: ``raw`` if that is this value, or else what it is encoded to.

    Args:
        raw: what the network seems to have written for the value.
        value: decoded, perhaps without what could not be read.
    """
    try:
        if msgspec.json.decode(raw) == value:
            return raw
    except (ValueError, RecursionError):
        pass
    return msgspec.json.encode(value, enc_hook=list)


def number(value: Any) -> int | None:
    """Return an integer from 0 to 2^53, which may be written as a text; ``None`` for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_NUMBER:
        return None
    return value


def any_number(value: Any) -> float | None:
    """Return a number, which may be written as a text, or as the halves of a 64-bit integer.

    JavaScript's protobuf writes such integers as ``{"low": 1773027345, "high": 0, "unsigned": true}``.

    Returns:
        ``None`` for any other value.
    """
    if isinstance(value, dict):
        low, high = value.get("low"), value.get("high")
        if type(low) is not int or type(high) is not int:
            return None
        value = (high << 32) + (low & 0xFFFF_FFFF)
    elif isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) < value < 2**63:
        return None
    return float(value)


def seconds(value: Any) -> int:
    """Return a time in seconds since the epoch, at most :data:`LATEST_TIME`; 0 if it is none.

    It may be a number of seconds or of milliseconds in any form, or a date with its offset, as Go writes it.
    """
    found = any_number(value) or 0
    if found > 100_000_000_000:  # milliseconds
        found /= 1000
    elif not found and isinstance(value, str) and 20 <= len(value) <= 40:
        try:
            moment = datetime.fromisoformat(value)
            found = moment.timestamp() if moment.tzinfo is not None else 0
        except (ValueError, OverflowError):
            return 0
    return int(min(max(found, 0), LATEST_TIME))


def degrees(value: Any, most: float = 180) -> float | None:
    """Return a latitude or longitude, which may be written as a text; ``None`` for any other value.

    Args:
        value: the value.
        most: the largest number of degrees, in both directions.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if -most <= found <= most else None


def one_line(value: Any) -> str:
    """Return a text on one line, with single spaces; an empty one for any other value."""
    return " ".join(text(value).split())


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are texts, without empty ones."""
    return {name: shown for name, value in values.items() if (shown := text(value))}


def filled(**values: Any) -> dict[str, Any]:
    """Return the given fields that are not empty, zero, false or ``None``."""
    return {name: value for name, value in values.items() if value}
