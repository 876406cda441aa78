"""Remembers the kinds of plugins, for as long as events of these kinds may be stored: always."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from hookgw.records.events import Catalog
from hookgw.store import Records

KEY = "plugin_kinds"


async def load_former_kinds(store: Records, catalog: Catalog) -> None:
    """Add to the catalog the kinds of plugins of earlier starts.

    Call it in the block of :meth:`~hookgw.core.this_node.ThisNode.starting`: the nodes of a fleet share the
    stored list, and may have different plugins.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    stored: list[str] = []
    with suppress(msgspec.ValidationError):  # of another version
        stored = msgspec.convert(await store.get_value(KEY) or [], list[str])
    known = {*stored, *(kind.name for kind in catalog if kind.plugin)}
    catalog.add_former(known)
    if known != {*stored}:
        await store.put_value(KEY, sorted(known))
