"""People who run the gateway: they delete instances, erase persons and make backups."""

from __future__ import annotations

import random
import sqlite3
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from hookgw import HookgwError
from tests.public.records import JobState
from tests.public.sqlite import check_file
from tests.public.store import DeliveryQuery, EventQuery
from tests.simulation.connector import INSTANCE
from tests.simulation.history import BackedUp, Changed, Erased, Listed, Removed
from tests.simulation.scenario import PULLED

if TYPE_CHECKING:
    from tests.simulation.clients import Clients
    from tests.simulation.world import World

PERSONS = tuple(f"551190000000{number}@s.whatsapp.net" for number in range(3))


class Operators:
    """Makes the calls that most gateways see now and then only.

    Args:
        world: what they live in.
        clients: change registrations at the same time.
        chance: the seed's.
    """

    def __init__(self, world: World, clients: Clients, chance: random.Random) -> None:
        self._world = world
        self._clients = clients
        self._chance = chance
        self._backups = 0

    async def delete_instance(self) -> None:
        """Delete an instance with its registrations, and mostly create it again under the same name."""
        world, chance = self._world, self._chance
        instance = chance.choice(
            [name for name in world.scenario.instances if name not in (INSTANCE, PULLED)]
        )
        async with AsyncExitStack() as locks:
            for lock in self._clients.locks_of(instance):
                await locks.enter_async_context(lock)
            if world.gateway.instances.find(instance) is None:
                return
            names = [world.name_of(one) for one in world.registrations_of(instance)]
            began, life, is_answered = world.now, world.life, False
            try:
                is_answered = await self._clients.attempt(
                    "delete_instance", partial(world.gateway.instances.delete, instance)
                )
            finally:
                self._clients.forget(instance)
                world.note(Removed(at=world.now, life=life, began=began, instance=instance))
                for name in names:
                    world.note(
                        Changed(
                            at=world.now,
                            life=life,
                            began=began,
                            registration=name,
                            call="delete" if is_answered else "maybe",
                            enabled=False,
                        )
                    )
        for _ in range(chance.choice((0, 1, 3))):
            if world.is_over or world.gateway.instances.find(instance) is not None:
                return
            await self._clients.create(instance)
            await trio.sleep(chance.choice((0.0, 1.0)))

    async def erase(self) -> None:
        """Erase what concerns a person, and look at the list of deliveries after it."""
        world = self._world
        instance, person = self._chance.choice(world.scenario.instances), self._chance.choice(PERSONS)
        states: list[JobState] = []

        async def call() -> None:
            states.append((await world.gateway.erasures.erase(instance, person)).state)

        began, life, is_answered = world.now, world.life, False
        try:
            is_answered = await self._clients.attempt("erase", call)
        finally:
            world.note(
                Erased(
                    at=world.now,
                    life=life,
                    began=began,
                    instance=instance,
                    person=person,
                    answered=is_answered,
                    done=is_answered and states == [JobState.DONE],
                )
            )
        if is_answered:
            await self._list(instance)

    async def _list(self, instance: str) -> None:
        world, began = self._world, self._world.now
        found: list[str] = []

        async def call() -> None:
            page = await world.gateway.history.list(DeliveryQuery(instance=instance, limit=100))
            found.extend(world.alias(one.event_id) for one in page.deliveries)
            logged = await world.gateway.history.list_events(EventQuery(instance=instance, limit=100))
            found.extend(world.alias(one.event.id) for one in logged.events)

        if await self._clients.attempt("list", call):
            world.note(
                Listed(at=world.now, life=world.life, began=began, instance=instance, events=tuple(found))
            )

    async def back_up(self) -> None:
        """Make a backup, and look at it."""
        world = self._world
        self._backups += 1
        name = f"b{self._backups}.db"
        states: list[JobState] = []

        async def call() -> None:
            states.append((await world.gateway.backups.create(name)).job.state)

        began = world.now
        if await self._clients.attempt("backup", call) and states == [JobState.DONE]:
            self.look_at(Path(world.gateway.settings.storage.backup_folder or "", name), began)

    def look_at(self, backup: Path, began: float | None = None) -> None:
        """Note what is in a backup. Without a time, it is one of a process that was killed."""
        world = self._world
        events: list[str] = []
        try:
            troubles = check_file(backup).problems
            with closing(sqlite3.connect(f"{backup.as_uri()}?immutable=1", uri=True)) as connection:
                found = connection.execute("SELECT id FROM events WHERE heard >= 0 ORDER BY seq").fetchall()
            events = [world.alias(event) for (event,) in found]
        except (HookgwError, sqlite3.Error) as error:
            troubles = [world.without_paths(str(error))]
        world.note(
            BackedUp(
                at=world.now,
                life=world.life,
                name=backup.name,
                began=began,
                events=tuple(events),
                troubles=tuple(troubles),
            )
        )
