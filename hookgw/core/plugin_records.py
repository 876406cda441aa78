"""The records that a plugin keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookgw.core.this_node import ThisNode
from hookgw.kernel.errors import Invalid, StorageUnavailable
from hookgw.store import Store

MOST_RECORDS = 10_000
LONGEST_KEY = 255
LARGEST_VALUE = 2**20


class PluginRecords:
    """The records of one plugin, on disk and shared by all nodes of a fleet.

    See :class:`hookgw.plugins.gateway_protocol.PluginRecords`, which plugins rely on.
    """

    def __init__(self, store: Store, node: ThisNode, plugin: str) -> None:
        self._store = store
        self._node = node
        self._plugin = plugin

    async def load(self) -> dict[str, Any]:
        return await self._store.load_plugin_records(self._plugin)

    async def put(self, changes: Mapping[str, Any], /) -> None:
        # A task that runs on one node must not undo what its successor has written.
        if not self._node.may_act():
            raise StorageUnavailable.of("plugin.no_database", "This node cannot reach the database.")
        encoded: dict[str, Any] = {}
        for key, value in changes.items():
            if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
                raise Invalid.of(
                    "plugin.record_key_length",
                    "The key of a record must have 1 to {longest} printable characters.",
                    longest=LONGEST_KEY,
                )
            if value is None:
                encoded[key] = None
                continue
            text = msgspec.json.encode(value)
            if len(text) > LARGEST_VALUE:
                raise Invalid.of(
                    "plugin.record_too_long",
                    "The record {key!r} has {bytes:,} bytes; the limit is {limit:,}.",
                    key=key,
                    bytes=len(text),
                    limit=LARGEST_VALUE,
                )
            encoded[key] = msgspec.Raw(text)
        kept = {**(await self.load()), **encoded}
        if sum(value is not None for value in kept.values()) > MOST_RECORDS:
            raise Invalid.of(
                "plugin.too_many_records",
                "A plugin may have {most:,} records. Put more into each, or remove some.",
                most=MOST_RECORDS,
            )
        await self._store.put_plugin_records(self._plugin, encoded)
