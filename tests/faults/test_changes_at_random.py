"""Registrations that change and pause at random, deliveries that are cancelled or erased, receivers that take
their time: one attempt at a time, in order.

Every step of a re-partition takes one delivery, so that most changes come in the middle of another one.

Environment: ``HOOKGW_CHANGES_SEEDS`` (12), ``HOOKGW_CHANGES_SEED`` runs that one alone.
"""

import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import hookgw
from hookgw import Attempt, Conflict, Delivery, DeliveryState, Outcome, Registration
from hookgw.core import jobs
from hookgw.store import steps
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver
from tests.faults.support import KIND
from tests.public.records import DeliverySelection, Ordering
from tests.public.store import DeliveryQuery, DeliveryReport
from tests.public.webhooks import RegistrationChange

SEEDS = (
    [int(os.environ["HOOKGW_CHANGES_SEED"])]
    if "HOOKGW_CHANGES_SEED" in os.environ
    else range(int(os.environ.get("HOOKGW_CHANGES_SEEDS", "12")))
)
LABELS = ("one", "two")
CHATS = ("ana", "bob", "eva", "zoe")
LIVES, STEPS = 2, 40
SETTINGS = {"delivery": {"unreachable_max_wait": "2s", "schedule": ["1s"] * 9, "timeout": "15s"}}
# "none" keeps no order, so that nothing could be checked of the order across a change.
DIVISIONS = (
    (Ordering.URL, 1),
    (Ordering.INSTANCE, 2),
    (Ordering.CHAT, 2),
    (Ordering.CHAT, 5),
)


class AttemptLog:
    """A plugin that notes the attempts."""

    def __init__(self) -> None:
        self.lanes: dict[str, list[Attempt]] = defaultdict(list)

    @hookgw.hookimpl
    async def hookgw_attempt(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        self.lanes[delivery.lane].append(attempt)


class Driver:
    """Does at random what upsets lanes."""

    def __init__(self, receivers: list[Receiver], chance: random.Random) -> None:
        self.kit: GatewayKit
        self._calls: trio.Nursery
        self._receivers = receivers
        self._chance = chance
        self._enabled = dict.fromkeys(LABELS, True)
        self._emitted = 0

    async def run(self) -> None:
        acts = (
            self.emit,
            self.emit,
            self.change,
            self.change,
            self.change,
            self.switch,
            self.turn,
            self.wait,
            self.pause,
            self.cancel,
            self.erase,
        )
        await self.calm()
        async with trio.open_nursery() as self._calls:
            for _ in range(STEPS):
                await self._chance.choice(acts)()
                if self._chance.random() < 0.5:
                    await trio.testing.wait_all_tasks_blocked(0.002)
            # They go away: the work goes on without them.
            self._calls.cancel_scope.cancel()

    async def calm(self) -> None:
        """Enable and resume every registration."""
        for label in LABELS:
            await self._change(label)
            await self.kit.gateway.registrations.resume("shop", label)

    async def emit(self) -> None:
        for _ in range(self._chance.randint(1, 5)):
            self._emitted += 1
            data = {"remoteJid": self._chance.choice(CHATS)}
            await self.kit.emit(KIND, data, event_id=f"e{self._emitted}")

    async def change(self) -> None:
        await self._change(self._chance.choice(LABELS))

    async def _change(self, label: str) -> None:
        self._enabled[label] = True
        ordering, concurrency = self._chance.choice(DIVISIONS)
        await self.kit.register(
            self._chance.choice(self._receivers).url,
            label=label,
            enabled=True,
            headers={"x-label": label, "x-version": str(self._chance.randint(1, 2))},
            ordering=ordering,
            concurrency=concurrency,
        )

    async def switch(self) -> None:
        label = self._chance.choice(LABELS)
        self._enabled[label] = not self._enabled[label]
        registration = self.kit.gateway.registrations.get("shop", label)
        change = RegistrationChange(url=registration.url, enabled=self._enabled[label])
        await self.kit.gateway.registrations.set("shop", label, change)

    async def pause(self) -> None:
        """Pause a registration, or end its pause."""
        registrations, label = self.kit.gateway.registrations, self._chance.choice(LABELS)
        if registrations.get("shop", label).is_paused:
            await registrations.resume("shop", label)
        else:
            with suppress(Conflict):  # it is disabled
                await registrations.pause("shop", label)

    async def cancel(self) -> None:
        asked = DeliverySelection(label=self._chance.choice((None, *LABELS)))
        self._calls.start_soon(self._ask, self.kit.gateway.deliveries.cancel, asked)

    async def erase(self) -> None:
        self._calls.start_soon(self._ask, self.kit.gateway.erasures.erase, self._chance.choice(CHATS))

    async def _ask(self, call: Callable[[str, Any], Awaitable[object]], asked: object) -> None:
        with suppress(Conflict):  # one is under way
            await call("shop", asked)

    async def turn(self) -> None:
        """Change how a receiver answers."""
        status, wait = self._chance.choice((200, 200, 500, 503)), self._chance.choice((0.0, 1.0, 8.0))
        self._chance.choice(self._receivers).default = answer(status, wait=wait)

    async def wait(self) -> None:
        self.kit.clock.jump(self._chance.choice((0.5, 1.0, 3.0)))
        await trio.testing.wait_all_tasks_blocked(0.005)


async def reports(kit: GatewayKit) -> list[DeliveryReport]:
    """All deliveries, in the order of acceptance."""
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance="shop", limit=1000))
    whole = [await kit.gateway.store.find_delivery("shop", one.id) for one in reversed(found.deliveries)]
    return [one for one in whole if one is not None]


def check(reports: list[DeliveryReport], arrived: Counter[str]) -> None:
    """Check the deliveries of one registration.

    Args:
        reports: in the order of acceptance.
        arrived: how often each event arrived for it.
    """
    assert {one.summary.state for one in reports} <= {DeliveryState.DELIVERED, DeliveryState.DEAD}
    for one in reports:
        # A jump of the clock can end an attempt before its request is whole.
        answered = sum(attempt.status is not None for attempt in one.attempts)
        assert answered <= arrived[one.event.id] <= len(one.attempts)
    chats: dict[str, list[DeliveryReport]] = defaultdict(list)
    for one in reports:
        delivered = [attempt for attempt in one.attempts if attempt.outcome is Outcome.DELIVERED]
        assert len(delivered) == (one.summary.state is DeliveryState.DELIVERED)
        if one.summary.state is DeliveryState.DEAD:
            assert re.search("was disabled|^Cancelled by", one.summary.reason or "")
        chats[one.event.data["remoteJid"]].append(one)
    # Whatever the ordering is or was, deliveries of one chat never overtake and are never in flight together.
    for of_chat in chats.values():
        assert_one_at_a_time(attempt for one in of_chat for attempt in one.attempts)
        first = [one.attempts[0].at for one in of_chat if one.attempts]
        assert first == sorted(first)


def assert_one_at_a_time(attempts: Iterable[Attempt]) -> None:
    times = sorted((attempt.at, attempt.at + attempt.duration) for attempt in attempts)
    for (_, end), (begin, _) in pairwise(times):
        assert begin >= end - 0.001, "two attempts at a time"


@pytest.mark.parametrize("seed", SEEDS)
async def test_order_and_one_attempt_at_a_time_however_often_registrations_change(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(steps, "STEP", 1)
    # A jump of the clock within a step is a long step, and nobody moves the clock during the rest after it.
    monkeypatch.setattr(jobs, "MOST_REST", 0.0)
    log = AttemptLog()
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(open_receiver()) for _ in range(3)]
        driver = Driver(receivers, random.Random(seed))
        for life in range(LIVES):
            async with open_kit(tmp_path, settings=SETTINGS, plugins={"log": log}) as driver.kit:
                await driver.run()
                for receiver in receivers:
                    receiver.default = answer()
                if life < LIVES - 1:
                    # No attempt is in flight when the gateway closes: what hangs is over, and attempts that
                    # begin after them take as long as the machine.
                    hookgw_clock.jump(15)
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    await driver.kit.settled()
                    continue
                await driver.calm()
                gateway = driver.kit.gateway
                while await gateway.store.pending_counts() or any(j.is_running for j in gateway.jobs.all()):
                    await driver.wait()
                # A read sees a commit before the task that asked for it hears of it, and counts it.
                await driver.kit.settled()
                assert gateway.backlog.count == 0
                found = await reports(driver.kit)
                registrations = [driver.kit.gateway.registrations.get("shop", label) for label in LABELS]
    for registration in registrations:
        requests = [
            request
            for receiver in receivers
            for request in receiver.requests
            if request.header("x-label") == registration.label
        ]
        mine = [one for one in found if one.summary.registration == registration.id]
        check(mine, Counter(str(request.event_id) for request in requests))
    for attempts in log.lanes.values():
        assert_one_at_a_time(attempts)
    assert len({registration.generation for registration in registrations} | {0}) > 1
