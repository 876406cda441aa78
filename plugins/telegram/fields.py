"""Reads the ids of what the Bot API server says. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.connectors import LARGEST_NUMBER


def identifier(value: Any) -> str:
    """Return the id of a chat, user or message as text; empty for anything but a number of 53 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < abs(value) <= LARGEST_NUMBER:
        return ""
    return str(value)
