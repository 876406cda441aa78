"""Lanes that get work, pauses, redirects and resumes at random moments, also while they are retired."""

import random
from collections import defaultdict
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw import Delivery, Outcome
from tests.dispatch.fakes import FakeSender, World, registration
from tests.public.delivery import AttemptResult, LaneTransport, RequestTemplate
from tests.public.lanes import RETIRE_AFTER, Dispatcher
from tests.public.records import Ordering

LANES = ["reg_1:0:shop", "reg_1:0:bank", "reg_2:0"]
STEPS = 300
RESTS = (0.0, 0.0, 0.25, 0.5, 1.0, RETIRE_AFTER - 0.5, RETIRE_AFTER, RETIRE_AFTER + 0.1, RETIRE_AFTER + 1.1)


class Witness(FakeSender):
    """Notes what each lane delivers, and fails if a lane does two things at once, or does so paused."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world.clock)
        self._chance = chance
        self._busy: set[str] = set()
        self.paused: set[str] = set()
        self.delivered: dict[str, list[tuple[int, int]]] = defaultdict(list)

    async def send(
        self, delivery: Delivery, body: bytes, template: RequestTemplate, transport: LaneTransport, **how: Any
    ) -> AttemptResult:
        lane, position = delivery.lane, delivery.position
        assert lane not in self._busy, "two tasks of one lane"
        assert delivery.registration not in self.paused, "an attempt in a pause"
        assert not template.registration.is_paused, "an attempt in the owner's pause"
        self._busy.add(lane)
        if delivery.registration == "reg_1":
            assert sum(busy.startswith("reg_1") for busy in self._busy) == 1, "over the limit on attempts"
        self.takes = self._chance.choice((0.0, 0.25, 1.0))
        if self._chance.random() < 0.2:
            self.script[delivery.event.id] = [self._chance.choice((Outcome.FAILED, Outcome.UNREACHABLE))]
        try:
            result = await super().send(delivery, body, template, transport, **how)
        finally:
            self._busy.remove(lane)
        if result.attempt.outcome is Outcome.DELIVERED:
            self.delivered[lane].append((position, delivery.seq))
        return result


class Driver:
    """Does one thing after another to the lanes, and knows what must arrive."""

    def __init__(self, world: World, sender: Witness, dispatcher: Dispatcher, chance: random.Random) -> None:
        self._world = world
        self._sender = sender
        self._dispatcher = dispatcher
        self._chance = chance
        self._all: dict[str, list[Delivery]] = defaultdict(list)
        self.due: dict[str, list[tuple[int, int]]] = defaultdict(list)

    async def run(self) -> None:
        async with trio.open_nursery() as pauses:
            for _ in range(STEPS):
                lane = self._chance.choice(LANES)
                match self._chance.randrange(7):
                    case 0 | 1:
                        self._append(lane)
                    case 2:
                        self._requeue(lane)
                    case 3:
                        pauses.start_soon(self._pause, lane.partition(":")[0])
                    case 4:
                        self._redirect(lane.partition(":")[0])
                    case 5:
                        self._dispatcher.resume(lane.partition(":")[0])
                    case 6:
                        self._turn_pause(lane.partition(":")[0])
                if (rest := self._chance.choice(RESTS)) or self._chance.random() < 0.5:
                    await trio.sleep(rest)
        for registration_id in [one.id for one in self._world.registrations.values() if one.is_paused]:
            self._turn_pause(registration_id)

    def _turn_pause(self, registration_id: str) -> None:
        """Pause or resume, as the owner of the registration does it."""
        is_paused = self._world.registrations[registration_id].is_paused
        self._world.change(registration_id, paused_at=None if is_paused else self._world.clock.wall())
        self._dispatcher.apply_pause(registration_id)

    def _append(self, lane: str) -> None:
        added = self._world.outbox.add(self._chance.choice((1, 1, 5)), lane=lane)
        self._all[lane] += added
        self.due[lane] += [(delivery.position, delivery.seq) for delivery in added]
        self._dispatcher.dispatch(added)

    def _requeue(self, lane: str) -> None:
        finished = [one for one in self._all[lane] if one.seq not in self._world.outbox.pending]
        if finished:
            again = self._world.outbox.requeue(self._chance.choice(finished))
            self.due[lane].append((again.position, again.seq))
            self._dispatcher.requeued({lane: 1})

    async def _pause(self, registration_id: str) -> None:
        is_outermost = registration_id not in self._sender.paused
        with self._dispatcher.paused(registration_id):
            for _, ended in self._dispatcher.in_flight(registration_id):
                await ended.wait()
            if is_outermost:
                self._sender.paused.add(registration_id)
            await trio.sleep(self._chance.choice((0.0, 0.25, 10.0)))
            if is_outermost:
                self._sender.paused.discard(registration_id)

    def _redirect(self, registration_id: str) -> None:
        self._world.outbox.make_due(registration_id)
        self._world.change(registration_id, url=f"http://127.0.0.1:9/{self._chance.random()}")
        self._dispatcher.redirect(registration_id)


@pytest.mark.parametrize("memory", [2**27, 5000], ids=["much memory", "little memory"])
@pytest.mark.parametrize("writes_late", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_each_lane_has_one_task_and_delivers_everything_in_order(
    autojump_clock: MockClock, seed: int, writes_late: bool, memory: int
) -> None:
    chance = random.Random(seed)
    world = World(
        registration("reg_1", ordering=Ordering.INSTANCE, concurrency=1),
        registration("reg_2"),
        lane_idle=RETIRE_AFTER + 1,
        lane_buffer=4,
        schedule=[5.0] * 1000,
    )
    world.outbox.writes_late = writes_late
    world.memory.total = memory
    sender = world.sender = Witness(world, chance)
    async with world.dispatcher() as dispatcher:
        driver = Driver(world, sender, dispatcher, chance)
        await driver.run()
        await trio.sleep(10_000)
        assert dispatcher.lanes() == []
        await world.outbox.flush()
    assert world.outbox.pending == {}
    assert (world.memory.used, world.memory.waiting) == (0, 0)
    assert world.pools.statistics().lent == 0
    assert sender.delivered == driver.due
