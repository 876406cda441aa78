"""The dispatcher: hands deliveries to lanes, starts a lane where there is none, and ends them all.

Every lane is a task in the dispatcher's nursery. A lane that raises is a bug: it ends the dispatcher
and, through the gateway, the process, because a server that accepts events over a dead lane would lie.

There is never more than one task of a lane, and what is known of it is in one of two places: among the
running lanes, or among those at rest. No checkpoint lies between leaving one and being in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import trio

from hookgw.delivery.http.transport import LaneTransport
from hookgw.dispatch.idle_lanes import IdleLanes
from hookgw.dispatch.lane import Lane
from hookgw.dispatch.parked_lanes import ParkedLanes
from hookgw.dispatch.services import LaneServices
from hookgw.models.deliveries import Delivery, LaneState, LaneStatistics

REST_AFTER = 5.0
"""Seconds with nothing to do after which a lane is sent to rest, at the latest."""


class Dispatcher:
    """Owns the lanes.

    Args:
        services: what all lanes share.
        transport: makes a lane's connection; the lane closes it.
    """

    def __init__(self, services: LaneServices, transport: Callable[[], LaneTransport]) -> None:
        self._services = services
        self._transport = transport
        self._lanes: dict[str, Lane] = {}
        self._patience = IdleLanes(min(REST_AFTER, services.settings.lane_idle))
        self._resting = ParkedLanes()
        self._nursery: trio.Nursery | None = None
        self._stop, self._stopped = trio.CancelScope(), trio.Event()
        self._stopping = False

    async def run(
        self,
        backlog: Iterable[tuple[str, int]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start a lane for each backlog, then run lanes until :meth:`stop` or cancellation.

        Args:
            backlog: the lanes with pending deliveries, and how many each has.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for key, count in backlog:
                    self._start(key, count)
                task_status.started()
                await self._send_to_rest(nursery)
        finally:
            self._nursery = None  # what is on disk from now on waits there
            self._resting.end(self._resting.lanes())
            self._stopped.set()

    @property
    def is_running(self) -> bool:
        """Whether lanes are worked off."""
        return self._nursery is not None and not self._stopping

    def dispatch(self, deliveries: Iterable[Delivery]) -> None:
        """Hand deliveries that are on disk to their lanes, in the order given. Never waits."""
        lanes = self._lanes
        for delivery in deliveries:
            lane = lanes.get(delivery.lane)
            if lane is None:
                lane = self._start(delivery.lane)
            lane.offer(delivery)

    def requeued(self, lanes: Mapping[str, int]) -> None:
        """Tell lanes that deliveries came back into the outbox, behind all that they have. Never waits.

        To be called for each commit before :meth:`dispatch` gets what was appended by it.

        Args:
            lanes: how many came, by the key of the lane; lanes that do not run are started.
        """
        for key, count in lanes.items():
            if (lane := self._lanes.get(key)) is not None:
                lane.requeued(count)
            else:
                self._start(key, count)

    def pause(self, keys: Iterable[str], until: Sequence[trio.Event] = ()) -> None:
        """Stop lanes before their next attempt; then let them read the outbox anew.

        For deliveries that are moved, parked or put back while the lanes run.

        Args:
            keys: the lanes; those that do not run are started.
            until: what must have happened before they go on.
        """
        for key in keys:
            (self._lanes.get(key) or self._start(key)).refresh(until)

    def resume(self, keys: Iterable[str]) -> None:
        """Let waiting lanes try again now."""
        for key in keys:
            if (lane := self._lanes.get(key)) is not None:
                lane.resume()

    def under_way(self, keys: Iterable[str], registration_id: str) -> list[tuple[int, trio.Event]]:
        """Which deliveries to a registration are on the wire now, each with an event of its end."""
        lanes = [lane for key in keys if (lane := self._lanes.get(key)) is not None]
        return [found for lane in lanes if (found := lane.under_way(registration_id)) is not None]

    def lanes(self, keys: Iterable[str] | None = None) -> list[LaneStatistics]:
        """A snapshot of the lanes that run or are at rest, or of those named that are."""
        if keys is None:
            keys = [*self._lanes, *self._resting.lanes()]
        return [found for key in keys if (found := self._statistics(key)) is not None]

    def stop(self) -> None:
        """End every lane after the attempt that it has under way; what is left stays on disk."""
        self._stopping = True
        for lane in self._lanes.values():
            lane.stop()
        self._stop.cancel()

    async def wait_stopped(self) -> None:
        """Wait until :meth:`run` has returned. Give it a deadline: an attempt takes up to its timeout."""
        await self._stopped.wait()

    def _statistics(self, key: str) -> LaneStatistics | None:
        lane = self._lanes.get(key)
        return self._resting.statistics(key) if lane is None else lane.statistics()

    def _start(self, key: str, backlog: int = 0) -> Lane:
        if self._stopping or self._nursery is None:
            return Lane(key, self._services, self._transport(), self._patience, backlog=backlog)
        past = self._resting.take(key)
        lane = Lane(key, self._services, self._transport(), self._patience, backlog=backlog, past=past)
        self._lanes[key] = lane
        self._nursery.start_soon(self._run, lane, name=f"lane {key}")
        return lane

    async def _run(self, lane: Lane) -> None:
        try:
            past = await lane.run()
        finally:
            del self._lanes[lane.key]
        if past is None:
            await self._ended(lane.key)
        else:
            self._resting.put(lane.key, past)

    async def _send_to_rest(self, nursery: trio.Nursery) -> None:
        """Send idle lanes to rest and forget those whose rest is over, until everything ends; then all."""
        with self._stop:
            async with trio.open_nursery() as beside:
                beside.start_soon(self._patience.run)
                while True:
                    for key in await self._resting.wait_over():
                        nursery.start_soon(self._ended, key)
        for key in self._resting.end(self._resting.lanes()):
            nursery.start_soon(self._ended, key)

    async def _ended(self, key: str) -> None:
        await self._services.keeper.lane_changed(key, LaneState.IDLE)
