"""Runs the connectors, jobs and lanes of a node's shards.

A shard is taken up in the order of a start, and left in the order of a shutdown: connectors first, so that
they raise no more events; then jobs and re-partitions, which pause lanes; then the lanes themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

import structlog
import trio

from hookgw.core.jobs import Jobs
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.fleet.record_refresh import RecordRefresh
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.instances.service import InstanceService
from hookgw.kernel.errors import StorageUnavailable
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.records.fleet import FleetView
from hookgw.records.jobs import Job
from hookgw.records.lanes import registration_of
from hookgw.records.shards import shard_of, shard_of_registration
from hookgw.store import Store
from hookgw.webhooks.auto_disable import AutoDisable

logger = structlog.get_logger("hookgw.fleet")

UNKNOWN = -1
"""Stands for the shard of a registration that this node does not know: it holds no such shard."""

FLUSH_WITHIN = 20.0
"""Seconds that a release waits for the database at most."""

MOST_KNOWN = 100_000
"""Registrations of which a node remembers the shard after they are gone."""


class LaneShards:
    """Which shard a lane is in.

    A registration keeps its shard here after it is gone, so that its lanes are found as long as they run. The
    shards that were looked up first are forgotten first: those lanes have ended long ago, or the registration
    is still there.

    Attributes:
        unknown: lanes of registrations that this node did not know when it was asked.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[str, int] = {}
        self.unknown: set[str] = set()

    def shard_of_lane(self, lane: str) -> int:
        """Return the shard of a lane, by its key; :data:`UNKNOWN` if its registration is.

        Such a lane is noted in :attr:`unknown`.
        """
        shard = self.find(lane)
        if shard == UNKNOWN:
            self.unknown.add(lane)
        elif (registration_id := registration_of(lane)) not in self._known:
            if len(self._known) == MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[registration_id] = shard
        return shard

    def find(self, lane: str) -> int:
        """Return the same, and note nothing: this may be called in another thread."""
        registration_id = registration_of(lane)
        shard = self._known.get(registration_id)
        if shard is None:
            registration = self._registry.registration(registration_id)
            return UNKNOWN if registration is None else shard_of_registration(registration)
        return shard


class ShardOwner:
    """The shards that this node owns. Ask it before changing an instance."""

    def __init__(self) -> None:
        self.shards: set[int] = set()

    def holds(self, instance: str) -> bool:
        """Return whether this node holds an instance, by its name."""
        return shard_of(instance) in self.shards

    def check(self, instance: str) -> None:
        """Check that this node holds an instance.

        Raises:
            StorageUnavailable: another node does, or will in a moment.
        """
        if not self.holds(instance):
            raise StorageUnavailable(
                f"The instance {instance!r} is on another node, or moves to one. Retry.", retry_after=1.0
            )


class ShardWork:
    """The work for shards; see :class:`hookgw.fleet.ownership.Work`."""

    def __init__(
        self,
        owner: ShardOwner,
        lane_shards: LaneShards,
        refresh: RecordRefresh,
        registry: Registry,
        store: Store,
        dispatcher: Dispatcher,
        jobs: Jobs,
        pending: PendingDeliveries,
        auto_disable: AutoDisable,
        instances: InstanceService,
        connectors: Connectors,
        states: ConnectionStates,
    ) -> None:
        self._owner = owner
        self._lane_shards = lane_shards
        self._refresh = refresh
        self._registry = registry
        self._store = store
        self._dispatcher = dispatcher
        self._jobs = jobs
        self._pending = pending
        self._auto_disable = auto_disable
        self._instances = instances
        self._connectors = connectors
        self._states = states

    async def acquire(self, shards: Collection[int]) -> None:
        try:
            await self._dispatcher.acquire(shards, partial(self._backlog, shards))
            await self._instances.start_connected(lambda name: shard_of(name) in shards)
        except BaseException:
            with trio.move_on_after(FLUSH_WITHIN, shield=True):
                await self.release(shards)
            raise

    async def _backlog(self, shards: Collection[int]) -> Iterable[tuple[str, int]]:
        # As the former holder has left them: from now on, this node changes them.
        await self._refresh.catch_up()
        self._owner.shards.update(shards)
        self._auto_disable.take_up(
            one for one in self._registry.registrations() if shard_of_registration(one) in shards
        )
        await self._jobs.take_up(partial(_concerns, shards))
        waiting = await self._store.pending_lanes()
        found = [one for one in waiting if self._shard_of_lane(one.lane) in shards]
        stale = {registration_of(one.lane) for one in found if self._pending.is_stale(one.lane)}
        await self._pending.take_up(stale)
        # The re-partition of a registration, or its job, starts its lanes at its end.
        of_jobs = {name for job in self._jobs.unfinished() for name in job.registrations}
        gone = {registration_of(one.lane) for one in found if self._is_gone(one.lane)} - stale - of_jobs
        for registration_id in gone:
            await self._pending.park_gone(registration_id)
        return self._pending.startable(found, stale | gone)

    def _shard_of_lane(self, lane: str) -> int:
        """Return the shard of a lane; of a deleted registration, one by its id, so that one node cares."""
        shard = self._lane_shards.shard_of_lane(lane)
        self._lane_shards.unknown.discard(lane)
        return shard_of(registration_of(lane)) if shard == UNKNOWN else shard

    def _is_gone(self, lane: str) -> bool:
        return self._registry.registration(registration_of(lane)) is None

    async def release(self, shards: Collection[int]) -> None:
        # From here on no change of these instances begins.
        self._owner.shards.difference_update(shards)
        names = [one.name for one in self._registry.instances() if shard_of(one.name) in shards]
        await self._connectors.leave(names)
        await self._jobs.leave(partial(_concerns, shards))
        moved = [one.id for one in self._registry.registrations() if shard_of_registration(one) in shards]
        await self._pending.leave(moved)
        await self._dispatcher.release(shards)
        self._auto_disable.leave(moved)
        for name in names:
            self._states.leave(name)
        await self._store.flush()

    def read_again(self, registration_id: str) -> None:
        """Let the lanes of a registration, if they are here, read the outbox again: it has less."""
        registration = self._registry.registration(registration_id)
        if registration is not None and shard_of_registration(registration) in self._owner.shards:
            with self._dispatcher.paused(registration_id):
                pass

    def busy(self) -> set[int]:
        return self._dispatcher.busy_shards()

    def suspend(self) -> None:
        self._dispatcher.suspend()

    def unsuspend(self) -> None:
        self._dispatcher.unsuspend()

    async def seen(self, view: FleetView) -> None:
        await self._refresh.catch_up(view.version)
        # Deliveries that came in before this node knew their registration: it may be one of its own.
        unknown, self._lane_shards.unknown = self._lane_shards.unknown, set()
        self._dispatcher.start((lane, 1) for lane in unknown if not self._is_gone(lane))


def _concerns(shards: Collection[int], job: Job) -> bool:
    return shard_of(job.instance) in shards
