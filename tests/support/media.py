"""Links to inbound files, for sessions without a gateway."""

from __future__ import annotations

from typing import Any

from hookgw.auth.media_links import KEY_BYTES, MediaLinks
from hookgw.gateway.connectors.inbound_media import InboundMedia
from hookgw.gateway.registry import Registry


def inbound_media(max_data: int = 2**20) -> InboundMedia:
    """Return what a session needs; no registration wants files inside events."""
    unused: Any = None
    return InboundMedia(MediaLinks(bytes(KEY_BYTES), 60, "", float), Registry(unused, unused), max_data)
