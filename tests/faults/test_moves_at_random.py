"""URLs that change at random while receivers take their time: one attempt at a time, in order.

Every step of a move takes one delivery, so that most changes come in the middle of another one.
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw.models.deliveries import DeliveryState
from hookgw.models.registrations import RegistrationChange
from hookgw.store import DeliveryQuery, DeliveryReport
from hookgw.store.sqlite import store_pending as moving_access
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver
from tests.faults.support import KIND

LABELS = ("one", "two")
STEPS = 60
SETTINGS = {"delivery": {"unreachable_max_wait": "2s", "schedule": ["1s"] * 9, "timeout": "15s"}}


class Driver:
    """Does at random what upsets lanes."""

    def __init__(self, kit: GatewayKit, receivers: list[Receiver], chance: random.Random) -> None:
        self._kit = kit
        self._receivers = receivers
        self._chance = chance
        self._enabled = dict.fromkeys(LABELS, True)
        self._emitted = 0

    async def run(self) -> None:
        acts = (self.emit, self.emit, self.move, self.move, self.move, self.switch, self.change, self.wait)
        await self.calm()
        for _ in range(STEPS):
            await self._chance.choice(acts)()
            if self._chance.random() < 0.5:
                await trio.testing.wait_all_tasks_blocked(0.002)

    async def calm(self) -> None:
        """Every registration is enabled and has a URL."""
        for label in LABELS:
            await self.move_to(label, self._chance.choice(self._receivers).url)

    async def emit(self) -> None:
        for _ in range(self._chance.randint(1, 3)):
            self._emitted += 1
            await self._kit.emit(KIND, {}, event_id=f"e{self._emitted}")

    async def move(self) -> None:
        await self.move_to(self._chance.choice(LABELS), self._chance.choice(self._receivers).url)

    async def move_to(self, label: str, url: str) -> None:
        self._enabled[label] = True
        await self._kit.register(url, label=label, enabled=True, headers={"x-label": label})

    async def switch(self) -> None:
        label = self._chance.choice(LABELS)
        self._enabled[label] = not self._enabled[label]
        registration = self._kit.gateway.registrations.find("shop", label)
        assert registration is not None
        change = RegistrationChange(url=registration.url, enabled=self._enabled[label])
        await self._kit.gateway.registrations.set("shop", label, change)

    async def change(self) -> None:
        status, wait = self._chance.choice((200, 200, 500, 503)), self._chance.choice((0.0, 1.0, 8.0))
        self._chance.choice(self._receivers).default = answer(status, wait=wait)

    async def wait(self) -> None:
        self._kit.clock.jump(self._chance.choice((0.5, 1.0, 3.0)))
        await trio.testing.wait_all_tasks_blocked(0.005)


async def reports(kit: GatewayKit) -> list[DeliveryReport]:
    """All deliveries, in the order of acceptance."""
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance="shop", limit=1000))
    whole = [await kit.gateway.store.find_delivery("shop", f"dlv_{one.seq}") for one in reversed(found)]
    return [one for one in whole if one is not None]


def check(reports: list[DeliveryReport], arrived: dict[str, int]) -> None:
    """The deliveries of one registration, and how often each event arrived for it."""
    assert {one.summary.state for one in reports} <= {DeliveryState.DELIVERED, DeliveryState.DEAD}
    assert {one.event.id: len(one.attempts) for one in reports if one.attempts} == arrived
    for one in reports:
        if one.summary.state is DeliveryState.DEAD:
            assert one.summary.reason is not None
            assert "was disabled" in one.summary.reason
    first = [one.attempts[0].at for one in reports if one.attempts]
    assert first == sorted(first)
    times = sorted((a.at, a.at + a.duration) for one in reports for a in one.attempts)
    for (_, end), (begin, _) in pairwise(times):
        assert begin >= end - 0.001, "two attempts at a time"


@pytest.mark.parametrize("seed", range(12))
async def test_one_attempt_at_a_time_in_order_however_often_the_url_changes(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(moving_access, "MOVING_STEP", 1)
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(open_receiver()) for _ in range(3)]
        kit = await stack.enter_async_context(open_kit(tmp_path, settings=SETTINGS))
        driver = Driver(kit, receivers, random.Random(seed))
        await driver.run()
        for receiver in receivers:
            receiver.default = answer()
        await driver.calm()
        for _ in range(20):
            await driver.wait()
        await kit.advance(30)
        assert await kit.gateway.store.load_moves() == {}
        found = await reports(kit)
        for label in LABELS:
            registration = kit.gateway.registrations.find("shop", label)
            assert registration is not None
            requests = [
                r for receiver in receivers for r in receiver.requests if r.header("x-label") == label
            ]
            ids = [str(request.header("webhook-id")) for request in requests]
            mine = [one for one in found if one.summary.registration == registration.id]
            check(mine, {event_id: ids.count(event_id) for event_id in ids})
