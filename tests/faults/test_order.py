"""The order of deliveries under everything that could upset it, in random rows of what users do.

Environment: ``HOOKGW_ORDER_SEEDS`` (12), ``HOOKGW_ORDER_SEED`` runs that one alone.
"""

import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from trio.testing import MockClock

from hookgw import DeliveryState, Registration
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer, open_kit, open_receiver, reset
from tests.faults.ordermodel import Key, Ledger
from tests.faults.support import KIND
from tests.public.records import DeliverySelection
from tests.public.store import DeliveryQuery, DeliverySummary

SEEDS = (
    [int(os.environ["HOOKGW_ORDER_SEED"])]
    if "HOOKGW_ORDER_SEED" in os.environ
    else range(int(os.environ.get("HOOKGW_ORDER_SEEDS", "12")))
)
LIVES, STEPS = 4, 14
OK = answer()
FAULTS = (answer(500), answer(404), answer(503), answer(422), reset(), answer().cut(10))
SETTINGS = {
    "delivery": {
        "schedule": ["5s", "5s"],
        "unreachable_max_wait": "4s",
        "max_age": "60s",
        "disable_after": "9d",
        "lane_buffer": 3,
    }
}
REGISTRATIONS = {
    "shop-a": ("shop", 0),
    "shop-mover": ("shop", 1),
    "shop-switch": ("shop", 2),
    "bar-a": ("bar", 0),
    "bar-switch": ("bar", 2),
}
"""Label: instance and which of the URLs; two instances share each of the URLs 0 and 2."""
MOVER, SWITCHES = "shop-mover", ("shop-switch", "bar-switch")


class World:
    """A gateway and receivers that somebody plays with, and the account of it."""

    def __init__(self, chance: random.Random, receivers: list[Receiver]) -> None:
        self.chance = chance
        self.ledger = Ledger()
        self.kit: GatewayKit
        self.healthy = False
        self.urls = [receiver.url for receiver in receivers]
        self.url_of = {label: self.urls[number] for label, (_, number) in REGISTRATIONS.items()}
        self.off: set[str] = set()
        self.events = 0
        for receiver in receivers:
            receiver.default = self._answer_at(receiver.url)

    def _answer_at(self, url: str) -> Callable[[Received], Answer]:
        def choose(request: Received) -> Answer:
            good = self.healthy or self.chance.random() < 0.6
            label = request.header("x-label") or ""
            self.ledger.arrived(url, Key(request.event_id or "", label), good)
            return OK if good else self.chance.choice(FAULTS)

        return choose

    async def set(self, label: str) -> None:
        instance, _ = REGISTRATIONS[label]
        await self.kit.register(
            self.url_of[label],
            instance=instance,
            label=label,
            enabled=label not in self.off,
            headers={"x-label": label},
        )

    async def emit(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            instance = self.chance.choice(["shop", "bar"])
            self.events += 1
            event_id = f"e{self.events}"
            listening = [
                registration.label
                for registration in self.kit.gateway.registrations.of_instance(instance)
                if registration.enabled
            ]
            self.ledger.queue([Key(event_id, label) for label in listening])
            await self.kit.emit(KIND, {"n": self.events}, instance=instance, event_id=event_id)

    async def pass_time(self) -> None:
        await self.kit.advance(self.chance.choice([0.5, 2.0, 6.0, 20.0]))

    async def move(self) -> None:
        self.url_of[MOVER] = self.chance.choice(self.urls)
        await self.set(MOVER)

    async def switch(self) -> None:
        label = self.chance.choice(SWITCHES)
        self.off ^= {label}
        await self.set(label)

    async def resend(self) -> None:
        instance = self.chance.choice(["shop", "bar"])
        finished = await self._finished(instance)
        if finished:
            chosen = self.chance.choice(finished)
            registration = self._enabled(instance)[chosen.registration]
            self.ledger.queue([Key(chosen.event_id, registration.label)])
            await self.kit.gateway.deliveries.resend(instance, chosen.id)

    async def replay(self) -> None:
        instance = self.chance.choice(["shop", "bar"])
        replay = DeliverySelection(since=0.0, state=self.chance.choice(["dead", "dead", "all"]))
        chosen = await self._finished(instance, dead_only=replay.state == "dead")
        labels = {id_: registration.label for id_, registration in self._enabled(instance).items()}
        self.ledger.queue([Key(one.event_id, labels[one.registration]) for one in chosen])
        assert (await self.kit.gateway.deliveries.replay(instance, replay)).done == len(chosen)

    def _enabled(self, instance: str) -> dict[str, Registration]:
        return {one.id: one for one in self.kit.gateway.registrations.of_instance(instance) if one.enabled}

    async def deliveries(self, instance: str) -> list[DeliverySummary]:
        """All of an instance, in the order of acceptance."""
        await self.kit.settled()
        found = await self.kit.gateway.store.list_deliveries(DeliveryQuery(instance=instance, limit=10_000))
        return found.deliveries[::-1]

    async def _finished(self, instance: str, *, dead_only: bool = False) -> list[DeliverySummary]:
        """Those that can be sent again, in the order of acceptance."""
        enabled = self._enabled(instance)
        return [
            one
            for one in await self.deliveries(instance)
            if one.registration in enabled
            and one.state is not DeliveryState.PENDING
            and (one.state is DeliveryState.DEAD or not dead_only)
        ]

    async def live(self) -> None:
        """Do some of all that can be done."""
        steps: list[Callable[[], Awaitable[None]]] = [
            *[self.emit] * 5,
            *[self.pass_time] * 3,
            self.move,
            self.switch,
            self.resend,
            self.replay,
        ]
        for _ in range(STEPS):
            await self.chance.choice(steps)()

    async def recover(self) -> None:
        """Make everything good, and wait until nothing is pending."""
        self.healthy = True
        for label in self.off.copy():
            self.off.remove(label)
            await self.set(label)
        for _ in range(4):
            await self.kit.advance(6)

    async def account(self) -> None:
        """Every delivery that was promised is there, and its state is what the receivers saw."""
        delivered = {(one.key, one.ticket) for one in self.ledger.arrivals if one.delivered}
        found: dict[Key, DeliveryState] = {}
        for instance in ("shop", "bar"):
            labels = {one.id: one.label for one in self.kit.gateway.registrations.of_instance(instance)}
            for one in await self.deliveries(instance):
                found[Key(one.event_id, labels[one.registration])] = one.state
        assert found.keys() == self.ledger.tickets.keys()
        for key, ticket in self.ledger.tickets.items():
            was_delivered = (key, ticket) in delivered
            assert found[key] is (DeliveryState.DELIVERED if was_delivered else DeliveryState.DEAD), key


@pytest.mark.parametrize("seed", SEEDS)
async def test_order_holds_whatever_happens(seed: int, tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_receiver() as one, open_receiver() as two, open_receiver() as three:
        world = World(random.Random(seed), [one, two, three])
        for life in range(LIVES):
            async with open_kit(tmp_path, settings=SETTINGS) as world.kit:
                if life == 0:
                    for label in REGISTRATIONS:
                        await world.set(label)
                await world.live()
                if life == LIVES - 1:
                    await world.recover()
                    await world.account()
        world.ledger.judge()
        assert len(world.ledger.arrivals) > 50
