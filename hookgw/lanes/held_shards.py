"""The shards of this node: its dispatcher starts only the lanes in these shards.

A node hears of the deliveries that it appends itself, and of other nodes' deliveries in its own shards. After
the node has taken a shard, and until it knows the pending deliveries there, it only notes the lanes that it
hears of. Then these lanes start from disk: a lane that began with the delivery it heard of would pass over
earlier deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from hookgw.records.lanes import registration_of
from hookgw.records.registrations import Registration
from hookgw.records.shards import shard_of_registration

UNKNOWN = -1
"""Stands for the shard of a registration that this node does not know: it holds no such shard."""

MOST_KNOWN = 100_000
"""Registrations of which a node remembers the shard after they are gone."""


class HeldShards:
    """The shards of one node, and which shard each lane is in.

    A registration keeps its shard here after it is gone, so that its lanes are found as long as they run. The
    shards that were looked up first are forgotten first: those lanes have ended long ago, or the registration
    is still there.

    Attributes:
        is_suspended: whether no lane may begin an attempt, because the node's lease has ended.
        unknown: lanes of registrations that this node did not know when it was asked.
    """

    def __init__(self, registration: Callable[[str], Registration | None]) -> None:
        self.is_suspended = False
        self.unknown: set[str] = set()
        self._registration = registration
        self._known: dict[str, int] = {}
        self._held: set[int] = set()
        self._noted: dict[int, set[str]] = {}

    def held(self) -> frozenset[int]:
        return frozenset(self._held)

    def shard_of_lane(self, lane: str) -> int:
        """Return the shard of a lane, by its key; :data:`UNKNOWN` if its registration is.

        Such a lane is noted in :attr:`unknown`.
        """
        shard = self._find(lane)
        if shard == UNKNOWN:
            self.unknown.add(lane)
        elif (registration_id := registration_of(lane)) not in self._known:
            if len(self._known) == MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[registration_id] = shard
        return shard

    def take_unknown(self) -> set[str]:
        """Return the lanes in :attr:`unknown`, and forget them there."""
        unknown, self.unknown = self.unknown, set()
        return unknown

    def is_wanted(self, lane: str) -> bool:
        """Return whether this node must hear of what others append to a lane. Called in any thread."""
        return self._find(lane) == UNKNOWN or self.is_of_this_node(lane)

    def is_of_this_node(self, lane: str) -> bool:
        """Return whether a lane's shard is here, or being acquired. Called in any thread."""
        shard = self._find(lane)
        return shard in self._held or shard in self._noted

    def _find(self, lane: str) -> int:
        registration_id = registration_of(lane)
        shard = self._known.get(registration_id)
        if shard is None:
            registration = self._registration(registration_id)
            return UNKNOWN if registration is None else shard_of_registration(registration)
        return shard

    def admits(self, lane: str) -> bool:
        """Return whether a lane may start; note the lane if its shard is being acquired."""
        shard = self.shard_of_lane(lane)
        if shard in self._held:
            return True
        noted = self._noted.get(shard)
        if noted is not None:
            noted.add(lane)
        return False

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


class EveryLane(HeldShards):
    """The shards of the only node: all lanes are in the first one, so that nothing is looked up or kept."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)

    def shard_of_lane(self, lane: str) -> int:  # noqa: ARG002
        return 0
