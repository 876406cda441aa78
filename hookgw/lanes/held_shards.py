"""The shards of this node: in a fleet, its dispatcher starts only the lanes in these shards.

A node hears of the deliveries that it appends itself, and of other nodes' deliveries in its own shards. After
the node has taken a shard, and until it knows the pending deliveries there, it only notes the lanes that it
hears of. Then these lanes start from disk: a lane that began with the delivery it heard of would pass over
earlier deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection


class HeldShards:
    """The shards of one node.

    Attributes:
        is_suspended: whether no lane may begin an attempt, because the node's lease has ended.
    """

    def __init__(self, shard_of_lane: Callable[[str], int]) -> None:
        self.is_suspended = False
        self.shard_of_lane = shard_of_lane
        self._held: set[int] = set()
        self._noted: dict[int, set[str]] = {}

    def held(self) -> frozenset[int]:
        return frozenset(self._held)

    def admits(self, lane: str) -> bool:
        """Return whether a lane may start; note the lane if its shard is being acquired."""
        shard = self.shard_of_lane(lane)
        if shard in self._held:
            return True
        noted = self._noted.get(shard)
        if noted is not None:
            noted.add(lane)
        return False

    def is_of_interest(self, shard: int) -> bool:
        """Return whether this node must hear of deliveries appended in a shard. Called in any thread."""
        return shard in self._held or shard in self._noted

    def begin(self, shards: Collection[int]) -> None:
        """Note the lanes of these shards from now on."""
        for shard in shards:
            self._noted.setdefault(shard, set())

    def complete(self, shards: Collection[int]) -> set[str]:
        """Hold these shards from now on, and return the lanes that were noted."""
        self._held.update(shards)
        return set().union(*(self._noted.pop(shard, set()) for shard in shards))

    def drop(self, shards: Collection[int]) -> None:
        self._held.difference_update(shards)
        for shard in shards:
            self._noted.pop(shard, None)


def every_lane() -> HeldShards:
    """Return the shards of a node that shares its storage with no other: one shard, with all lanes."""
    shards = HeldShards(lambda _: 0)
    shards.complete([0])
    return shards
