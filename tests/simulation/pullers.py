"""Two consumers of a receiver that fetches: they acknowledge, fail, forget, and are killed in between."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import trio

from hookgw import HookgwError
from tests.public.deliveries import Acknowledgement, Failure, Pull, Pulled
from tests.simulation.history import Answered, Fetched, LeaseLeft
from tests.simulation.network import Request
from tests.simulation.scenario import PULLED
from tests.support.room import Room

if TYPE_CHECKING:
    from tests.simulation.world import World

LABEL = "pull"
NAME = f"{PULLED}-pull-1"


class Pullers:
    """Fetches in each life of the gateway, and notes what it gets.

    Args:
        world: what they live in.
        chance: the seed's.
    """

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._ends: dict[tuple[int, int], float] = {}

    async def run(self, *, is_calm: bool = False) -> None:
        """Fetch until cancelled; if everything is calm, acknowledge all of it in the end."""
        async with trio.open_nursery() as nursery:
            for consumer in ("p1", "p2"):
                nursery.start_soon(self._consume, consumer, is_calm)

    async def _consume(self, consumer: str, is_calm: bool) -> None:
        world, chance = self._world, self._chance
        # By lease and delivery: of one that is had again, the attempt goes on.
        known: dict[tuple[int, str], int] = {}
        while not world.is_over:
            asked = Pull(
                most=chance.choice((1, 1, 3)),
                wait=chance.choice((0.0, 5.0, 30.0)),
                consumer=consumer,
                lease=chance.choice((10.0, 60.0)),
            )
            found: list[Pulled] = []
            try:
                found = await world.gateway.pulls.pull(PULLED, LABEL, asked, Room())
            except HookgwError:
                await trio.sleep(chance.choice((1.0, 10.0)))
            if world.is_over:
                return
            if found:
                self._note_lease(consumer, found[0].lease, asked.lease)
            for one in found:
                key = one.lease, one.id
                if key not in known:
                    known[key] = self._arrived(one, asked.lease)
            for one in found:
                number = known[one.lease, one.id]
                if not await self._work(consumer, one, number, asked.lease, is_calm=is_calm):
                    break
            await trio.sleep(chance.choice((0.0, 0.01, 1.0, 20.0)))

    def _note_lease(self, consumer: str, lease: int, length: float) -> None:
        world = self._world
        # Whoever asks again gets the same lease, and its end stays.
        until = self._ends.setdefault((world.life, lease), world.now + length)
        world.note(
            Fetched(
                at=world.now, life=world.life, registration=NAME, consumer=consumer, lease=lease, until=until
            )
        )

    def _arrived(self, one: Pulled, length: float) -> int:
        request = Request(path=f"/{NAME}/1", headers=one.headers, body=one.body, dialled=None)
        # An acknowledgement gives the rest of a lease its time again.
        return self._world.arrived(request, 10 * length)

    async def _work(  # noqa: C901 -- one step a time
        self, consumer: str, one: Pulled, number: int, length: float, *, is_calm: bool
    ) -> bool:
        """Work on one delivery, and return whether the next one of the lease follows."""
        world, chance = self._world, self._chance
        manner = "acknowledge"
        if not is_calm:
            manners = ("acknowledge", "fail", "release", "forget", "late")
            [manner] = chance.choices(manners, (6, 1, 0.5, 1, 0.5))
        elif one.headers["x-attempt"] == "1" and chance.random() < 0.2:
            manner = "fail"  # no later start makes up for what its lane forgets
        if manner == "forget":
            return False
        await trio.sleep(chance.choice((0.0, 0.0, 0.5, 3.0)) if manner != "late" else length)
        if world.is_over:
            return False
        done: dict[str, Any] = {"ids": (one.id,)}
        if manner == "fail":
            done = {"failed": (Failure(one.id, "no"),)}
        elif manner == "release":
            done = {"release": True}
        elif chance.random() < 0.3:
            done = {"cursor": one.cursor}
        began, life, outcome = world.now, world.life, "unknown"
        world.note(LeaseLeft(at=began, life=life, registration=NAME, lease=one.lease))
        try:
            asked = Acknowledgement(consumer=consumer, **done)
            answer = await world.gateway.pulls.acknowledge(PULLED, LABEL, asked)
            if answer.acknowledged and not world.is_over:
                outcome = "delivered"
            elif answer.failed and not world.is_over:
                outcome = "failed"
        except HookgwError:
            return False
        finally:
            # Of a failure, the wait begins when hookgw heard of it; an acknowledgement is on disk when it is
            # answered.
            world.note(
                Answered(
                    at=began if outcome == "failed" else world.now,
                    life=life,
                    number=number,
                    registration=NAME,
                    event=world.alias(one.headers["webhook-id"]),
                    outcome=outcome,
                )
            )
        return outcome == "delivered"
