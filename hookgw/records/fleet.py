"""The nodes of a fleet, as one of them sees it. No I/O."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hookgw.records.shards import SHARDS

DEAD_AFTER = 3.0
"""Seconds without a heartbeat, by the database's clock, after which others take a node's shards."""


class ShardEpoch(NamedTuple):
    shard: int
    epoch: int


SILENT_NODES = "hookgw-silent-nodes"
"""The header of a response that names the nodes whose part of a list is missing. Lists have the form that
clients of other gateways expect, and so no place for it in their bodies."""


class FleetMember(msgspec.Struct, frozen=True):
    """One node.

    Attributes:
        generation: of this process, higher than in every earlier process.
        url: for requests of the other nodes.
        heartbeat_age: seconds since its last heartbeat, by the database's clock.
        is_leaving: whether it takes no shards: it stops, and hands them over, or it starts.
    """

    name: str
    generation: int
    url: str
    heartbeat_age: float
    is_leaving: bool = False


class FleetView(msgspec.Struct, frozen=True):
    """The whole fleet at one moment.

    Attributes:
        nodes: with a heartbeat, sorted by name; this may include a node that has just died.
        owners: for each shard the generation of the node that holds it, or ``None``.
        time: seconds since the epoch, by the database's clock.
    """

    nodes: tuple[FleetMember, ...] = ()
    owners: tuple[int | None, ...] = (None,) * SHARDS
    version: int = 0
    time: float = 0.0

    def held_by(self, generation: int) -> frozenset[int]:
        return frozenset(shard for shard, owner in enumerate(self.owners) if owner == generation)

    def counted(self) -> list[tuple[FleetMember, int]]:
        """Return the nodes, and how many shards each holds."""
        return [(node, len(self.held_by(node.generation))) for node in self.nodes]

    def owner_of(self, shard: int) -> FleetMember | None:
        owner = self.owners[shard]
        return next((node for node in self.nodes if node.generation == owner), None)
