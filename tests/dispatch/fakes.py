"""What surrounds a lane, small and in memory."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn, cast

import msgspec
import trio

from hookgw import Attempt, Delivery, DeliveryState, Event, LaneState, Outcome, Registration
from hookgw.fair import Share
from tests.public.concurrency import (
    Clock,
    LightSteps,
    LoopLoad,
    TaskFailed,
    in_task,
    let_others_go_on,
    virtual_clock,
)
from tests.public.config import DeliverySettings
from tests.public.delivery import (
    AttemptResult,
    ConnectionPools,
    DeliveryError,
    DeliverySender,
    Dialer,
    LaneTransport,
    PooledTransport,
    RequestTemplate,
)
from tests.public.kernel import PluginFailed, StorageUnavailable
from tests.public.lanes import LANE_MEMORY_RATIO as MEMORY_RATIO
from tests.public.lanes import LANE_MEMORY_RESERVED as MEMORY_RESERVED
from tests.public.lanes import Dispatcher, EveryLane, Fetches, HeldShards, LaneServices, MemoryClaim, TagRates
from tests.public.records import (
    LaneStatistics,
    Page,
    Position,
    PreparedRequest,
    Settlement,
    ShardEpoch,
    registration_of,
)
from tests.public.store import Append, ConnectorState, Held, LaneBacklog, PendingChange, StoreListener
from tests.support.hub import running_steps

URL = "http://127.0.0.1:9/hook"
NEW_URL = "http://127.0.0.2:9/hook"
LANE = "reg_1:0"
OTHER_LANE = "reg_2:0"
BEGAN = 1_700_000_000.0

Answer = AttemptResult | Outcome | PluginFailed


class FakeOutbox:
    """Pending deliveries, as they are on disk: readers get copies.

    Attributes:
        pending: by sequence number.
        settlements: all that were requested.
        held_back: what no lane may read.
        last_attempts: of what is pending, by sequence number.
        refuses_last_attempts: reads of these fail.
        reads: the arguments of each page that was read: lane and position.
        page_limit: the most deliveries in a page.
        may_read, may_flush, may_settle: reads, flushes and attempts wait until these are set.
        refusals: so many of the next reads fail.
        writes_late: settlements are written by the next other write, or when somebody waits for it.
    """

    def __init__(self) -> None:
        self.pending: dict[int, Delivery] = {}
        self.settlements: list[Settlement] = []
        self.held_back = Held()
        self.reads: list[tuple[str, Position]] = []
        self.page_limit = 1_000_000
        self._settling = trio.lowlevel.ParkingLot()
        self.may_read, self.may_flush, self.may_settle = trio.Event(), trio.Event(), trio.Event()
        self.may_read.set()
        self.may_flush.set()
        self.may_settle.set()
        self.refusals = 0
        self.writes_late = False
        self._unwritten: list[Settlement] = []
        self._listener: StoreListener | None = None
        self.last_attempts: dict[int, Attempt] = {}
        self.refuses_last_attempts = False
        self._numbers = 0
        self._positions = 0

    def add(
        self, count: int = 1, *, lane: str = LANE, instance: str = "shop", size: int = 2
    ) -> list[Delivery]:
        """Append deliveries with payloads of a size, and return them as the dispatcher gets them."""
        return [self._add(lane, instance, size=size) for _ in range(count)]

    def _add(self, lane: str, instance: str, event: Event | None = None, *, size: int = 2) -> Delivery:
        self.write()
        self._numbers += 1
        self._positions += 1
        event = event or Event(
            id=f"e{self._numbers}",
            kind="MESSAGES_UPSERT",
            instance=instance,
            data_json=b"{" + b" " * (size - 2) + b"}",
            time=BEGAN,
        )
        delivery = Delivery(
            seq=self._numbers,
            event=event,
            registration=registration_of(lane),
            lane=lane,
            accepted_at=BEGAN,
            position=self._positions,
            queued_at=BEGAN,
        )
        self.pending[delivery.seq] = delivery
        return msgspec.structs.replace(delivery)

    def requeue(self, delivery: Delivery) -> Delivery:
        """Make a finished delivery pending again, at the end of its lane."""
        self.write()
        self._positions += 1
        again = msgspec.structs.replace(
            delivery, position=self._positions, failures=0, next_at=0.0, queued_at=delivery.queued_at
        )
        self.pending[again.seq] = again
        return again

    def make_due(self, registration: str) -> None:
        """Do what ``put_registration(due=True)`` does to what is pending."""
        self.write()
        for delivery in self.pending.values():
            if delivery.registration == registration:
                delivery.next_at = 0.0

    # The Protocol.

    async def append(
        self,
        appends: Sequence[Append],
        *,
        state: ConnectorState | None = None,
        epoch: ShardEpoch | None = None,
    ) -> list[bool]:
        assert state is None
        assert epoch is None
        await trio.lowlevel.checkpoint()
        added = [
            self._add(lane, append.event.instance, append.event)
            for append in appends
            for _, lane in append.targets
        ]
        if self._listener is not None:
            self._listener.appended(added)
        return [True] * len(appends)

    async def read_lane(
        self, lane: str, after: Position, limit: int, size: int | None = None, before: Position | None = None
    ) -> Page:
        self._refuse()
        self.reads.append((lane, after))
        found = sorted(
            (
                d
                for d in self.pending.values()
                if d.lane == lane and after < d.position and (before is None or d.position < before)
            ),
            key=lambda delivery: delivery.position,
        )
        limit, total = min(limit, self.page_limit), 0
        sizes = [len(delivery.event.data_json) + len(delivery.body or b"") for delivery in found]
        for number, one in enumerate(sizes[:limit]):
            total += one
            if size is not None and total > size:
                limit = number
                break
        page = Page(
            [msgspec.structs.replace(delivery) for delivery in found[:limit]],
            len(found) > limit,
            sizes[0] if sizes else 0,
        )
        await in_task()
        await self.may_read.wait()
        return page

    def settle_nowait(self, settlement: Settlement) -> int:
        self.settlements.append(settlement)
        self._unwritten.append(settlement)
        if not self.writes_late:
            self.write()
        return len(self.settlements)

    async def wait_settled(self, number: int | None = None) -> None:
        if number is None:
            number = len(self.settlements)
        while number > len(self.settlements) - len(self._unwritten):
            await in_task()
            if self.may_flush.is_set():
                await self.flush()
            else:
                await self._settling.park()

    def write(self) -> None:
        """Have what was settled on disk, although nobody may flush yet."""
        for settlement in self._unwritten:
            delivery = self.pending.get(settlement.seq)
            if delivery is None:
                continue
            if settlement.state is not DeliveryState.PENDING:
                del self.pending[settlement.seq]
                continue
            assert settlement.attempt is not None
            self.last_attempts[settlement.seq] = settlement.attempt
            delivery.attempts = settlement.attempt.number
            delivery.failures, delivery.next_at = settlement.failures, settlement.next_at
            delivery.body = settlement.body if delivery.body is None else delivery.body
        self._unwritten.clear()
        self._settling.unpark_all()

    async def wait_settle_capacity(self) -> None:
        if not self.may_settle.is_set():  # no checkpoint while there is room
            await in_task()
            await self.may_settle.wait()

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.may_flush.wait()
        self.write()

    async def pending_lanes(self, registration: str | None = None) -> list[LaneBacklog]:
        self._refuse()
        counts = Counter(d.lane for d in self.pending.values() if registration in (None, d.registration))
        return [LaneBacklog(lane, count) for lane, count in counts.items()]

    async def pending_counts(self) -> PendingChange:
        counts = Counter((d.registration, d.event.instance) for d in self.pending.values())
        return {holder: (count, 2 * count) for holder, count in counts.items()}

    def held(self) -> Held:
        return self.held_back

    async def count_pending(self, lane: str) -> int:
        self._refuse()
        count = sum(delivery.lane == lane for delivery in self.pending.values())
        if not self.may_read.is_set():
            await self.may_read.wait()
        return count

    async def last_attempt(self, seq: int) -> Attempt | None:
        if self.refuses_last_attempts:
            raise StorageUnavailable("The disk cannot be read.")
        return self.last_attempts.get(seq)

    async def generation(self) -> str:
        raise NotImplementedError

    async def has_place(self, generation: str, position: Position) -> bool:
        raise NotImplementedError

    def subscribe(self, listener: StoreListener) -> None:
        self._listener = listener

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StorageUnavailable("The disk cannot be read.")


class Request(NamedTuple):
    """One request that was sent: when, by the steady clock, and what with."""

    event: str
    number: int
    at: float
    lane: str
    registration: Registration
    body: bytes
    timeout: float
    is_prepared: bool


class FakeSender(DeliverySender):
    """Answers attempts from a script, by event id; delivers what the script does not name.

    Attributes:
        script: the answers that are still to come, by event id.
        filtered: ids of the events that a plugin drops.
        takes: how long an attempt takes.
        refuses: requests to these URLs are answered so, whatever the event.
        hooks: what plugins need. Without any, it prepares what comes next during each attempt.
    """

    def __init__(self, clock: Clock, script: Mapping[str, Sequence[Answer]] = {}) -> None:
        self._clock = clock
        self.script = defaultdict[str, list[Answer]](list, {name: [*given] for name, given in script.items()})
        self.refuses: dict[str, Outcome] = {}
        self.filtered: set[str] = set()
        self.takes = 0.0
        self.hooks = frozenset({"hookgw_filter"})
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0

    def concerned(self, _: RequestTemplate) -> frozenset[str]:
        return self.hooks

    async def render_body(self, event: Event, template: RequestTemplate) -> bytes | None:
        await let_others_go_on()
        script = self.script[event.id]
        if script and isinstance(script[0], PluginFailed):
            raise cast("PluginFailed", script.pop(0))
        if event.id in self.filtered:
            return None
        return f"{event.id} to {template.registration.address}".encode()

    async def prepare(
        self, delivery: Delivery, body: bytes, template: RequestTemplate, number: int
    ) -> dict[str, str] | None:
        return None

    async def send(
        self,
        delivery: Delivery,
        body: bytes,
        template: RequestTemplate,
        transport: LaneTransport,
        *,
        number: int,
        timeout: float,  # noqa: ASYNC109
        headers: dict[str, str] | None = None,
        prepared: PreparedRequest | None = None,
        upcoming: Delivery | None = None,
    ) -> AttemptResult:
        event, registration = delivery.event.id, template.registration
        at, lane, is_prepared = self._clock.steady(), delivery.lane, prepared is not None
        self.requests.append(Request(event, number, at, lane, registration, body, timeout, is_prepared))
        if upcoming is not None and not self.hooks:
            next_body = f"{upcoming.event.id} prepared for {registration.address}".encode()
            upcoming.prepared = PreparedRequest(
                registration=registration, timestamp=0, body=next_body, head=b""
            )
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.takes:
                await in_task()
                await trio.sleep(self.takes)
            else:
                await let_others_go_on()
        finally:
            self.in_flight -= 1
        script = self.script[event]
        default = self.refuses.get(registration.url, Outcome.DELIVERED)
        answer = script.pop(0) if script else default
        assert not isinstance(answer, PluginFailed)
        return AttemptResult(self._attempt(number, answer)) if isinstance(answer, Outcome) else answer

    def signed_headers(
        self,
        delivery: Delivery,
        body: bytes,
        template: RequestTemplate,
        *,
        number: int,
        headers: dict[str, str] | None = None,
    ) -> dict[str, str]:
        return {"webhook-id": delivery.event.id, "x-attempt": str(number)}

    def unsent(self, number: int, failure: PluginFailed | DeliveryError) -> Attempt:
        is_plugin = isinstance(failure, PluginFailed)
        return self._attempt(number, Outcome.FAILED if is_plugin else Outcome.UNREACHABLE)

    def cut_off(self, number: int, started_at: float, event: Event, template: RequestTemplate) -> Attempt:
        return self._attempt(number, Outcome.FAILED)

    def _attempt(self, number: int, outcome: Outcome) -> Attempt:
        error = None if outcome is Outcome.DELIVERED else f"It was {outcome}."
        return Attempt(number=number, at=self._clock.wall(), duration=0.0, outcome=outcome, error=error)

    @property
    def order(self) -> list[str]:
        """The events of all requests, in the order of sending."""
        return [request.event for request in self.requests]

    @property
    def times(self) -> list[float]:
        """When each request was sent, in seconds from the first."""
        return [round(request.at - self.requests[0].at, 3) for request in self.requests]


class FakeHistory:
    """Cannot be read: a lane knows of no delivery before its own."""

    async def list_deliveries(self, _query: object) -> NoReturn:
        raise StorageUnavailable("There is no history here.")


class FakeMonitor:
    """Writes down what lanes report. A registration that is gone is removed.

    Attributes:
        attempts: every attempt, with the registration that it was made for.
        late: the attempts that were answered late.
        finals: event id, state and reason of each finished delivery.
        states: what ``lane_changed`` reported.
        gone_ids: registrations that answered 410.
        failures: when which lane ended by which exception.
        stuck: when which lane was held up.
    """

    def __init__(self, registrations: dict[str, Registration]) -> None:
        self._registrations = registrations
        self.attempts: list[tuple[Attempt, Registration]] = []
        self.late: list[Attempt] = []
        self.finals: list[tuple[str, DeliveryState, str | None]] = []
        self.states: list[LaneState] = []
        self.gone_ids: list[str] = []
        self.failures: list[tuple[float, str]] = []
        self.stuck: list[tuple[float, LaneStatistics]] = []

    async def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        self.attempts.append((attempt, registration))

    async def answered_late(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        self.late.append(attempt)

    async def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        self.finals.append((delivery.event.id, settlement.state, settlement.reason))

    async def gone(self, registration: Registration) -> None:
        self.gone_ids.append(registration.id)
        del self._registrations[registration.id]

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        self.states.append(state)

    def lane_stuck(self, lane: LaneStatistics) -> None:
        self.stuck.append((trio.current_time(), lane))

    def lane_failed(self, lane: str, failure: TaskFailed) -> None:
        self.failures.append((trio.current_time(), f"{lane}: {failure}"))


def every_lane() -> HeldShards:
    """Return what the only node holds after its start."""
    shards = EveryLane()
    shards.complete([0])
    return shards


class World:
    """An outbox, a sender and a monitor around lanes, on a clock that follows Trio's."""

    def __init__(
        self, *registrations: Registration, script: Mapping[str, Sequence[Answer]] = {}, **settings: Any
    ) -> None:
        self.clock = virtual_clock()
        self.registrations = {r.id: r for r in registrations or (registration(), registration("reg_2"))}
        self.outbox = FakeOutbox()
        self.sender = FakeSender(self.clock, script)
        self.monitor = FakeMonitor(self.registrations)
        self.settings = DeliverySettings(jitter=0.0, **settings)
        self.may_send: Callable[[], bool] = lambda: True
        self.is_shared = False
        self.memory: Share[MemoryClaim] = Share(self.settings.memory, MEMORY_RATIO, MEMORY_RESERVED)
        # Nothing is connected: the fake sender does not use what it gets.
        self.fetches = Fetches(BEGAN)
        self.tag_rates = TagRates()
        self.loop_load = LoopLoad()
        self.pools = ConnectionPools(partial(PooledTransport, cast("Dialer", None)))
        self._steps: LightSteps | None = None

    @property
    def services(self) -> LaneServices:
        self._steps = self._steps or running_steps()
        return LaneServices(
            steps=self._steps,
            outbox=self.outbox,
            history=cast("Any", FakeHistory()),
            registration=self.registrations.get,
            sender=self.sender,
            pools=self.pools,
            memory=self.memory,
            monitor=self.monitor,
            clock=self.clock,
            settings=self.settings,
            may_send=self.may_send,
            is_shared=self.is_shared,
            fetches=self.fetches,
            tag_rates=self.tag_rates,
            loop_load=self.loop_load,
        )

    def change(self, registration_id: str = "reg_1", **changes: Any) -> None:
        """Change a registration in memory, as it is once the change is on disk."""
        changed = msgspec.structs.replace(self.registrations[registration_id], **changes)
        self.registrations[registration_id] = changed

    @asynccontextmanager
    async def dispatcher(
        self, backlog: Iterable[tuple[str, int]] = (), shards: HeldShards | None = None
    ) -> AsyncIterator[Dispatcher]:
        """Run a dispatcher for the length of a block."""
        dispatcher = Dispatcher(self.settings, shards or every_lane())
        async with trio.open_nursery() as nursery:
            await nursery.start(dispatcher.run, self.services)
            dispatcher.start(backlog)
            yield dispatcher
            nursery.cancel_scope.cancel()

    @property
    def settled(self) -> list[tuple[int, DeliveryState]]:
        """The deliveries that are finished, in the order of their settlements."""
        finished = (s for s in self.outbox.settlements if s.state is not DeliveryState.PENDING)
        return [(s.seq, s.state) for s in finished]


def registration(name: str = "reg_1", url: str = URL, **more: Any) -> Registration:
    return Registration(**{"id": name, "instance": "shop", "url": url, **more})
