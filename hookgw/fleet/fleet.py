"""The fleet as the API sees it: which node has an instance, and whether this one may answer."""

from __future__ import annotations

import httpx

from hookgw.auth.fleet_secret import FleetSecret
from hookgw.fleet.database_calls import DatabaseCalls
from hookgw.fleet.lease import Lease
from hookgw.fleet.ownership import Ownership
from hookgw.fleet.peer_calls import PeerCalls
from hookgw.fleet.record_refresh import RecordRefresh
from hookgw.fleet.shard_work import ShardOwner
from hookgw.kernel.errors import Unavailable
from hookgw.records.fleet import FleetNode, FleetView
from hookgw.records.shards import shard_of

ALL = 0
"""The node with this shard does what is to be done once, such as pruning the history."""

PEER_TIMEOUT = httpx.Timeout(120.0, connect=2.0)
"""Of calls to nodes that live. A connector may take a minute; a stream says something every few seconds."""
PEER_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=5.0)

MOVING = 1.0
"""Seconds after which a client may ask again for an instance that moves."""


class Fleet:
    """This node among the others.

    Attributes:
        node: this node's name.
        secret: signs requests between nodes; ``None`` if this node has no ``fleet.url``, and so is alone.
        http: makes requests to other nodes. The gateway closes it.
        calls: ends these requests when a node is gone. The gateway runs it.
        database_calls: answers calls for which the database takes too long. The gateway runs it.
    """

    def __init__(
        self,
        ownership: Ownership,
        secret: FleetSecret | None,
        owner: ShardOwner,
        refresh: RecordRefresh,
        lease: Lease,
        http: httpx.AsyncClient,
        calls: PeerCalls,
        database_calls: DatabaseCalls,
    ) -> None:
        self.http = http
        self.calls = calls
        self.database_calls = database_calls
        self.node = ownership.node
        self.secret = secret
        self._ownership = ownership
        self._owner = owner
        self._refresh = refresh
        self._lease = lease

    @property
    def view(self) -> FleetView:
        """The fleet at the last heartbeat."""
        return self._ownership.view

    def holds(self, instance: str) -> bool:
        """Return whether this node has an instance, by its name."""
        return self._owner.holds(instance)

    def is_responsible(self) -> bool:
        """Return whether this node does what one node has to do for all."""
        return ALL in self._owner.shards

    def has_lease(self) -> bool:
        """Return whether this node is in touch with the database."""
        return self._lease.is_valid()

    def has_begun(self) -> bool:
        """Return whether this node has worked on its first shards since it was started."""
        return self._ownership.has_begun

    def holds_share(self) -> bool:
        """Return whether this node works on all of its share of the shards now."""
        return self._ownership.is_whole

    def owner_of(self, instance: str) -> FleetNode:
        """Return the node that has an instance.

        Raises:
            Unavailable: it moves from one node to another at the moment.
        """
        found = self.view.owner_of(shard_of(instance))
        if found is None or not found.url or found.name == self.node:
            raise self.moving(instance)
        return found

    @staticmethod
    def moving(instance: str) -> Unavailable:
        """Return the refusal of a call for an instance that no node has at the moment."""
        return Unavailable(f"The instance {instance!r} moves to another node. Retry.", retry_after=MOVING)

    async def catch_up(self) -> None:
        """Read what other nodes have changed until now.

        Raises:
            StorageUnavailable: the database refuses.
        """
        await self._refresh.catch_up()

    def nodes(self) -> list[tuple[FleetNode, int]]:
        """Return the nodes, and how many shards each has."""
        view = self.view
        return [(node, len(view.held_by(node.generation))) for node in view.nodes]
