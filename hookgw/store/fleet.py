"""What a store of several nodes offers beside :class:`~hookgw.store.protocol.Store`: who does what.

A node is in the fleet, with all its shards, or it is not. Others that find it dead remove it as a whole, and
from then on the storage refuses its settlements, its connectors' events and its changes. So two nodes never
count for one shard, however late one of them notices.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hookgw.models.fleet import FleetView


class Membership(Protocol):
    """The nodes and shards of a fleet.

    Every method raises ``StorageUnavailable`` while the storage refuses.
    """

    async def join(self, node: str, url: str) -> int:
        """Enter the fleet, and return this process's generation.

        Everything that the store writes for lanes and connectors from now on is of this generation.

        Raises:
            Conflict: a node of that name lives.
        """

    async def heartbeat(self) -> FleetView | None:
        """Say that this node lives.

        Returns:
            The fleet as it is now; ``None`` if others have found this node dead. It holds nothing then.
        """

    async def claim(self) -> frozenset[int]:
        """Remove nodes without a heartbeat, and take as many of the free shards as are this node's share.

        Returns:
            All shards that this node holds now; none if others have found it dead.
        """

    async def give(self, shards: Collection[int]) -> None:
        """Give shards back that this node has stopped working on. Others take them at once."""

    async def announce_leaving(self) -> None:
        """Tell the others that this node takes no shards any more, and that they share what it gives back."""

    async def leave(self) -> None:
        """Leave the fleet, and give everything back."""
