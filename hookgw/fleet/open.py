"""This node among others: how it reaches them, and what it does for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import trio

from hookgw.config.settings import FleetSettings
from hookgw.core.open import Core
from hookgw.core.this_node import ThisNode
from hookgw.fleet.fleet_node import FleetNode
from hookgw.fleet.lane_pauses import LanePauses
from hookgw.fleet.peers import Peers, open_peers
from hookgw.store import Store


@asynccontextmanager
async def open_node(settings: FleetSettings, store: Store) -> AsyncIterator[ThisNode]:
    """Give this node for the length of a block: alone, unless others can use the storage."""
    if store.shared is None:
        yield ThisNode(settings)
        return
    node = FleetNode(settings, store.shared)
    async with trio.open_nursery() as nursery:
        # Not only once it works: to count a large backlog takes longer than others wait for a heartbeat.
        nursery.start_soon(node.send_heartbeats)
        yield node
        nursery.cancel_scope.cancel()


class Fleet(msgspec.Struct, frozen=True, eq=False):
    peers: Peers | None
    lane_pauses: LanePauses


@asynccontextmanager
async def open_fleet(core: Core) -> AsyncIterator[Fleet]:
    """Reach other nodes for the length of a block."""
    node, peers = core.node, None
    async with AsyncExitStack() as resources:
        if isinstance(node, FleetNode):
            peers = await resources.enter_async_context(open_peers(core.settings, node, core.threads))
            core.metrics.watch_node(node.name, lambda: len(node.shards))
        yield Fleet(peers, LanePauses(core.registry, core.dispatcher, core.pending, core.store.flush))
