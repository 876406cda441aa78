"""Pauses the lanes of webhooks of the configuration on all nodes, for a job of one of them.

A job that cancels or erases runs on the node of its instance, and pauses lanes in its own process. The lane
of a webhook of the configuration may be on another node. So the node of the job asks all others to pause it:
it does not matter which of them has the lane, or takes it over meanwhile.

A pause lasts as long as it is renewed. Without renewal it ends after :data:`HELD_FOR`, because the asking
node may have been killed. That is longer than other nodes need to remove a dead one, and to continue its
jobs. Whatever happens to a pause, nothing is lost or overtaken: at its end a lane reads the outbox from the
start.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager
from uuid import uuid4

import msgspec
import structlog
import trio

from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.fleet.all_nodes import AllNodes, Gathered, Question
from hookgw.kernel.collaborator import Collaborator
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.records.registrations import is_global

RENEW_EVERY = 0.5
"""Seconds between two renewals of a pause. Each one says which attempts are in flight still."""

HELD_FOR = 10.0
"""Seconds after which a pause ends that nobody renews."""

PATIENCE = 10.0
"""Seconds that a job waits for a node that does not answer. A dead node is removed before that."""

IMPATIENT_FOR = 60.0
"""Seconds for which nothing waits for such a node again: a job may pause lanes a thousand times."""

logger = structlog.get_logger("hookgw.fleet")


class PauseAsked(msgspec.Struct, frozen=True):
    """Lanes to pause.

    Attributes:
        pause: the id of the pause.
        instance: the deliveries of this instance are changed.
        registrations: the ids of registrations of the configuration.
        ends: end the pause, and only report the attempts in flight.
    """

    pause: str
    instance: str
    registrations: Sequence[str]
    ends: bool = False


class PausePart(msgspec.Struct, frozen=True):
    """The sequence numbers of deliveries in flight. All other attempts are settled on disk."""

    flights: list[int] = []


PAUSE = Question("pause", PauseAsked, PausePart)


class _Held:
    def __init__(self) -> None:
        self.pauses = ExitStack()
        self.lanes: set[tuple[str, str | None]] = set()
        self.until = math.inf


class _Requested:
    """A pause on other nodes.

    Attributes:
        asked: the request; its renewals are the same.
        is_over: whether the lanes may go on. It is kept until all of its attempts have ended.
        flights: by node, the ends of the attempts that were in flight when it answered first.
        silent: since when nodes do not answer, by name.
        waits_for: the nodes without an answer for which the job waits.
    """

    def __init__(self, asked: PauseAsked) -> None:
        self.asked = asked
        self.is_over = False
        self.flights: dict[str, dict[int, trio.Event]] = {}
        self.silent: dict[str, float] = {}
        self.waits_for: set[str] = set()


class LanePauses(Collaborator):
    """Pauses lanes on other nodes, and for them.

    Args:
        flush: waits until earlier settlements are on disk.
    """

    _registry: Registry
    _dispatcher: Dispatcher
    _pending: PendingDeliveries
    _flush: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._nodes: AllNodes | None = None
        self._held: dict[str, _Held] = {}
        self._requested: dict[str, _Requested] = {}
        self._ended = trio.Event()
        # Until when nothing waits for a node, by name.
        self._impatient: dict[str, float] = {}

    async def run(
        self, nodes: AllNodes, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Renew pauses, and end those without renewal, until cancelled; for a fleet only."""
        self._nodes = nodes
        task_status.started()
        while True:
            with trio.move_on_after(RENEW_EVERY):
                await self._ended.wait()
            self._ended = trio.Event()
            now = trio.current_time()
            for name in [name for name, held in self._held.items() if held.until <= now]:
                self._end(name)
            # One after the other for each pause: a renewal must not come in after its end.
            async with trio.open_nursery() as nursery:
                for requested in list(self._requested.values()):
                    nursery.start_soon(self._ask, nodes, requested)

    @asynccontextmanager
    async def paused(
        self, instance: str, registrations: Collection[str]
    ) -> AsyncIterator[list[tuple[int, trio.Event]]]:
        """Pause lanes of an instance's deliveries on other nodes within the block.

        If a node does not answer for :data:`PATIENCE`, the block begins without it. The instance's own
        registrations are left out: their lanes are on this node.

        Yields:
            The attempts in flight there, as :meth:`hookgw.lanes.dispatcher.Dispatcher.in_flight` returns
            them. The events are set after the block, too.
        """
        shared = [name for name in registrations if is_global(name)]
        if self._nodes is None or not shared:
            yield []
            return
        requested = _Requested(PauseAsked(uuid4().hex, instance, shared))
        self._requested[requested.asked.pause] = requested
        try:
            await self._ask(self._nodes, requested)
            while requested.waits_for:
                await trio.sleep(RENEW_EVERY)
                await self._ask(self._nodes, requested)
            yield [one for flights in requested.flights.values() for one in flights.items()]
        finally:
            requested.is_over = True
            self._ended.set()

    async def _ask(self, nodes: AllNodes, requested: _Requested) -> None:
        """Pause the lanes, renew the pause, or end it; note the attempts in flight."""
        is_last = requested.is_over
        gathered = await nodes.ask(PAUSE, msgspec.structs.replace(requested.asked, ends=is_last))
        self._note(requested, gathered)
        flights = requested.flights
        for node in list(flights):
            # A removed node makes no attempts any more, and of one that is silent for long nothing is known.
            if node in gathered.parts or node not in requested.waits_for:
                part = gathered.parts.get(node, PausePart())
                for seq in flights[node].keys() - set(part.flights):
                    flights[node].pop(seq).set()
        if is_last:
            if not any(flights.values()):
                self._requested.pop(requested.asked.pause, None)
            return
        for node, part in gathered.parts.items():
            # While it is paused, no attempt begins.
            flights.setdefault(node, {seq: trio.Event() for seq in part.flights})

    def _note(self, requested: _Requested, gathered: Gathered[PausePart]) -> None:
        now, silent = trio.current_time(), requested.silent
        for name in gathered.parts:
            self._impatient.pop(name, None)
        requested.silent = {name: silent.get(name, now) for name in gathered.silent}
        for name, since in requested.silent.items():
            if now >= since + PATIENCE and now >= self._impatient.get(name, -math.inf):
                self._impatient[name] = now + IMPATIENT_FOR
                logger.warning(
                    "a job goes on without a node",
                    node=name,
                    instance=requested.asked.instance,
                    reason="the node does not answer; its lanes may send what was cancelled or erased",
                )
        requested.waits_for = {
            name for name in requested.silent if now >= self._impatient.get(name, -math.inf)
        }

    async def answer(self, asked: PauseAsked) -> PausePart:
        """Pause lanes of this node for another one, or renew the pause, or end it."""
        if asked.pause in self._requested:
            return PausePart()  # this node asks; its jobs pause the lanes that are here
        lanes = [(name, self._lane(name, asked.instance)) for name in asked.registrations]
        if asked.ends:
            self._end(asked.pause)
        else:
            if (held := self._held.get(asked.pause)) is None:
                held = self._held[asked.pause] = _Held()
            for name, lane in set(lanes) - held.lanes:  # a re-partition gives it other lanes
                held.pauses.enter_context(self._dispatcher.paused(name, lane))
            held.lanes.update(lanes)
            held.until = trio.current_time() + HELD_FOR
        flights = [seq for name, lane in lanes for seq, _ in self._dispatcher.in_flight(name, lane)]
        # An attempt that has ended just before is not on disk yet.
        await self._flush()
        return PausePart(flights)

    def _lane(self, registration_id: str, instance: str) -> str | None:
        registration = self._registry.registration(registration_id)
        return None if registration is None else self._pending.lane_of_instance(registration, instance)

    def _end(self, pause: str) -> None:
        if (held := self._held.pop(pause, None)) is not None:
            held.pauses.close()
