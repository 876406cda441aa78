"""Reads the ids that WAHA and its engines wrote, each in its own way. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookgw.connectors import mapping, text


def id_text(value: Any) -> str:
    """Return an id, which WhatsApp Web's own objects have inside; empty for any other value."""
    nested = mapping(value)
    return text(value) or text(nested.get("_serialized")) or text(nested.get("$1"))


def renamed(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that ``names`` has, under their other names, without those that say nothing."""
    return {
        name: value[source]
        for source, name in names.items()
        if value.get(source) is not None and value[source] is not False and value[source] not in ("", [])
    }
