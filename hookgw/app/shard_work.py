"""Runs the connectors, jobs and lanes of a node's shards, and the tasks of plugins that one node runs.

A shard is taken up in the order of a start, and left in the order of a shutdown: plugins and connectors
first, so that they raise no more events; then jobs and re-partitions, which pause lanes; then the lanes
themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from hookgw.app.plugin_tasks import PluginTasks
from hookgw.core.open import Core
from hookgw.core.this_node import Released
from hookgw.instances.open import Instances
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable
from hookgw.lanes.held_shards import UNKNOWN
from hookgw.records.fleet import FleetView
from hookgw.records.jobs import Job
from hookgw.records.lanes import registration_of
from hookgw.records.registrations import Registration
from hookgw.records.shards import shard_of, shard_of_registration
from hookgw.webhooks.auto_disable import AutoDisable


class ShardWork(Collaborator):
    """The work for shards; see :class:`hookgw.core.this_node.Work`."""

    _core: Core
    _instances: Instances
    _auto_disable: AutoDisable
    _plugins: PluginTasks

    async def acquire(self, shards: Collection[int]) -> None:
        await self._core.dispatcher.acquire(shards, partial(self._backlog, shards))
        await self._instances.service.start_connected(lambda name: shard_of(name) in shards)
        self._plugins.take_up(shards)

    async def _backlog(self, shards: Collection[int]) -> Iterable[tuple[str, int]]:
        # As the former holder has left them: from now on, this node changes them.
        await self._core.refresh.catch_up()
        await self._core.registry.cut_future(self._registrations(shards), self._core.clock.steady())
        stored = await self._core.store.load_jobs()
        # From here on, this node creates instances of these shards. No checkpoint before the jobs go on: a
        # name is not free until its deletion has ended.
        self._core.node.hold(shards)
        self._auto_disable.take_up(self._registrations(shards))
        self._core.jobs.take_up(job for job in stored.values() if _concerns(shards, job))
        waiting = await self._core.store.pending_lanes()
        found = [one for one in waiting if self._shard_of_lane(one.lane) in shards]
        stale = {registration_of(one.lane) for one in found if self._core.pending.is_stale(one.lane)}
        await self._core.pending.take_up(stale)
        # The re-partition of a registration, or its job, starts its lanes at its end.
        of_jobs = {name for job in self._core.jobs.unfinished() for name in job.registrations}
        gone = {registration_of(one.lane) for one in found if self._is_gone(one.lane)} - stale - of_jobs
        for registration_id in gone:
            await self._core.pending.park_gone(registration_id)
        return self._core.pending.startable(found, stale | gone)

    def _registrations(self, shards: Collection[int]) -> list[Registration]:
        return [one for one in self._core.registry.registrations() if shard_of_registration(one) in shards]

    def _shard_of_lane(self, lane: str) -> int:
        """Return the shard of a lane; of a deleted registration, one by its id, so that one node cares."""
        shard = self._core.shards.shard_of_lane(lane)
        self._core.shards.unknown.discard(lane)
        return shard_of(registration_of(lane)) if shard == UNKNOWN else shard

    def _is_gone(self, lane: str) -> bool:
        return self._core.registry.registration(registration_of(lane)) is None

    async def release(self, shards: Collection[int], released: Released | None = None) -> None:
        self._core.node.drop(shards)
        await self._plugins.leave(shards)
        names = _by_shard((shard_of(one.name), one.name) for one in self._core.registry.instances())
        await self._instances.coverage.store()
        await self._instances.connectors.leave([name for shard in shards for name in names[shard]])
        await self._core.jobs.leave(partial(_concerns, shards))
        known = self._core.registry.registrations()
        moved = _by_shard((shard_of_registration(one), one.id) for one in known)
        await self._core.pending.leave([id_ for shard in shards for id_ in moved[shard]])
        refusals: list[StorageUnavailable] = []

        async def lanes_ended(ended: set[int]) -> None:
            self._auto_disable.leave([id_ for shard in ended for id_ in moved[shard]])
            left = [name for shard in ended for name in names[shard]]
            for name in left:
                self._instances.states.leave(name)
            refusal = None
            try:
                await self._instances.quiet.leave(left)
                await self._core.store.flush()
            except StorageUnavailable as error:  # the other lanes must end all the same
                refusal = error
            if released is not None:
                await released(ended, refusal)
            elif refusal is not None:
                refusals.append(refusal)

        await self._core.dispatcher.release(shards, lanes_ended)
        if refusals:
            raise refusals[0]

    def read_again(self, registration_id: str) -> None:
        """Let the lanes of a registration, if they are here, read the outbox again: it has less."""
        registration = self._core.registry.registration(registration_id)
        if registration is not None and shard_of_registration(registration) in self._core.node.shards:
            with self._core.dispatcher.paused(registration_id):
                pass

    def busy(self) -> set[int]:
        return self._core.dispatcher.busy_shards()

    def suspend(self) -> None:
        self._core.dispatcher.suspend()
        self._plugins.suspend()

    def unsuspend(self) -> None:
        self._core.dispatcher.unsuspend()
        self._plugins.unsuspend()

    async def seen(self, view: FleetView) -> None:
        await self._core.refresh.catch_up(view.version)
        # Deliveries that came in before this node knew their registration: it may be one of its own.
        self._core.dispatcher.start(
            (lane, 1) for lane in self._core.shards.take_unknown() if not self._is_gone(lane)
        )


def _concerns(shards: Collection[int], job: Job) -> bool:
    return shard_of(job.instance) in shards


def _by_shard(pairs: Iterable[tuple[int, str]]) -> Mapping[int, list[str]]:
    found = defaultdict[int, list[str]](list)
    for shard, name in pairs:
        found[shard].append(name)
    return found
