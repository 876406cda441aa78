"""Lanes that are fed, paused, sent to rest and woken at random moments, also at the very same ones."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
import trio
from trio.testing import MockClock

from hookgw.delivery.sender import AttemptResult, RequestTemplate
from hookgw.dispatch.dispatcher import REST_AFTER, Dispatcher
from hookgw.models.deliveries import Delivery, Outcome
from tests.dispatch.fakes import URL, FakeCourier, World
from tests.dispatch.test_dispatcher import running

LANES = [URL, "http://127.0.0.1:9/other"]
STEPS = 300
PAUSES = (0.0, 0.0, 0.25, 0.5, 1.0, REST_AFTER - 0.5, REST_AFTER, REST_AFTER + 0.1, REST_AFTER + 1.1)


class Witness(FakeCourier):
    """A courier that notes what each lane has delivered, and sees when a lane does two things at once."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world.clock)
        self._chance = chance
        self._busy: set[str] = set()
        self.delivered: dict[str, list[tuple[int, int]]] = defaultdict(list)

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
        lane, position = delivery.lane, delivery.position
        assert lane not in self._busy, "two tasks of one lane"
        self._busy.add(lane)
        self.takes = self._chance.choice((0.0, 0.25, 1.0))
        if self._chance.random() < 0.2:
            self.script[delivery.event.id] = [self._chance.choice((Outcome.FAILED, Outcome.UNREACHABLE))]
        try:
            sent = await super().send(delivery, body, route, transport, number=number, timeout=timeout)
        finally:
            self._busy.remove(lane)
        if sent.attempt.outcome is Outcome.DELIVERED:
            self.delivered[lane].append((position, delivery.seq))
        return sent


class Driver:
    """Does one thing after another to the lanes, and knows what has to arrive."""

    def __init__(self, world: World, dispatcher: Dispatcher, chance: random.Random) -> None:
        self._world = world
        self._dispatcher = dispatcher
        self._chance = chance
        self._all: dict[str, list[Delivery]] = defaultdict(list)
        self.due: dict[str, list[tuple[int, int]]] = defaultdict(list)

    async def run(self) -> None:
        acts = (self.append, self.append, self.requeue, self.pause, self.resume)
        for _ in range(STEPS):
            self._chance.choice(acts)(self._chance.choice(LANES))
            if (pause := self._chance.choice(PAUSES)) or self._chance.random() < 0.5:
                await trio.sleep(pause)

    def append(self, lane: str) -> None:
        news = self._world.store.append(self._chance.choice((1, 1, 5)), lane=lane)
        self._all[lane] += news
        self.due[lane] += [(one.position, one.seq) for one in news]
        self._dispatcher.dispatch(news)

    def requeue(self, lane: str) -> None:
        finished = [one for one in self._all[lane] if one.seq not in self._world.store.pending]
        if finished:
            again = self._world.store.requeue(self._chance.choice(finished))
            self.due[lane].append((again.position, again.seq))
            self._dispatcher.requeued({lane: 1})

    def pause(self, lane: str) -> None:
        go_on = trio.Event()
        self._dispatcher.pause([lane], until=[go_on])
        trio.lowlevel.current_trio_token().run_sync_soon(go_on.set)

    def resume(self, lane: str) -> None:
        self._dispatcher.resume([lane])


@pytest.mark.parametrize("seed", range(6))
async def test_each_lane_has_one_task_and_delivers_all_in_order(autojump_clock: MockClock, seed: int) -> None:
    chance = random.Random(seed)
    world = World(lane_idle=REST_AFTER + 1, lane_buffer=4)
    courier = world.courier = Witness(world, chance)
    world.services = type(world.services)(
        store=world.store,
        keeper=world.keeper,
        courier=courier,
        clock=world.clock,
        settings=world.services.settings,
    )
    async with running(world) as dispatcher:
        driver = Driver(world, dispatcher, chance)
        await driver.run()
        await trio.sleep(10_000)
        assert dispatcher.lanes() == []
    assert world.store.pending == {}
    assert courier.delivered == driver.due
