"""The surroundings of a lane, small and in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import trio

from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.connection import IdleConnection
from hookgw.delivery.sender import AttemptResult, RequestTemplate
from hookgw.dispatch.services import LaneServices
from hookgw.models.clock import Clock, virtual_clock
from hookgw.models.deliveries import Attempt, Delivery, DeliveryState, LaneState, Outcome, Page, Settlement
from hookgw.models.errors import PluginFailed, StorageUnavailable
from hookgw.models.events import Event
from hookgw.models.registrations import Registration

URL = "http://127.0.0.1:9/hook"


class FakeStore:
    """Pending deliveries and what was settled, with a commit that is immediate."""

    def __init__(self) -> None:
        self.pending: dict[int, Delivery] = {}
        self.settlements: list[Settlement] = []
        self.pages: list[tuple[str, int]] = []
        self.page_limit = 1_000_000
        self.reads = trio.Event()
        self.reads.set()
        self.room = trio.Event()
        self.room.set()
        self.unreadable = 0
        self._seq = 0

    def _fail_if_unreadable(self) -> None:
        if self.unreadable:
            self.unreadable -= 1
            raise StorageUnavailable("The disk cannot be read.")

    def append(self, count: int = 1, *, registration: str = "reg_1", lane: str = URL) -> list[Delivery]:
        return [self._append(registration, lane) for _ in range(count)]

    def _append(self, registration: str, lane: str) -> Delivery:
        self._seq += 1
        event = Event(
            id=f"e{self._seq}", kind="MESSAGES_UPSERT", instance="shop", data_json=b"{}", time=1_700_000_000.0
        )
        delivery = Delivery(
            seq=self._seq,
            event=event,
            registration=registration,
            lane=lane,
            accepted_at=1_700_000_000.0,
            position=self._seq,
            queued_at=1_700_000_000.0,
        )
        self.pending[self._seq] = delivery
        return delivery

    def requeue(self, delivery: Delivery) -> Delivery:
        """Put a finished delivery at the end of its lane."""
        self._seq += 1
        delivery.position = self._seq
        self.pending[delivery.seq] = delivery
        return delivery

    async def page(self, lane: str, after: int, limit: int) -> Page:
        self._fail_if_unreadable()
        self.pages.append((lane, after))
        found = sorted(
            (d for d in self.pending.values() if d.lane == lane and d.position > after),
            key=lambda delivery: delivery.position,
        )
        await self.reads.wait()
        limit = min(limit, self.page_limit)
        return Page(found[:limit], more=len(found) > limit)

    def settle_nowait(self, settlement: Settlement) -> None:
        self.settlements.append(settlement)
        delivery = self.pending[settlement.seq]
        if settlement.state is not DeliveryState.PENDING:
            del self.pending[settlement.seq]
        else:
            delivery.attempts = settlement.attempt.number if settlement.attempt else delivery.attempts

    async def settle_capacity(self) -> None:
        await self.room.wait()

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()

    async def count_pending(self, lane: str) -> int:
        self._fail_if_unreadable()
        return sum(delivery.lane == lane for delivery in self.pending.values())


class FakeCourier:
    """Answers attempts from a script, by event id; delivers where the script says nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.script: dict[str, list[AttemptResult | Outcome | PluginFailed]] = defaultdict(list)
        self.drops: set[str] = set()
        self.sent: list[tuple[str, int, float]] = []
        self.bodies: list[bytes] = []
        self.urls: list[str] = []
        self.takes = 0.0
        self.on_the_wire = 0
        self.most_on_the_wire = 0

    async def render_body(self, event: Event, registration: Registration) -> bytes | None:
        await trio.lowlevel.checkpoint()
        script = self.script[event.id]
        if script and isinstance(script[0], PluginFailed):
            failure = script.pop(0)
            assert isinstance(failure, PluginFailed)
            raise failure
        return None if event.id in self.drops else f"body of {event.id}".encode()

    async def send(
        self,
        delivery: Delivery,
        body: bytes,
        route: RequestTemplate,
        transport: object,
        *,
        number: int,
        timeout: float,  # noqa: ASYNC109
    ) -> AttemptResult:
        self.sent.append((delivery.event.id, number, self._clock.steady()))
        self.bodies.append(body)
        self.urls.append(route.registration.url)
        self.on_the_wire += 1
        self.most_on_the_wire = max(self.most_on_the_wire, self.on_the_wire)
        try:
            await trio.sleep(self.takes)
        finally:
            self.on_the_wire -= 1
        script = self.script[delivery.event.id]
        answer = script.pop(0) if script else Outcome.DELIVERED
        assert not isinstance(answer, PluginFailed)
        return AttemptResult(self._attempt(number, answer)) if isinstance(answer, Outcome) else answer

    def failed(self, number: int, failure: PluginFailed) -> Attempt:
        return self._attempt(number, Outcome.FAILED)

    def _attempt(self, number: int, outcome: Outcome) -> Attempt:
        return Attempt(number=number, at=self._clock.wall(), duration=0.0, outcome=outcome)

    @property
    def order(self) -> list[str]:
        return [event_id for event_id, _, _ in self.sent]


class FakeKeeper:
    """Knows registrations and writes down what it is told."""

    def __init__(self, *registrations: Registration) -> None:
        self.registrations = {r.id: r for r in registrations}
        self.attempts: list[Attempt] = []
        self.finals: list[tuple[str, DeliveryState, str | None]] = []
        self.states: list[LaneState] = []
        self.disabled: list[str] = []

    def registration(self, registration_id: str) -> Registration | None:
        return self.registrations.get(registration_id)

    async def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        self.attempts.append(attempt)

    async def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        self.finals.append((delivery.event.id, settlement.state, settlement.reason))

    async def disable(self, registration: Registration, reason: str) -> None:
        self.disabled.append(registration.id)
        del self.registrations[registration.id]

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        self.states.append(state)


class FakeTransport:
    """A connection that only knows whether it was closed."""

    closed = False
    idle: IdleConnection | None = None

    def close_nowait(self) -> None:
        self.closed = True

    def release_connection(self) -> IdleConnection | None:
        idle, self.idle = self.idle, None
        return idle

    def adopt_connection(self, idle: IdleConnection) -> None:
        self.idle = idle


class World:
    """A store, a courier and a keeper round lanes, on a clock that follows Trio's."""

    def __init__(self, *, registrations: Sequence[Registration] = (), **settings: Any) -> None:
        self.clock = virtual_clock()
        self.store = FakeStore()
        self.courier = FakeCourier(self.clock)
        self.keeper = FakeKeeper(*(registrations or [registration()]))
        self.services = LaneServices(
            store=self.store,
            keeper=self.keeper,
            courier=self.courier,
            clock=self.clock,
            settings=DeliverySettings(jitter=0.0, **settings),
        )

    @property
    def settled(self) -> list[tuple[int, DeliveryState]]:
        return [(s.seq, s.state) for s in self.store.settlements if s.state is not DeliveryState.PENDING]


def registration(name: str = "reg_1", url: str = URL, **more: Any) -> Registration:
    return Registration(id=name, instance="shop", url=url, **more)
