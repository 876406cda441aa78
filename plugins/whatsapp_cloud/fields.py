"""Reads the fields of JSON that others wrote, of whatever type they are. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookgw import NetworkEvents

_LARGEST = 2**53


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON array; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def each(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of a list, which are decoded meanwhile; none for any other value."""
    # Nothing is skipped here: of a million numbers, the caller pauses at each.
    return map(mapping, value if isinstance(value, (list, NetworkEvents)) else ())


def text(value: Any) -> str:
    """Return a text, or an empty one for any other value."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """Return an integer from 0 to 2^53, also one that is written as a text; ``None`` for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        return None
    return value


def degrees(value: Any) -> float | None:
    """Return a number of degrees, also one that is written as a text; ``None`` for any other value."""
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 1e9
    except (ValueError, OverflowError):
        return None
    return found if -360 <= found <= 360 else None
