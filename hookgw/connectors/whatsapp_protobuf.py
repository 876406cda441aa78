"""Messages of WhatsApp's protobuf, as programs in Go write them. No I/O.

Gateways on whatsmeow pass its structs on as Go's JSON has them, with other names than Baileys, whose names
receivers read: ``stanzaID`` is ``stanzaId``, ``JPEGThumbnail`` is ``jpegThumbnail``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_WORD = re.compile(
    r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+[0-9]*|[^A-Za-z0-9]+", re.ASCII
)
_GO_NAME = re.compile(r"[A-Z][a-z]", re.ASCII)


def baileys_names(value: Any) -> Any:
    """Return a part of a message under the names that Baileys has for it, at any depth.

    Of two members that have one name with Baileys, the first one counts.

    Args:
        value: as Go wrote it, decoded.
    """
    if isinstance(value, list):
        return [baileys_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, item in value.items():
        if _GO_NAME.match(name) and item is None:
            continue
        if _GO_NAME.match(name) and isinstance(item, dict) and len(item) == 1 and _GO_NAME.match(min(item)):
            # A field of which the protobuf has one of several: Go puts it into an object of its own.
            [(name, item)] = item.items()
        found.setdefault(_baileys_name(name), baileys_names(item))
    return found


@lru_cache(4096)
def _baileys_name(name: str) -> str:
    words: list[str] = _WORD.findall(name)
    return "".join(
        word[:1] + word[1:].lower() if number else word.lower() for number, word in enumerate(words)
    )
