"""The dispatcher: hands deliveries to lanes, starts lanes when they have something to do, and ends them.

Every lane is a task in the dispatcher's nursery. An exception in a lane is a bug: it ends the dispatcher and,
through the gateway, the process, because a server that accepts events over a dead lane would lie.

A lane is in one of two places: among the running lanes, or parked. It is never in both, because no checkpoint
lies between leaving one and entering the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import trio

from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.transport import LaneTransport
from hookgw.dispatch.idle_lanes import IdleLanes
from hookgw.dispatch.lane import Lane
from hookgw.dispatch.parked_lanes import ParkedLanes
from hookgw.dispatch.services import LaneServices
from hookgw.models.deliveries import Delivery, LaneState, LaneStatistics
from hookgw.models.lanes import partition_of, registration_of
from hookgw.models.registrations import Ordering

PARK_AFTER = 5.0
"""The longest time, in seconds, that a lane is idle before it is parked."""


class Dispatcher:
    """Owns the lanes.

    Args:
        transport: makes the connection of a lane; the lane closes it.
        settings: how long a parked lane is remembered (``delivery.lane_idle``).
    """

    def __init__(self, transport: Callable[[], LaneTransport], settings: DeliverySettings) -> None:
        self._transport = transport
        self._lanes: dict[str, Lane] = {}
        self._parked = ParkedLanes()
        self._idle = IdleLanes(min(PARK_AFTER, settings.lane_idle))
        # The keys of running and parked lanes, by registration id.
        self._keys: dict[str, set[str]] = {}
        self._paused: dict[str, list[trio.Event]] = {}
        self._attempt_limits: dict[str, trio.CapacityLimiter] = {}
        self._running: tuple[LaneServices, trio.Nursery] | None = None
        self._stop, self._stopped = trio.CancelScope(), trio.Event()

    async def run(
        self,
        services: LaneServices,
        backlog: Iterable[tuple[str, int]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start a lane for each backlog, then run lanes until :meth:`stop` or cancellation.

        Args:
            services: what all lanes share.
            backlog: the keys of lanes with pending deliveries, and how many each has.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._running = services, nursery
                self.start(backlog)
                task_status.started()
                with self._stop:
                    async with trio.open_nursery() as timers:
                        timers.start_soon(self._idle.run)
                        while True:
                            for key in await self._parked.wait_due():
                                self._forget(key)
                                nursery.start_soon(services.monitor.lane_changed, key, LaneState.IDLE)
                for key in self._parked.forget(self._parked.lanes()):
                    self._forget(key)
                    nursery.start_soon(services.monitor.lane_changed, key, LaneState.IDLE)
        finally:
            self._running = None  # from now on, what is on disk waits there for the next start
            self._parked.forget(self._parked.lanes())
            self._stopped.set()

    @property
    def is_running(self) -> bool:
        """Whether deliveries are delivered; false from :meth:`stop` on."""
        return self._running is not None and not self._stop.cancel_called

    # All of the following return at once. While the dispatcher does not run, they do nothing: what is on
    # disk is delivered after the next start.

    def dispatch(self, deliveries: Iterable[Delivery]) -> None:
        """Hand deliveries that are on disk to their lanes, in the order given."""
        lanes = self._lanes
        for delivery in deliveries:
            lane = lanes.get(delivery.lane) or self._start(delivery.lane)
            if lane is None:
                return
            lane.offer(delivery)

    def requeued(self, lanes: Mapping[str, int]) -> None:
        """Tell lanes that finished deliveries are pending again, at their end.

        Call it for each commit before :meth:`dispatch` gets what the commit appended.

        Args:
            lanes: how many deliveries, by the key of the lane.
        """
        for key, count in lanes.items():
            if (lane := self._lanes.get(key)) is not None:
                lane.requeued(count)
            else:
                self._start(key, count)

    def start(self, backlog: Iterable[tuple[str, int]]) -> None:
        """Start those lanes that do not run.

        Args:
            backlog: the keys of lanes with pending deliveries, and how many each has.
        """
        for key, count in backlog:
            if key not in self._lanes:
                self._start(key, count)

    @contextmanager
    def paused(self, registration: str) -> Iterator[None]:
        """Keep a registration's lanes from starting an attempt for the length of a block.

        Attempts in flight end as usual; see :meth:`in_flight`. After the block the lanes read the outbox
        anew, so deliveries may be moved or removed within it.

        Args:
            registration: the registration's id.
        """
        resumed = trio.Event()
        events = self._paused.setdefault(registration, [])
        events.append(resumed)
        for lane in self._running_lanes(registration):
            lane.refresh([resumed])
        try:
            yield
        finally:
            resumed.set()
            events.remove(resumed)
            if not events:
                del self._paused[registration]

    def redirect(self, registration: str) -> None:
        """Try the heads of a registration's lanes at once: it has another URL, header, secret or timeout."""
        for key in self._keys.get(registration, ()):
            if (lane := self._lanes.get(key)) is not None:
                lane.redirect()
            else:
                self._parked.redirect(key)

    def resume(self, registration: str) -> None:
        """Try the heads of a registration's waiting lanes at once."""
        for lane in self._running_lanes(registration):
            lane.resume()

    def set_attempt_limit(self, registration: str, limit: int) -> None:
        """Change how many attempts the lanes of a registration with ordering ``instance`` make at a time."""
        if (limiter := self._attempt_limits.get(registration)) is not None:
            limiter.total_tokens = limit

    def in_flight(self, registration: str) -> list[tuple[int, trio.Event]]:
        """Return the deliveries of a registration that are in flight: their sequence numbers, each with an
        event that is set when the attempt has ended and is settled."""
        found = (lane.in_flight() for lane in self._running_lanes(registration))
        return [one for one in found if one is not None]

    def lanes(self, registration: str | None = None) -> list[LaneStatistics]:
        """Return a snapshot of the lanes that run or are parked: of one registration, or of all."""
        if registration is None:
            keys = [*self._lanes, *self._parked.lanes()]
        else:
            keys = sorted(self._keys.get(registration, ()))
        return [self._statistics(key) for key in keys]

    def stop(self) -> None:
        """End every lane after the attempt that it has in flight; the rest stays on disk."""
        self._stop.cancel()
        for lane in self._lanes.values():
            lane.stop()

    async def wait_stopped(self) -> None:
        """Wait until :meth:`run` has returned. Set a deadline: an attempt takes up to its timeout."""
        await self._stopped.wait()

    def _running_lanes(self, registration: str) -> list[Lane]:
        keys = self._keys.get(registration, ())
        return [lane for key in keys if (lane := self._lanes.get(key)) is not None]

    def _statistics(self, key: str) -> LaneStatistics:
        if (lane := self._lanes.get(key)) is not None:
            return lane.statistics()
        memory = self._parked.find(key)
        assert memory is not None and self._running is not None  # noqa: S101, PT018 (it is in one of the two)
        registration = self._running[0].registration(registration_of(key))
        return LaneStatistics(
            lane=key,
            registration=registration_of(key),
            partition=partition_of(key),
            url=registration.address if registration else None,
            state=LaneState.IDLE,
            backlog=0,
            last_outcome=memory.outcome,
            last_error=memory.error,
        )

    def _start(self, key: str, backlog: int = 0) -> Lane | None:
        if self._running is None or self._stop.cancel_called:
            return None
        services, nursery = self._running
        registration = registration_of(key)
        lane = self._lanes[key] = Lane(
            key,
            services,
            self._transport(),
            self._idle,
            attempt_limit=self._attempt_limit(services, registration),
            backlog=backlog,
            memory=self._parked.take(key),
        )
        self._keys.setdefault(registration, set()).add(key)
        if (events := self._paused.get(registration)) is not None:
            lane.refresh(events)
        nursery.start_soon(self._run, services, lane, name=f"lane {key}")
        return lane

    def _attempt_limit(self, services: LaneServices, registration_id: str) -> trio.CapacityLimiter | None:
        registration = services.registration(registration_id)
        if registration is None or registration.ordering is not Ordering.INSTANCE:
            return None
        if registration_id not in self._attempt_limits:
            self._attempt_limits[registration_id] = trio.CapacityLimiter(registration.concurrency)
        return self._attempt_limits[registration_id]

    async def _run(self, services: LaneServices, lane: Lane) -> None:
        memory = None
        try:
            memory = await lane.run()
        finally:
            del self._lanes[lane.key]
            if memory is not None and self.is_running:
                self._parked.put(lane.key, memory)
            else:
                self._forget(lane.key)
                if memory is not None:
                    memory.close()
        if memory is None:
            await services.monitor.lane_changed(lane.key, LaneState.IDLE)

    def _forget(self, key: str) -> None:
        registration = registration_of(key)
        keys = self._keys[registration]
        keys.remove(key)
        if not keys:
            del self._keys[registration]
            self._attempt_limits.pop(registration, None)
