"""Reads the fields of what the Bot API server says, whatever they are. No I/O."""

from __future__ import annotations

from typing import Any

_LARGEST_NUMBER = 2**53
_LARGEST_TIME = 253_402_300_799  # the last second of the year 9999


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON array; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a text, or an empty one for any other value."""
    if not isinstance(value, str):
        return ""
    # Half of a surrogate pair cannot be stored: the lenient reader of a broken body lets it through.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def identifier(value: Any) -> str:
    """Return the id of a chat, user or message as text; empty for anything but a number of 53 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < abs(value) <= _LARGEST_NUMBER:
        return ""
    return str(value)


def number(value: Any) -> int | None:
    """Return a whole number that is not negative, or ``None`` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST_NUMBER:
        return None
    return value


def seconds(value: Any) -> int:
    """Return a time, or 0 for any other value."""
    return min(number(value) or 0, _LARGEST_TIME)


def degrees(value: Any) -> float | None:
    """Return a latitude or longitude, or ``None`` for any other value."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and -180 <= value <= 180 else None
