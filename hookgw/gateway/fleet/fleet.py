"""The fleet as the API sees it: which node has an instance, and whether this one may answer."""

from __future__ import annotations

import httpx

from hookgw.auth.fleet_secret import FleetSecret
from hookgw.gateway.fleet.lease import Lease
from hookgw.gateway.fleet.ownership import Ownership
from hookgw.gateway.fleet.record_refresh import RecordRefresh
from hookgw.gateway.fleet.shard_work import ShardOwner
from hookgw.models.errors import Unavailable
from hookgw.models.fleet import FleetNode, FleetView
from hookgw.models.shards import shard_of

MOVING = 1.0
"""Seconds after which a client may ask again for an instance that moves."""


class Fleet:
    """This node among the others.

    Attributes:
        node: this node's name.
        secret: signs requests between nodes; ``None`` if this node has no ``fleet.url``, and so is alone.
        http: makes requests to other nodes. The gateway closes it.
    """

    def __init__(
        self,
        node: str,
        secret: FleetSecret | None,
        ownership: Ownership,
        owner: ShardOwner,
        refresh: RecordRefresh,
        lease: Lease,
        http: httpx.AsyncClient,
    ) -> None:
        self.http = http
        self.node = node
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

    def has_lease(self) -> bool:
        """Return whether this node is in touch with the database."""
        return self._lease.is_valid()

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
