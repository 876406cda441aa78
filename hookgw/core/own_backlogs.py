"""Reports of high backlogs in a fleet: every node knows all backlogs, and one node reports each."""

from __future__ import annotations

from hookgw.core.backlog import BacklogObserver, Tally
from hookgw.core.registry import Registry
from hookgw.core.this_node import ThisNode
from hookgw.records.shards import shard_of_registration


class OwnBacklogs:
    """Passes on reports about this node's registrations and instances; see :class:`BacklogObserver`.

    A backlog that crosses its threshold while its instance moves from one node to another is not reported.
    """

    def __init__(self, observer: BacklogObserver, registry: Registry, node: ThisNode) -> None:
        self._observer = observer
        self._registry = registry
        self._node = node

    def backlog_crossed(self, registration_id: str, tally: Tally) -> None:
        registration = self._registry.registration(registration_id)
        if registration is not None and shard_of_registration(registration) in self._node.shards:
            self._observer.backlog_crossed(registration_id, tally)

    def instance_backlog_crossed(self, instance: str, tally: Tally, allowed: tuple[float, float]) -> None:
        if self._node.holds(instance):
            self._observer.instance_backlog_crossed(instance, tally, allowed)
