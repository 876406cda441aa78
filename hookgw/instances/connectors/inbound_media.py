"""Puts inbound files into events: links to them, or the files themselves."""

from __future__ import annotations

import base64
import os
from functools import partial
from typing import Any

from hookgw.auth.media_links import MEDIA_KEY_BYTES, MediaLinks
from hookgw.core.registry import Registry
from hookgw.records.inline_media import encode_payload, largest_file
from hookgw.records.instances import Instance
from hookgw.store import Store

_KEY = "media.key"


async def load_media_key(store: Store) -> bytes:
    """Return the key that signs links to files; the first start makes it."""
    kept = await store.get_value(_KEY)
    try:
        key = base64.b64decode(kept, validate=True) if isinstance(kept, str) else b""
    except ValueError:
        key = b""
    if len(key) != MEDIA_KEY_BYTES:
        key = os.urandom(MEDIA_KEY_BYTES)
        await store.put_value(_KEY, base64.b64encode(key).decode())
    return key


class InboundMedia:
    """Shared by all sessions.

    Args:
        max_data: the limit of an event's payload (``events.max_data``).
    """

    def __init__(self, links: MediaLinks, registry: Registry, max_data: int) -> None:
        self._links = links
        self._registry = registry
        self._max_data = max_data
        self.base64_limit = largest_file(max_data)

    def url(self, instance: Instance, reference: str, *, mimetype: str, file_name: str) -> str:
        return self._links.url(instance, reference, mimetype=mimetype, file_name=file_name)

    def wants_base64(self, instance: str) -> bool:
        """Return whether a registration that hears an instance asks for files inside events."""
        return any(found.base64 and found.enabled for found in self._registry.hearing(instance))

    def encode(self, instance: str, data: Any) -> bytes:
        """Encode the payload of a connector's event; see :func:`hookgw.records.inline_media.encode_payload`.

        Raises:
            TypeError: the payload cannot be encoded as JSON.
        """
        return encode_payload(data, wants_file=partial(self.wants_base64, instance), max_data=self._max_data)
