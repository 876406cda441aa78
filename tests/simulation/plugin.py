"""The plugin of a run: it observes, and if the seed says so, it misbehaves in every hook."""

import random
from collections.abc import Callable

import trio

import hookgw
from hookgw import Delivery, Event, Outgoing, Registration


class SimulatedPlugin:
    """Fails in a part of its calls, and makes bodies that differ with each call.

    Args:
        chance: the seed's.
        failing: how many of the calls fail, from 0 to 1.
        on_dead: called with the event, the registration's id and the reason of each dead letter.
        on_raised: called with each operational event.

    Attributes:
        drops: whether it filters out events.
    """

    def __init__(
        self,
        chance: random.Random,
        failing: float,
        on_dead: Callable[[str, str, str], None],
        on_raised: Callable[[Event], None],
    ) -> None:
        self._chance = chance
        self._on_dead = on_dead
        self._on_raised = on_raised
        self._calls = 0
        self.failing = failing
        self.drops = failing > 0

    async def _misbehave(self) -> None:
        draw = self._chance.random()
        if draw >= self.failing:
            return
        kind = self._chance.choice(("raise", "raise", "hang", "slow", "cancel"))
        if kind == "raise":
            raise RuntimeError("the plugin's own fault")
        if kind == "cancel":
            raise await _stray_cancellation()
        await trio.sleep(100 if kind == "hang" else self._chance.random() * 3)

    @hookgw.hookimpl
    async def hookgw_filter(self, event: Event) -> bool | None:
        await self._misbehave()
        return not (self.drops and self._chance.random() < self.failing / 4)

    @hookgw.hookimpl
    async def hookgw_transform(self, event: Event) -> Event | None:
        await self._misbehave()
        if not self.failing:
            return None
        # Another body each time: a retry that is rendered again differs.
        self._calls += 1
        return event.replace(data={**event.data, "call": self._calls})

    @hookgw.hookimpl
    async def hookgw_prepare(self, request: Outgoing) -> None:
        await self._misbehave()
        if self.failing:
            request.headers["x-plugin"] = "1"

    @hookgw.hookimpl
    async def hookgw_event_accepted(self, event: Event) -> None:
        await self._misbehave()

    @hookgw.hookimpl
    async def hookgw_attempt(self, delivery: Delivery) -> None:
        await self._misbehave()

    @hookgw.hookimpl
    def hookgw_dead_letter(self, delivery: Delivery, registration: Registration | None, reason: str) -> None:
        self._on_dead(delivery.event.id, delivery.registration, reason)

    @hookgw.hookimpl
    async def hookgw_operational_event(self, event: Event) -> None:
        self._on_raised(event)
        await self._misbehave()


async def _stray_cancellation() -> trio.Cancelled:
    """Return the exception of a scope that has ended: a plugin that keeps it may raise it anywhere."""
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept.append(cancelled)
            raise
    return kept[0]


class QuietPlugin:
    """Observes only: most runs have no other plugin, and no delivery needs one.

    Args:
        on_dead, on_raised: as of :class:`SimulatedPlugin`.
    """

    def __init__(self, on_dead: Callable[[str, str, str], None], on_raised: Callable[[Event], None]) -> None:
        self._on_dead = on_dead
        self._on_raised = on_raised

    @hookgw.hookimpl
    def hookgw_dead_letter(self, delivery: Delivery, registration: Registration | None, reason: str) -> None:
        self._on_dead(delivery.event.id, delivery.registration, reason)

    @hookgw.hookimpl
    def hookgw_operational_event(self, event: Event) -> None:
        self._on_raised(event)
