"""Reads the ids, numbers and times that WAHA and its engines wrote, each in its own way. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hookgw.connectors import LATEST_TIME, mapping, text

_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,15})?", re.ASCII)


def id_text(value: Any) -> str:
    """Return an id, which WhatsApp Web's own objects have inside; empty for any other value."""
    nested = mapping(value)
    return text(value) or text(nested.get("_serialized")) or text(nested.get("$1"))


def number(value: Any) -> float | None:
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
    """Return a time in seconds since the epoch; 0 if it is none.

    It may be a number of seconds or of milliseconds in any form, or a date with its offset as Go writes it.
    """
    found = number(value) or 0
    if found > 100_000_000_000:  # milliseconds
        found /= 1000
    elif not found and isinstance(value, str) and 20 <= len(value) <= 40:
        try:
            moment = datetime.fromisoformat(value)
            found = moment.timestamp() if moment.tzinfo is not None else 0
        except (ValueError, OverflowError):
            return 0
    return int(min(max(found, 0), LATEST_TIME))


def renamed(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that ``names`` has, under their other names, without those that say nothing."""
    return {
        name: value[source]
        for source, name in names.items()
        if value.get(source) is not None and value[source] is not False and value[source] not in ("", [])
    }
