"""Changes a registration's pending deliveries, while its lanes run.

Parking, dropping and re-partitioning pause the lanes, wait for or spare the attempts in flight, and change
the outbox in small commits. Parking is a job; see :mod:`hookgw.core.jobs`.

Re-partitioning
---------------

A change of ordering or concurrency raises the registration's generation, in the commit that stores the
change. From then on new events go to lanes of the new generation, while older deliveries are still in lanes
of former generations. One task moves them; until it is done no lane of the registration starts an attempt.
Deliveries keep their positions, so that they come before the newer ones, in order.

Nothing else is written down. The outbox knows the deliveries in lanes of other generations, which must be
moved. So a process that is killed half-way finds them again at its next start. After a further change during
the move, the same task goes on with the newest rule.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Protocol

import msgspec
import structlog
import trio

from hookgw.concurrency.tasks import TaskFailed, retry_contained
from hookgw.core.backlog import Amount
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.metrics import Metrics
from hookgw.core.operational.events import OperationalEvents
from hookgw.core.registry import Registry
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Unavailable
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.jobs import Job, JobKind
from hookgw.records.lanes import lane_rule, registration_of
from hookgw.records.registrations import GLOBAL_INSTANCE, Ordering, Registration
from hookgw.records.sentences import SHUTTING_DOWN
from hookgw.store import LaneBacklog, Store

DELETED = "The registration was deleted."
"""The reason for parking the deliveries of a deleted registration."""

logger = structlog.get_logger("hookgw.pending")


class Put(Protocol):
    """Stores a registration; :meth:`hookgw.core.registry.Registry.put` does."""

    def __call__(self, registration: Registration, /, *, due: bool, job: Job | None) -> Awaitable[None]: ...


class PendingDeliveries(Collaborator):
    _registry: Registry
    _store: Store
    _dispatcher: Dispatcher
    _metrics: Metrics
    _operational: OperationalEvents
    _jobs: Jobs

    def __post_init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._is_stopping = False
        # Held for each step of a re-partition, and while a registration that is being re-partitioned is
        # stored: a task that finds nothing left to move must not end while its rule is being replaced.
        self._repartitions: dict[str, trio.Lock] = {}
        # In a fleet, a re-partition that another node goes on with is cancelled.
        self._scopes: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry out re-partitions until :meth:`stop`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def take_up(self, stale: Iterable[str]) -> None:
        """Continue re-partitions that another process has left. The lanes are paused when this returns.

        Args:
            stale: the ids of registrations with lanes that :meth:`is_stale`.
        """
        for registration_id in stale:
            if self._nursery is not None and registration_id not in self._repartitions:
                logger.info("re-partitioning continues", registration=registration_id)
                await self._nursery.start(self._repartition, registration_id)

    async def leave(self, registrations: Iterable[str]) -> None:
        """Leave the re-partitions of registrations to another node; return once they have ended here."""
        for registration_id in registrations:
            if (running := self._scopes.get(registration_id)) is not None:
                scope, ended = running
                scope.cancel()
                await ended.wait()

    def stop(self) -> None:
        """Leave deliveries that have not been moved to the next start. Stop the dispatcher first."""
        self._is_stopping = True
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.cancel_scope.cancel()

    def is_stopping(self) -> bool:
        return self._is_stopping

    def is_stale(self, lane: str) -> bool:
        """Return whether a lane's deliveries must be moved to other lanes before they are sent."""
        registration = self._registry.registration(registration_of(lane))
        # Deliveries of deleted and disabled registrations go nowhere: their lanes make them dead letters.
        return (
            registration is not None and registration.enabled and not lane_rule(registration).is_current(lane)
        )

    def startable(self, waiting: Iterable[LaneBacklog], held: Collection[str]) -> list[tuple[str, int]]:
        """Return the lanes that start at once.

        The lanes that a job of an earlier process pauses are started at its end.

        Lanes of the registrations in ``held`` do not start either.
        """
        registrations, lanes = set(held), set()
        for job in self._jobs.taken_up():
            for registration_id in job.registrations:
                registration, lane = self._registry.registration(registration_id), None
                # A cancellation pauses only the lane of its instance, if there is one. An event for a lane
                # that is held without a pause would start it, and overtake the deliveries that wait there.
                if job.kind is JobKind.CANCEL and registration is not None:
                    lane = self.lane_of_instance(registration, job.instance)
                if lane is None:
                    registrations.add(registration_id)
                else:
                    lanes.add(lane)
        return [
            (found.lane, found.count)
            for found in waiting
            if found.lane not in lanes and registration_of(found.lane) not in registrations
        ]

    async def replace(
        self, old: Registration, new: Registration, *, put: Put | None = None
    ) -> RunningJob | None:
        """Store a changed registration, and apply the change to its deliveries. Hold ``registry.changing``.

        Returns once the change is on disk. A re-partition goes on in the background. If the registration is
        disabled, return the job that parks its deliveries.

        Args:
            put: stores a registration that is being enabled, in the place of :meth:`Registry.put`.

        Raises:
            StorageUnavailable: the disk refuses, and the registration stays as it was.
            Unavailable: the gateway is shutting down.
        """
        if not new.enabled:
            reason = f"The registration was disabled: {new.disabled_reason or 'by its owner.'}"
            instance = self._registry.find_instance(new.instance)
            job = self._jobs.new(
                JobKind.DISABLE_REGISTRATION,
                new.instance,
                instance_id=instance.id if instance else None,
                registrations=(new.id,),
                reason=reason,
            )
            # Stored first: a lane that looks from now on makes its head a dead letter, as parking does.
            await self._registry.put(new, job=job)
            return self.park(job, [new])
        # The end of a pause is a fresh start, too: nothing waits for a time that was set before it.
        is_due = not new.has_target_of(old) or (old.is_paused and not new.is_paused)
        # An attempt that was in flight when a registration was disabled may have left its delivery in a
        # former lane: so enabling looks for those, too.
        if new.generation != old.generation or not old.enabled:
            await self._put_and_repartition(new, due=is_due, put=put or self._registry.put)
        else:
            await self._put(new, self._registry.put, due=is_due)
        if is_due:
            self._dispatcher.redirect(new.id)
        if new.rate != old.rate:
            self._dispatcher.rate_changed(new.id)
        if new.is_paused is not old.is_paused:
            self._dispatcher.apply_pause(new.id)
        if new.ordering is Ordering.INSTANCE:
            self._dispatcher.set_attempt_limit(new.id, new.concurrency)
        return None

    def park(self, job: Job, registrations: Sequence[Registration]) -> RunningJob:
        """Turn the pending deliveries of registrations into dead letters, except for attempts in flight.

        Their lanes are paused when this returns, and later deliveries are not parked: the registration may be
        enabled again while the job runs. No checkpoint may lie between this call and the change of the
        registrations in memory.

        Args:
            job: names the registrations and the reason. Unless they are of the configuration, it is in the
                store.
            registrations: as they were.
        """
        is_stored = job.instance != GLOBAL_INSTANCE
        return self._jobs.start(job, partial(self.parking, registrations=registrations), is_stored=is_stored)

    def parking(
        self, running: RunningJob, *, registrations: Sequence[Registration] = ()
    ) -> Callable[[], Awaitable[None]]:
        """Pause the lanes of a job's registrations, and return the work that parks; see :class:`Jobs`."""
        spared: list[int] = []
        for registration_id in running.job.registrations:
            running.pauses.enter_context(self._dispatcher.paused(registration_id))
            spared += [seq for seq, _ in self._dispatcher.in_flight(registration_id)]
        return partial(self._park, running, registrations, spared)

    async def _park(
        self, running: RunningJob, registrations: Sequence[Registration], spared: Sequence[int]
    ) -> None:
        # Paused lanes resume when the disk works again, and not before.
        known = {registration.id: registration for registration in registrations}
        reason, cursor = running.job.reason, running.job.cursor
        if cursor is None:
            # After a restart there is a cursor unless the job had not begun: then everything is to be parked.
            # Otherwise the cursor is read before anything else can append to the registrations.
            refused = log_refusal("parking", registration=", ".join(running.job.registrations))
            cursor = await retry_until_readable(self._store.park_cursor, refused)
            running.job = msgspec.structs.replace(running.job, cursor=cursor)
        for registration_id in running.job.registrations:
            refused = log_refusal("parking", registration=registration_id)
            more = True
            while more:
                job = running.job if running.is_stored else None
                park = partial(
                    self._store.park_step,
                    registration_id,
                    reason,
                    cursor,
                    spared=spared,
                    job=job,
                )
                async with self._jobs.turn(running.job.instance):
                    step = await retry_until_readable(park, refused)
                running.job = running.job.advanced(step.count, cursor)
                self.report_dead(registration_id, known.get(registration_id), reason, step.count)
                more = step.more
        if running.is_resumed:
            # The start left their lanes to this job. One of them may be enabled again by now.
            for registration_id in running.job.registrations:
                await self.start_lanes(registration_id)

    async def park_gone(self, registration_id: str) -> None:
        """Turn the pending deliveries of a deleted registration into dead letters.

        Raises:
            StorageUnavailable: the storage refuses. Some of them may be parked.
        """
        spared = [seq for seq, _ in self._dispatcher.in_flight(registration_id)]
        cursor, more = await self._store.park_cursor(), True
        while more:
            step = await self._store.park_step(registration_id, DELETED, cursor, spared=spared)
            self.report_dead(registration_id, None, DELETED, step.count)
            more = step.more

    async def drop_oldest(
        self, registration_id: str, instance: str, reason: str, *, count: int, size: int
    ) -> Amount:
        """Turn an instance's oldest deliveries to a registration into dead letters, in one small commit.

        Drop at least ``count`` deliveries and ``size`` bytes of payload, sparing attempts in flight. Return
        what was dropped.

        Raises:
            StorageUnavailable: the disk refuses.
        """
        registration = self._registry.registration(registration_id)
        if registration is None:
            return 0, 0  # deleted meanwhile; the deletion parks its deliveries
        self._store.check_open()
        rule = lane_rule(registration)
        # Its own lane, if it has one: the lanes of other instances go on.
        lane = self.lane_of_instance(registration, instance)
        with self._dispatcher.paused(registration_id, lane):
            spared = [seq for seq, _ in self._dispatcher.in_flight(registration_id, lane)]
            dropped = await self._store.drop_oldest(
                rule, instance, reason, count=count, size=size, spared=spared
            )
        self.report_dead(registration_id, registration, reason, dropped[0])
        return dropped

    def lane_of_instance(self, registration: Registration, instance: str) -> str | None:
        """Return the key of the lane with all pending deliveries of an instance's events, and no others.

        ``None`` if there is no such lane. During a re-partition they are in lanes of former generations, too.
        """
        if registration.id in self._repartitions:
            return None
        return lane_rule(registration).lane_of_instance(instance)

    def is_moving(self, registration: Registration) -> bool:
        """Return whether deliveries of a registration may be in another lane than its rule says.

        They are while they are moved, and while a disabled registration's are parked.
        """
        return registration.id in self._repartitions or not registration.enabled

    def report_dead(
        self, registration_id: str, registration: Registration | None, reason: str, count: int
    ) -> None:
        self._metrics.dead(count)
        self._operational.dead(registration_id, registration, reason, count=count)

    async def _put(self, new: Registration, put: Put, *, due: bool) -> None:
        # Store the parking job again with its cursor. After a crash it must not park deliveries that arrive
        # from now on.
        await put(new, due=due, job=self._jobs.parking(new.id))

    async def _put_and_repartition(self, new: Registration, *, due: bool, put: Put) -> None:
        # The task that runs goes on with the newest rule, unless it ends before this gets its lock.
        while self._nursery is not None and (lock := self._repartitions.get(new.id)) is not None:
            async with lock:
                if self._nursery is not None and self._repartitions.get(new.id) is lock:
                    await self._put(new, put, due=due)
                    return
        if self._nursery is None:  # stored now, the change would wait for the next start without a pause
            raise Unavailable(SHUTTING_DOWN)
        await self._nursery.start(self._repartition, new.id, new, due, put)

    async def _repartition(
        self,
        registration_id: str,
        new: Registration | None = None,
        due: bool = False,
        put: Put | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Store the registration, if one is given, then move its deliveries to its lanes."""
        lock = self._repartitions[registration_id] = trio.Lock()
        scope, ended = running = trio.CancelScope(), trio.Event()
        self._scopes[registration_id] = running
        try:
            with scope, self._dispatcher.paused(registration_id):
                if new is not None and put is not None:
                    await self._put(new, put, due=due)
                task_status.started()
                # A delivery in flight must not be moved: its new lane would send it a second time.
                for _, flight_ended in self._dispatcher.in_flight(registration_id):
                    await flight_ended.wait()
                refused = log_refusal("re-partitioning", registration=registration_id)
                step = partial(retry_until_readable, partial(self._step, registration_id, lock), refused)
                failed = partial(_log_error, registration_id)
                while await retry_contained(step, failed):
                    pass
                # Appended meanwhile, or moved.
                await retry_contained(partial(self.start_lanes, registration_id), failed)
        finally:
            if self._repartitions.get(registration_id) is lock:
                del self._repartitions[registration_id]
            if self._scopes.get(registration_id) is running:
                del self._scopes[registration_id]
            ended.set()

    async def start_lanes(self, registration_id: str, first: Callable[[], None] = lambda: None) -> None:
        """Start the lanes with pending deliveries; running lanes already read on by themselves.

        Deliveries of a deleted registration are parked: in a fleet it has no lane, as it is in no shard.

        Args:
            first: called before, with no checkpoint in between.
        """
        if self._registry.registration(registration_id) is None:
            first()
            await retry_until_readable(
                partial(self.park_gone, registration_id), log_refusal("parking", registration=registration_id)
            )
            return
        read = partial(self._store.pending_lanes, registration_id)
        refused = log_refusal("starting lanes", registration=registration_id)
        backlog = await retry_until_readable(read, refused)
        first()
        self._dispatcher.start((found.lane, found.count) for found in backlog)

    async def _step(self, registration_id: str, lock: trio.Lock) -> bool:
        """Move some deliveries; return whether there may be more."""
        async with lock:
            registration = self._registry.registration(registration_id)
            # Deliveries of a registration that was deleted or disabled meanwhile are being parked.
            if (
                registration is not None
                and registration.enabled
                and await self._store.repartition_step(lane_rule(registration))
            ):
                return True
            # Within the lock: a change that comes now finds no task, and starts another.
            del self._repartitions[registration_id]
            return False


def _log_error(registration_id: str, failure: TaskFailed) -> None:
    logger.error(
        "a re-partition met an error in hookgw",
        registration=registration_id,
        reason=str(failure),
        exc_info=failure.__cause__,
    )
