"""Remembers the kinds of plugins, for as long as events of these kinds may be stored: always."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from hookgw.core.registry import Registry
from hookgw.records.events import Catalog
from hookgw.store import Records

KEY = "plugin_kinds"


async def load_former_kinds(store: Records, catalog: Catalog, registry: Registry) -> None:
    """Add to the catalog the kinds of plugins of earlier starts, and the kinds that registrations name.

    Call it in the block of :meth:`~hookgw.core.this_node.ThisNode.starting`: the nodes of a fleet share the
    stored list, and may have different plugins.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    stored: list[str] = []
    with suppress(msgspec.ValidationError):  # of another version
        stored = msgspec.convert(await store.get_value(KEY) or [], list[str])
    known = {*stored, *(kind.name for kind in catalog if kind.plugin)}
    # Before this list was kept, there may have been others.
    known |= {kind for one in registry.registrations() for kind in one.events if kind not in catalog}
    catalog.add_former(known)
    if known != {*stored}:
        await store.put_value(KEY, sorted(known))
