"""The dispatcher hands deliveries to lanes, starts lanes that have work, and ends them.

Every lane is a task in the dispatcher's nursery. An exception in a lane is a bug. It is logged and counted,
and the lane starts again from disk, after a growing wait: a delivery that hookgw cannot handle must not stop
all others. Anything else that ends the dispatcher ends the process, because a server must not accept events
that nobody delivers.

A lane is in one of two places: among the running lanes, or retired. It is never in both, because no
checkpoint lies between leaving one and entering the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import msgspec
import trio

from hookgw.concurrency.tasks import RETRY_WAITS, TaskFailed, run_contained
from hookgw.config.settings import DeliverySettings
from hookgw.fair import PerHolder
from hookgw.lanes.chat_order import ChatOrder
from hookgw.lanes.held_shards import HeldShards
from hookgw.lanes.idle_lanes import IdleLanes
from hookgw.lanes.lane import Lane
from hookgw.lanes.pulled_lane import PulledLane
from hookgw.lanes.retired_lanes import RetiredLanes
from hookgw.lanes.services import LaneServices
from hookgw.records.deliveries import Delivery, LaneState, LaneStatistics, Position
from hookgw.records.lanes import is_wide, order_of, partition_of, registration_of
from hookgw.records.registrations import Ordering

AnyLane: TypeAlias = Lane | PulledLane

RETIRE_AFTER = 5.0
"""The longest time, in seconds, that a lane is idle before it is retired."""


class Dispatcher:
    """Owns the lanes.

    Args:
        shards: those of this node.

    Attributes:
        is_running: whether deliveries are delivered; false from :meth:`stop` on.
    """

    def __init__(self, settings: DeliverySettings, shards: HeldShards) -> None:
        self.is_running = False
        self._shards = shards
        # Each release waits for its own lanes, and several may wait at a time.
        self._lane_endings = trio.lowlevel.ParkingLot()
        self._lanes: dict[str, AnyLane] = {}
        self._retired = RetiredLanes()
        self._idle = IdleLanes(min(RETIRE_AFTER, settings.lane_idle))
        # The keys of running and retired lanes, by registration id: with ordering ``instance`` a registration
        # has thousands, among tens of thousands of others.
        self._keys: dict[str, set[str]] = {}
        # How many pauses each registration or single lane is in, and which of the registrations were
        # redirected meanwhile.
        self._pauses = PerHolder[str]()
        self._redirected: set[str] = set()
        # Of registrations that are backfilled. They are not those of a job's scope, as pauses are: a job that
        # moves to another node ends here before the lanes do.
        self._barriers: dict[str, Position] = {}
        self._attempt_limits: dict[str, trio.CapacityLimiter] = {}
        self._orders: dict[str, ChatOrder] = {}
        self._recovering: set[str] = set()
        self._running: tuple[LaneServices, trio.Nursery] | None = None
        self._is_stopping = False
        self._stop, self._stopped = trio.CancelScope(), trio.Event()

    async def run(
        self,
        services: LaneServices,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run lanes until :meth:`stop` or cancellation; :meth:`acquire` starts them."""
        try:
            async with trio.open_nursery() as nursery:
                self._running, self.is_running = (services, nursery), not self._is_stopping
                try:
                    task_status.started()
                    with self._stop:
                        async with trio.open_nursery() as timers:
                            timers.start_soon(self._idle.run)
                            while True:
                                for key in await self._retired.wait_due(services.outbox.wait_settled):
                                    self._forget(key)
                                    nursery.start_soon(services.monitor.lane_changed, key, LaneState.IDLE)
                    for key in self._retired.forget(self._retired.lanes()):
                        self._forget(key)
                        nursery.start_soon(services.monitor.lane_changed, key, LaneState.IDLE)
                finally:
                    # Before the nursery closes: a commit may end just then. Its listener would start a lane
                    # in a closed nursery, and the error would end the writer.
                    self._running, self.is_running = None, False
        finally:
            # After a fault or a cancellation lanes are still retired, and the monitor is gone.
            for key in self._retired.forget(self._retired.lanes()):
                self._forget(key)
            self._stopped.set()

    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def recovering(self) -> list[str]:
        """The keys of lanes that ended by an exception, and wait for their restart."""
        return sorted(self._recovering)

    # All of the following return at once. While the dispatcher does not run, they do nothing: what is on
    # disk is delivered after the next start.

    def dispatch(self, deliveries: Iterable[Delivery]) -> None:
        """Hand deliveries that are on disk to their lanes, in the order given."""
        lanes = self._lanes
        for delivery in deliveries:
            lane = lanes.get(delivery.lane) or self._start(delivery.lane)
            if lane is not None:
                lane.offer(delivery)

    def requeued(self, lanes: Mapping[str, int]) -> None:
        """Tell lanes that finished deliveries are pending again, at their end.

        Call it for each commit before :meth:`dispatch` gets the deliveries that the commit appended.

        Args:
            lanes: how many deliveries, by the key of the lane.
        """
        for key, count in lanes.items():
            if (lane := self._lanes.get(key)) is not None:
                lane.requeued(count)
            else:
                self._start(key, count)

    def start(self, backlog: Iterable[tuple[str, int]]) -> None:
        """Start the lanes of the backlog that do not run; it has their keys and numbers of pending
        deliveries.
        """
        for key, count in backlog:
            if key not in self._lanes:
                self._start(key, count)

    @contextmanager
    def paused(self, registration: str, lane: str | None = None) -> Iterator[None]:
        """Keep a registration's lanes, or one of them, from starting an attempt within the block.

        Attempts in flight end as usual; see :meth:`in_flight`. After the block the lanes read the outbox from
        the start, so deliveries may be moved or removed within it. If pauses overlap, the lanes continue when
        all have ended. :meth:`stop` ends paused lanes at once.
        """
        key = lane or registration
        self._pauses.take(key)
        for one in self._running_lanes(registration, lane):
            one.pause()
        try:
            yield
        finally:
            self._pauses.give(key)
            if key not in self._pauses:
                if lane is None:
                    self._redirected.discard(registration)
                for one in self._running_lanes(registration, lane):
                    if self._is_paused(one.key):
                        one.recount()
                    else:
                        one.unpause()

    def set_barrier(self, registration: str, position: Position) -> None:
        """Let a registration's lanes take only deliveries before a position, until :meth:`lift_barrier`.

        Call it within :meth:`paused`, or before the lanes run. New lanes have the barrier, too. When their
        shard is released, the barrier goes with them.
        """
        self._barriers[registration] = position
        for lane in self._running_lanes(registration):
            lane.set_barrier(position)

    def lift_barrier(self, registration: str) -> None:
        """Let running lanes go on behind the barrier. Start the others with :meth:`start`."""
        if self._barriers.pop(registration, None) is not None:
            for lane in self._running_lanes(registration):
                lane.set_barrier(None)

    def is_drained(self, registration: str) -> bool:
        """Return whether no lane of a registration has something to deliver, before the barrier if any."""
        return all(lane.is_drained for lane in self._running_lanes(registration))

    def apply_pause(self, registration: str) -> None:
        """Pause a registration's lanes, or let them continue, as the registration itself says now.

        Attempts in flight end as usual. Call this with no checkpoint after the lanes see the change.
        """
        for lane in self._running_lanes(registration):
            if self._is_paused(lane.key):
                lane.pause()
            else:
                lane.unpause()

    def redirect(self, registration: str) -> None:
        """Try the heads of a registration's lanes at once: it has another URL, header, secret or timeout.

        Call this once the change is on disk and the lanes see it.
        """
        for key in self._keys.get(registration, ()):
            if (lane := self._lanes.get(key)) is not None:
                lane.redirect()
                if lane.is_pulled is not self._is_pulled(key):
                    lane.stop()  # :meth:`_run` goes on with a lane of the other kind
            else:
                self._retired.redirect(key)
        if registration in self._pauses:
            # A re-partition may move the head to a lane that does not run yet.
            self._redirected.add(registration)

    def resume(self, registration: str) -> None:
        """Try the heads of a registration's waiting lanes at once."""
        for lane in self._running_lanes(registration):
            lane.resume()

    def rate_changed(self, registration: str) -> None:
        """Let the lanes of a registration wait for its present rate. Call this once they see the rate."""
        for lane in self._running_lanes(registration):
            lane.rate_changed()

    def set_attempt_limit(self, registration: str, limit: int) -> None:
        """Change how many attempts the lanes of a registration with ordering ``instance`` make at a time."""
        if (limiter := self._attempt_limits.get(registration)) is not None:
            limiter.total_tokens = limit

    def in_flight(self, registration: str, lane: str | None = None) -> list[tuple[int, trio.Event]]:
        """Return the deliveries in flight of a registration, or of one of its lanes.

        Each sequence number comes with an event that is set when the attempt has ended and is settled.
        """
        found = (one.in_flight() for one in self._running_lanes(registration, lane))
        return [one for one in found if one is not None]

    def cut_off(self, registration: str, seq: int, lane: str | None = None) -> None:
        """End the attempt of a delivery that is being cancelled; for use within :meth:`paused`."""
        for one in self._running_lanes(registration, lane):
            one.cut_off(seq)

    def in_flight_of_deleted(self, exists: Callable[[str], bool]) -> list[tuple[int, trio.Event]]:
        """Return the deliveries :meth:`in_flight` to deleted registrations: a last attempt may still run.

        Args:
            exists: whether there is a registration with this id.
        """
        return [one for name in self._keys if not exists(name) for one in self.in_flight(name)]

    def lanes(self, registration: str | None = None) -> list[LaneStatistics]:
        """Return a snapshot of the lanes, of one registration or all, that run, are retired or hold
        deliveries back.
        """
        return list(self.each_lane(registration))

    def pulled(self, registration: str) -> list[PulledLane]:
        """Return the running lanes of a registration whose receiver fetches, sorted by key."""
        found = self._running_lanes(registration)
        return sorted((one for one in found if isinstance(one, PulledLane)), key=lambda lane: lane.key)

    def holds(self, key: str) -> bool:
        """Return whether a lane runs on this node when it has work, and not on another."""
        return self._shards.shard_of_lane(key) in self._shards.held()

    def find_lane(self, key: str) -> LaneStatistics | None:
        return lane.statistics() if (lane := self._lanes.get(key)) is not None else None

    def each_lane(
        self, registration: str | None = None, *, skips_idle: bool = False
    ) -> Iterator[LaneStatistics]:
        """Like :meth:`lanes`, but takes each snapshot as it is yielded: the caller may await in between.

        Args:
            skips_idle: leave out those without work, of which there may be thousands.
        """
        held = self._held(registration)
        if registration is None:
            keys: Iterable[str] = dict.fromkeys([*self._lanes, *self._retired.lanes(), *held])
        else:
            keys = sorted(self._keys.get(registration, set()) | held.keys())
        for key in keys:
            lane, memory = self._lanes.get(key), self._retired.find(key)
            if skips_idle and key not in held and (lane is None or lane.is_idle):
                continue
            if lane is not None:
                found = lane.statistics()
                yield msgspec.structs.replace(found, held=held[key]) if key in held else found
            elif (memory is not None or key in held) and self._running is not None:
                owner = self._running[0].registration(registration_of(key))
                yield LaneStatistics(
                    lane=key,
                    registration=registration_of(key),
                    partition=partition_of(key),
                    url=owner.address if owner else None,
                    state=LaneState.PAUSED if owner and owner.is_paused else LaneState.IDLE,
                    backlog=0,
                    held=held.get(key, 0),
                    last_outcome=memory.outcome if memory else None,
                    last_error=memory.error if memory else None,
                )

    def _held(self, registration: str | None) -> dict[str, int]:
        """Return how many deliveries of each lane are held back: of one registration, or of all."""
        if self._running is None:
            return {}
        lanes = self._running[0].outbox.held().lanes
        found = lanes.values() if registration is None else [lanes.get(registration, ())]
        return {one.lane: one.count for part in found for one in part}

    # Shards come and go.

    async def acquire(
        self, shards: Collection[int], backlog: Callable[[], Awaitable[Iterable[tuple[str, int]]]]
    ) -> None:
        """Deliver these shards from now on. No other node delivers them any more.

        Args:
            backlog: reads the keys of lanes with pending deliveries in these shards, and how many each has.
                If it raises, the shards are not acquired.
        """
        self._shards.begin(shards)
        try:
            found = dict(await backlog())
        except BaseException:
            self._shards.drop(shards)
            raise
        for key in self._shards.complete(shards):
            # Behind, even if nothing is pending by now: the lane was noted, but its delivery was not taken.
            found.setdefault(key, 1)
        self.start(found.items())

    async def release(
        self, shards: Collection[int], released: Callable[[set[int]], Awaitable[None]] | None = None
    ) -> None:
        """Stop delivering these shards.

        Attempts in flight end as usual. Return once no lane of the shards is left; their settlements may not
        be on disk yet.

        Args:
            released: called with the shards of which no lane is left, as soon as there are some: a receiver
                that is slow holds up its own shard alone.
        """
        self._shards.drop(shards)
        shard_of_lane, left = self._shards.shard_of_lane, set(shards)
        lanes = defaultdict[int, list[str]](list)
        for key in self._lanes:
            lanes[shard_of_lane(key)].append(key)
        for key in [key for shard in left for key in lanes[shard]]:
            self._lanes[key].stop()
        while left:
            gone = {shard for shard in left if self._have_ended(lanes[shard])}
            if not gone:
                await self._lane_endings.park()
                continue
            left -= gone
            for registration in [one for one in self._barriers if shard_of_lane(one) in gone]:
                del self._barriers[registration]
            # A retired lane's memory of its order is wrong once another node has worked on it.
            retired = self._retired.forget(
                [key for key in self._retired.lanes() if shard_of_lane(key) in gone]
            )
            for key in retired:
                self._forget(key)
            if self._running is not None:
                for key in retired:
                    await self._running[0].monitor.lane_changed(key, LaneState.IDLE)
            if released is not None:
                await released(gone)

    def _have_ended(self, keys: list[str]) -> bool:
        """Return whether lanes have ended, and take those away from the end of the list that have.

        So each is looked at once, where thousands end one by one.
        """
        while keys and keys[-1] not in self._lanes:
            keys.pop()
        return not keys

    def busy_shards(self) -> set[int]:
        return {self._shards.shard_of_lane(key) for key, lane in self._lanes.items() if lane.is_in_flight}

    def suspend(self) -> None:
        """Begin no attempt until :meth:`unsuspend`: this node's lease has ended."""
        self._shards.is_suspended = True
        for lane in self._lanes.values():
            lane.pause()

    def unsuspend(self) -> None:
        """Continue after :meth:`suspend`, from the deliveries on disk."""
        self._shards.is_suspended = False
        for key, lane in self._lanes.items():
            if not self._is_paused(key):
                lane.unpause()

    def stop(self) -> None:
        """End every lane after the attempt that it has in flight; the rest stays on disk."""
        # Not the scope's cancel_called, which reads the clock.
        self._is_stopping, self.is_running = True, False
        self._stop.cancel()
        for lane in self._lanes.values():
            lane.stop()

    async def wait_stopped(self) -> None:
        """Wait until :meth:`run` has returned. Set a deadline: an attempt takes up to its timeout."""
        await self._stopped.wait()

    def _is_paused(self, key: str) -> bool:
        if self._shards.is_suspended:
            return True
        registration_id = registration_of(key)
        if key in self._pauses or registration_id in self._pauses:
            return True
        if self._running is None:
            return False
        # A pause by the owner is stored in the registration, so it lasts across restarts.
        registration = self._running[0].registration(registration_id)
        return registration is not None and registration.is_paused

    def _is_pulled(self, key: str) -> bool:
        if self._running is None:
            return False
        registration = self._running[0].registration(registration_of(key))
        return registration is not None and registration.is_pulled

    def _running_lanes(self, registration: str, lane: str | None = None) -> list[AnyLane]:
        keys = self._keys.get(registration, ()) if lane is None else (lane,)
        return [one for key in keys if (one := self._lanes.get(key)) is not None]

    def _start(self, key: str, backlog: int = 0) -> AnyLane | None:
        """Start a lane, retired or new; ``None`` while the dispatcher does not run."""
        if self._running is None or self._is_stopping:
            return None
        if not self._shards.admits(key):
            return None
        services, nursery = self._running
        registration_id = registration_of(key)
        registration = services.registration(registration_id)
        shared, memory = order_of(key), self._retired.take(key)
        order = None if shared is None else self._orders.setdefault(shared, ChatOrder())
        barrier = self._barriers.get(registration_id)
        if self._is_pulled(key):
            lane: AnyLane = PulledLane(
                key, services, self._idle, order=order, backlog=backlog, barrier=barrier, memory=memory
            )
        else:
            limit = None
            if registration is not None and registration.ordering is Ordering.INSTANCE:
                limit = self._attempt_limits.setdefault(
                    registration.id, trio.CapacityLimiter(registration.concurrency)
                )
            lane = Lane(
                key,
                services,
                self._idle,
                attempt_limit=limit,
                order=order,
                backlog=backlog,
                barrier=barrier,
                memory=memory,
            )
        self._lanes[key] = lane
        if order is not None:
            order.add(lane, is_wide=is_wide(key))
        self._keys.setdefault(registration_id, set()).add(key)
        if registration_id in self._redirected:
            lane.redirect()
        if self._is_paused(key):
            lane.pause()
        nursery.start_soon(self._run, services, lane, name=f"lane {key}")
        return lane

    async def _run(self, services: LaneServices, lane: AnyLane) -> None:
        memory, waits = None, iter(RETRY_WAITS)
        try:
            while True:
                started = trio.current_time()
                try:
                    memory = await run_contained(lane.run)
                    break
                except TaskFailed as failure:
                    services.monitor.lane_failed(lane.key, failure)
                    # A lane that worked for long had another problem before.
                    if trio.current_time() - started > RETRY_WAITS[-1]:
                        waits = iter(RETRY_WAITS)
                    self._recovering.add(lane.key)
                    try:
                        await lane.recover(failure, next(waits, RETRY_WAITS[-1]))
                    finally:
                        self._recovering.discard(lane.key)
        finally:
            del self._lanes[lane.key]
            if (shared := order_of(lane.key)) is not None and self._orders[shared].remove(lane):
                del self._orders[shared]
            self._lane_endings.unpark_all()
            if memory is None:
                self._forget(lane.key)
            else:  # the dispatcher runs, because :meth:`stop` would have stopped the lane
                self._retired.put(lane.key, memory)
        if memory is None:
            if lane.is_pulled is not self._is_pulled(lane.key) and (other := self._start(lane.key, 1)):
                other.refresh()  # what this one has settled may not be on disk yet
            await services.monitor.lane_changed(lane.key, LaneState.IDLE)

    def _forget(self, key: str) -> None:
        registration = registration_of(key)
        keys = self._keys[registration]
        keys.remove(key)
        if not keys:
            del self._keys[registration]
            self._attempt_limits.pop(registration, None)
