"""Those who call the gateway: producers of events, and people who change registrations."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import UNSET

from hookgw import Event, HookgwError, Registration
from tests.public.kernel import Rate
from tests.public.records import DeliverySelection, JobKind, Ordering, RetryOptions
from tests.public.webhooks import BackfillRequest, RegistrationChange, body_of
from tests.simulation.api import Api
from tests.simulation.connector import INSTANCE, SimulatedConnector
from tests.simulation.history import (
    Accepted,
    Backfilled,
    Backfilling,
    Cancelled,
    Changed,
    Known,
    Record,
    Refused,
    Requeued,
    Skipped,
)
from tests.simulation.operators import PERSONS, Operators
from tests.simulation.scenario import GLOBAL_KEY, KINDS, PULLED

if TYPE_CHECKING:
    from tests.simulation.world import World

LABELS = ("default", "crm")
ROUTES: dict[str, tuple[str, str, object]] = {
    "delete": ("DELETE", "delete", None),
    "pause": ("POST", "pause", None),
    "resume": ("POST", "resume", None),
    "rotate": ("POST", "rotateSecret", {"grace": "1d"}),
}
TARGET = ("url", "by_events", "headers", "secrets", "timeout")


class Clients:
    """Calls the gateway in each of its lives, and notes what it answers.

    Args:
        world: what they live in.
        chance: the seed's.
    """

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._events = 0
        self._emitted: list[tuple[str, str]] = []
        # The instance and the kind of each event that was answered with 202.
        self._stored: dict[str, tuple[str, str]] = {}
        self._backfills = 0
        self._versions = 0
        self._creations = 0
        self._calls_left = 0
        self._timeouts: dict[str, float] = {}
        self._locks: dict[str, trio.Lock] = {}
        self._keys: dict[str, str] = {}
        # What is requeued at the moment: the events of resends, the instances of replays and backfills.
        self._requeuing = Counter[str]()
        self._under_way: set[str] = set()
        self._operators = Operators(world, self, chance)
        self._is_configuration_known = False

    def shortest_timeout(self, name: str) -> float:
        """Return the shortest timeout that a registration has had."""
        return min(self._timeouts.get(name, 1e9), self._world.scenario.settings.delivery.timeout)

    def learn(self) -> None:
        """Look at the registrations after a start: an unanswered change may have been stored."""
        world = self._world
        configured = world.configured()
        stored = [one for name in world.scenario.instances for one in world.registrations_of(name)]
        known = [(world.name_of(one), version_of(one)) for one in [*configured, *stored]]
        ordered = tuple((world.name_of(one), one.ordering.value) for one in stored)
        self._note(Known, registrations=tuple(known), orderings=ordered)
        if not self._is_configuration_known:
            self._is_configuration_known = True
            schedule = tuple(map(float, world.scenario.settings.delivery.schedule))
            blocks = world.scenario.settings.global_webhooks
            # As documented, not as the gateway has it.
            orderings = {block["label"]: block.get("ordering", "instance") for block in blocks}
            for one in configured:
                self._note(
                    Changed,
                    began=world.now,
                    registration=world.name_of(one),
                    call="set",
                    version=1,
                    ordering=orderings.get(one.label, "url"),
                    schedule=schedule,
                    host=one.url.split("/")[2],
                )
        folder = Path(world.gateway.settings.storage.backup_folder or "")
        for backup in sorted(folder.glob("*.db")):
            self._operators.look_at(backup)

    async def run(self) -> None:
        """Make the calls of one life."""
        self._calls_left = self._world.scenario.calls
        if self._world.scenario.connector:
            await self._connect()
        for instance in self._world.scenario.instances:
            if self._world.gateway.instances.find(instance) is None:
                await self.create(instance)
        await self.set_pulled()
        if not any(map(self._world.registrations_of, self._world.scenario.instances)):
            for _ in range(self._chance.choice((1, 2, 3))):
                await self._set()
        async with trio.open_nursery() as nursery:
            for _ in range(self._world.scenario.clients):
                nursery.start_soon(self._client)
        if self._world.api is not None and self._chance.random() < 0.3:
            await self._world.api.linger()
        if not self._world.scenario.connector:
            await self._world.rest()
        nights = self._world.scenario.nights
        if nights and self._chance.random() < 0.5:
            seconds = nights * 3600 * self._chance.random()
            with self._world.night(seconds, stride=max(60.0, seconds / 40)):
                await trio.sleep_until(self._world.clock.until)

    async def create(self, instance: str) -> None:

        async def call() -> None:
            created = await self._world.gateway.instances.create(instance)
            self._world.secrets[created.key] = f"the key of {instance}"
            self._keys[instance] = created.key

        await self.attempt("create", call)

    async def _connect(self) -> None:
        """Create the connector's instance and connect it; later starts connect it again."""
        instances = self._world.gateway.instances
        if instances.find(INSTANCE) is None:
            create = partial(instances.create, INSTANCE, integration=SimulatedConnector.name)
            await self.attempt("create", create)
        if instances.find(INSTANCE) is not None:
            await self.attempt("connect", partial(instances.connect, INSTANCE))

    async def _client(self) -> None:
        chance = self._chance
        calls: dict[Callable[[], Awaitable[None]], float] = {
            self._emit: 10,
            self._set: 2,
            self._delete: 0.3,
            self._pause: 0.5,
            self._resume: 0.7,
            self._resend: 0.6,
            self._replay: 0.3,
            self._cancel: 0.3,
            self._skip: 1.5,
            self._rotate: 0.2,
            self._backfill: self._world.scenario.backfills,
            self._look: 1 if self._world.api is not None else 0,
            self._produce: 4 if self._world.api is not None else 0,
            self._operators.delete_instance: self._world.scenario.deletions,
            self._operators.erase: self._world.scenario.erasures,
            self._operators.back_up: self._world.scenario.backups,
        }
        while self._calls_left > 0:
            self._calls_left -= 1
            await chance.choices(list(calls), list(calls.values()))[0]()
            if chance.random() < 0.3:
                self._world.measure()
            await trio.sleep(chance.choice((0, 0, 0.003, 0.05, 1, 20, 200)))

    async def resume_all(self) -> None:
        """End every pause."""
        for instance in self._world.scenario.instances:
            for registration in self._world.registrations_of(instance):
                if registration.is_paused:
                    await self._resume(registration)

    async def call_at_the_end(self) -> None:
        """Emit and send again while everything works: no later start makes up for a lost wake-up."""
        for call in (self._emit, self._resend, self._resend, self._replay, self._emit):
            await call()
            await trio.sleep(self._chance.choice((0.0, 1.0)))

    async def attempt(self, what: str, call: Callable[[], Awaitable[object]], registration: str = "") -> bool:
        """Make a call, and return whether it was answered. A refusal is noted; any other error is a bug."""
        try:
            await call()
        except HookgwError as error:
            if not self._world.is_over:
                self._note(
                    Refused,
                    what=what,
                    why=self._world.without_paths(f"{type(error).__name__}: {error}")[:120],
                    registration=registration,
                )
            return False
        return not self._world.is_over

    def _note(self, kind: type[Record], **fields: object) -> None:
        self._world.note(kind(at=self._world.now, life=self._world.life, **fields))

    async def _produce(self) -> None:
        """Emit as producers do: event by event, with one key, for one instance."""
        instance = self._chance.choice(self._world.scenario.instances)
        key = self._key_of(instance)
        for _ in range(self._chance.choice((3, 6, 12))):
            await self._emit(instance, producer=key)
            await trio.sleep(self._chance.choice((0, 0, 0, 0.003, 1)))

    async def _emit(self, instance: str | None = None, producer: str | None = None) -> None:
        """Emit events, or one as a producer with this key does."""
        chance, world = self._chance, self._world
        if instance is None:
            instance = chance.choice(world.scenario.instances)
            if world.scenario.pull and chance.random() < 0.6:
                instance = PULLED
        count = chance.choice((1, 1, 1, 1, 2, 5, 15)) if producer is None else 1
        answered = [one for one in self._emitted if one[0] not in self._under_way]
        is_repeated = producer is None and bool(answered) and chance.random() < 0.08
        if is_repeated:
            repeated, instance = chance.choice(answered)
            ids = [repeated]
        else:
            ids = [f"e{self._events + number}" for number in range(1, count + 1)]
            self._events += count
        kind = chance.choice(KINDS)
        chats = [chance.choice((*PERSONS, *PERSONS, *PERSONS, " ".join(PERSONS[:2]))) for _ in ids]
        events = [
            Event(
                id=event,
                kind=kind,
                instance=instance,
                data_json=_payload(event, chat, chance.choice((1, 900))),
                time=world.clock.wall(),
            )
            for event, chat in zip(ids, chats, strict=True)
        ]
        began, before = world.now, self.wanting(instance, kind)
        stored: list[bool] = []
        is_in_order = True

        async def call() -> None:
            receipt = await world.gateway.events.accept(events, single=len(events) == 1)
            stored.extend(receipt.fresh)

        # An event that is refused, or not answered, may be stored: its id is not used for another one.
        self._emitted += [(event, instance) for event in ids]
        if (api := self._choose_api() if producer is None else world.api) is not None:
            key = self._key_of(instance) if producer is None else producer
            self._under_way.update(ids)
            try:
                stored, refusals, is_in_order = await api.emit(
                    instance, events, key=key, is_repeated=is_repeated
                )
            finally:
                self._under_way.difference_update(ids)
            if world.is_over:
                return
            for refusal in refusals:
                self._note(Refused, what="emit", why=world.without_paths(refusal)[:120])
        elif not await self.attempt("emit", call):
            return
        new = [number for number, is_new in enumerate(stored) if is_new]
        self._stored |= {ids[number]: (instance, kind) for number in new}
        wanted = self.wanted_since(before, instance, kind)
        calls = [new] if is_in_order else [[number] for number in new]
        for numbers in filter(None, calls):
            self._note(
                Accepted,
                began=began,
                events=tuple(ids[number] for number in numbers),
                instance=instance,
                chats=tuple(chats[number] for number in numbers),
                **wanted,
            )

    def _choose_api(self) -> Api | None:
        """Return the HTTP API, for most calls of lives that have it."""
        api = self._world.api
        return api if api is not None and self._chance.random() < 0.8 else None

    def _key_of(self, instance: str) -> str:
        key = self._keys.get(instance)
        return key if key is not None and self._chance.random() < 0.5 else GLOBAL_KEY

    def wanted_since(self, before: dict[str, object], instance: str, kind: str) -> dict[str, tuple[str, ...]]:
        """Return ``wanted`` and ``maybe`` of :class:`Accepted`, for :meth:`wanting` before the call."""
        after = self.wanting(instance, kind)
        same = {key for key, found in before.items() if after.get(key) == found}
        maybe = (before.keys() | after.keys()) - same
        return {"wanted": tuple(sorted(same)), "maybe": tuple(sorted(maybe))}

    def wanting(self, instance: str, kind: str) -> dict[str, object]:
        """Return the registrations that an event goes to now, and what changes with each change of them."""
        if self._world.gateway.instances.find(instance) is None:
            return {}
        return {
            self._world.name_of(one): (one.updated_at, one.enabled)
            for one in self._world.gateway.registry.wanting(instance, kind)
        }

    def forget(self, instance: str) -> None:
        """Forget the events of an instance that was deleted: they are unknown to the next one of its name."""
        self._emitted = [one for one in self._emitted if one[1] != instance]
        self._stored = {event: one for event, one in self._stored.items() if one[0] != instance}
        self._keys.pop(instance, None)

    def locks_of(self, instance: str) -> list[trio.Lock]:
        """Return what keeps others from changing the registrations of an instance."""
        return [self._locks.setdefault(f"{instance}-{label}", trio.Lock()) for label in LABELS]

    @asynccontextmanager
    async def _changing(self, instance: str, label: str) -> AsyncIterator[None]:
        """Change one label at a time: of two changes at once, nobody could say which counts."""
        lock = self._locks.setdefault(f"{instance}-{label}", trio.Lock())
        async with lock:
            yield

    def _choose(self) -> Registration | None:
        every = [one for name in self._world.scenario.instances for one in self._world.registrations_of(name)]
        return self._chance.choice(every) if every else None

    async def _set(self) -> None:
        """Store a registration, new or changed."""
        chance, world = self._chance, self._world
        instance, label = chance.choice(world.scenario.instances), chance.choice(LABELS)
        async with self._changing(instance, label):
            await self._set_label(instance, label)

    async def _set_label(self, instance: str, label: str) -> None:
        chance, world = self._chance, self._world
        if world.gateway.instances.find(instance) is None:
            return
        old = world.gateway.registrations.find(instance, label)
        if old is None:
            self._creations += 1
            name = f"{instance}-{label}-{self._creations}"
        else:
            name = world.name_of(old)
        if old is None or chance.random() < 0.5:
            self._versions += 1
            url = f"http://{chance.choice(world.scenario.hosts)}/{name}/{self._versions}"
        else:
            url = old.url
        given: dict[str, Any] = {}
        if old is None or chance.random() < 0.4:
            given["ordering"] = chance.choice((*Ordering, Ordering.URL, Ordering.URL))
            given["concurrency"] = chance.choice((1, 2, 4))
        if chance.random() < 0.2:
            given["rate"] = chance.choice((Rate(2, "s"), Rate(100, "m"), None))
        if chance.random() < 0.2:
            given["retry"] = RetryOptions(schedule=chance.choice(((), (3.0,), (1.0, 20.0))))
        if chance.random() < 0.2:
            given["timeout"] = chance.choice((7.0, 20.0, None))
        if chance.random() < 0.3:
            token = f"token-{self._versions}-of-{name}-kept-secret"
            world.secrets[token] = f"a header of {name}"
            given["headers"] = {"authorization": f"Bearer {token}"}
        enabled = old is None or chance.random() < 0.85
        kinds = () if chance.random() < 0.7 else tuple(chance.sample(KINDS, 2))
        change = RegistrationChange(url=url, enabled=enabled, events=kinds, **given)
        self._timeouts[name] = min(self.shortest_timeout(name), given.get("timeout") or 1e9)
        make: Callable[[], Awaitable[object]]
        if (api := self._choose_api()) is None:
            make = partial(world.gateway.registrations.set, instance, label, change, create=True)
        else:
            body, key = body_of(change), self._key_of(instance)
            make = partial(api.change, "POST", f"/webhook/set/{instance}/{label}", body, key=key)
        await self._change("set", name, make)

    async def set_pulled(self) -> None:
        """Store the registration whose receiver fetches, if it is not there, or was disabled."""
        world, instance, label = self._world, PULLED, "pull"
        if not world.scenario.pull:
            return
        async with self._changing(instance, label):
            found = world.gateway.registrations.find(instance, label)
            if found is not None and found.enabled:
                return
            schedule = self._chance.choice(((5.0,), (1.0, 20.0), (30.0, 5.0, 60.0)))
            change = RegistrationChange(
                url="pull:", enabled=True, events=(), retry=RetryOptions(schedule=schedule)
            )
            make = partial(world.gateway.registrations.set, instance, label, change)
            await self._change("set", f"{PULLED}-pull-1", make)

    async def _change(self, call: str, name: str, make: Callable[[], Awaitable[object]]) -> None:
        """Change a registration, and note how it is then; if the call fails, that it may have changed."""
        world, began = self._world, self._world.now
        life, is_answered = world.life, False
        try:
            is_answered = await self.attempt(call, make, name)
        finally:
            instance, label, _ = name.split("-")
            found = None
            with suppress(HookgwError):
                found = world.gateway.registrations.find(instance, label)
            if found is not None and world.name_of(found) != name:
                found = None
            fields: dict[str, Any] = {}
            if found is not None:
                settings = world.scenario.settings.delivery
                schedule = settings.schedule if found.retry.schedule is None else found.retry.schedule
                fields = {
                    "version": version_of(found),
                    "ordering": found.ordering.value,
                    "enabled": found.enabled,
                    "schedule": tuple(map(float, schedule)),
                    "paused": found.is_paused,
                }
            else:
                fields = {"enabled": False}
            world.note(
                Changed(
                    at=world.now,
                    life=life,
                    began=began,
                    registration=name,
                    call=call if is_answered else "maybe",
                    **fields,
                )
            )

    async def _delete(self) -> None:
        found = self._choose()
        if found is None or not found.is_pulled:  # a later one would have the same name
            await self._change_one("delete", found)

    async def _pause(self) -> None:
        await self._change_one("pause", self._choose())

    async def _resume(self, found: Registration | None = None) -> None:
        await self._change_one("resume", found or self._choose())

    async def _backfill(self) -> None:
        """Let a registration have what it has missed, while events come in."""
        chance, world = self._chance, self._world
        instance, label = chance.choice(world.scenario.instances), chance.choice(LABELS)
        async with self._changing(instance, label):
            found = world.gateway.registrations.find(instance, label)
            if found is not None and chance.random() < 0.5:
                # A new one has missed everything.
                delete = partial(world.gateway.registrations.delete, instance, label)
                await self._change("delete", world.name_of(found), delete)
            if world.gateway.registrations.find(instance, label) is None:
                await self._set_label(instance, label)
            found = world.gateway.registrations.find(instance, label)
            if found is None or world.is_over:
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask_for_backfill, found)
                for _ in range(chance.choice((0, 1, 2, 3))):
                    await trio.sleep(chance.choice((0, 0, 0.003, 0.02)))
                    await self._emit(instance)

    async def _ask_for_backfill(self, found: Registration) -> None:
        world, instance, label = self._world, found.instance, found.label
        name = world.name_of(found)
        self._backfills += 1
        call = {"number": self._backfills, "began": world.now, "registration": name}
        self._note(Backfilling, **call)
        owed: tuple[str, ...] = ()
        is_answered = False
        if found.enabled:
            dead = self._chance.random() < 0.15
            kinds = found.events
            owed = tuple(
                event
                for event, (of, kind) in self._stored.items()
                if of == instance and (not kinds or kind in kinds)
            )
            asked = BackfillRequest(since=0.0, dead=dead)
            make = partial(world.gateway.backfills.backfill, instance, label, asked)
            with self._requeuing_of("backfill", instance) if dead else nullcontext():
                is_answered = await self.attempt("backfill", make, name)
        else:

            async def enable() -> None:
                nonlocal is_answered
                change = RegistrationChange(is_set=False, url=UNSET, events=UNSET, enabled=True)
                await world.gateway.registrations.update(instance, label, change, backfill=True)
                is_answered = True

            await self._change("set", name, enable)
        if is_answered and not world.is_over:
            self._note(Backfilled, events=owed, **call)

    async def _rotate(self) -> None:
        await self._change_one("rotate", self._choose())

    async def _change_one(self, call: str, found: Registration | None) -> None:
        if found is None:
            return
        async with self._changing(found.instance, found.label):
            # It may have been deleted while this waited for another change.
            found = self._world.gateway.registrations.find(found.instance, found.label)
            if found is None:
                return
            registrations = self._world.gateway.registrations
            calls: dict[str, Callable[[str, str], Awaitable[object]]] = {
                "delete": registrations.delete,
                "pause": registrations.pause,
                "resume": registrations.resume,
                "rotate": partial(registrations.rotate_secret, grace=86_400.0),
            }
            make: Callable[[], Awaitable[object]] = partial(calls[call], found.instance, found.label)
            if (api := self._choose_api()) is not None:
                method, route, body = ROUTES[call]
                path = f"/webhook/{route}/{found.instance}/{found.label}"
                make = partial(api.change, method, path, body, key=self._key_of(found.instance))
            await self._change(call, self._world.name_of(found), make)

    async def _look(self) -> None:
        if (api := self._world.api) is not None:
            instance = self._chance.choice(self._world.scenario.instances)
            paths = (
                f"/webhook/find/{instance}/crm",
                f"/delivery/list/{instance}",
                "/webhook/list",
                "/metrics",
            )
            await api.look(self._chance.choice(paths), key=GLOBAL_KEY)

    async def _resend(self) -> None:
        if self._emitted:
            event, instance = self._chance.choice(self._emitted)
            deliveries = self._world.gateway.deliveries
            with self._requeuing_of("resend", instance, event):
                await self.attempt("resend", lambda: deliveries.resend(instance, event))

    async def _replay(self) -> None:
        instance = self._chance.choice(self._world.scenario.instances)
        replay = DeliverySelection(since=0.0, state=self._chance.choice(("dead", "dead", "all")))
        deliveries = self._world.gateway.deliveries
        with self._requeuing_of("replay", instance):
            await self.attempt("replay", lambda: deliveries.replay(instance, replay))

    @contextmanager
    def _requeuing_of(self, what: str, instance: str, *events: str) -> Iterator[None]:
        # Before the call, too: what it makes pending may arrive before it is answered.
        self._note(Requeued, began=self._world.now, what=what, instance=instance, events=events)
        reached = events or (instance,)
        self._requeuing.update(reached)
        try:
            yield
        finally:
            self._requeuing.subtract(reached)

    async def _cancel(self) -> None:
        instance = self._chance.choice(self._world.scenario.instances)
        deliveries = self._world.gateway.deliveries
        self._note(Cancelled, instance=instance)
        await self.attempt("cancel", lambda: deliveries.cancel(instance, DeliverySelection()))

    async def _skip(self) -> None:
        # Heads of lanes, which are in flight or wait, and now and then any event.
        gateway = self._world.gateway
        known = [(f"dlv_{one.head}", one.head_instance) for one in gateway.lanes() if one.head is not None]
        known += self._emitted[-2:]
        if not known:
            return
        name, instance = self._chance.choice(known)
        if instance is None:
            return
        began, requeuing = self._world.now, +self._requeuing
        # It may end between the skip and its answer (seed 70908), not have begun yet (85352), or be of the
        # process before (90732).
        kinds = (JobKind.REPLAY, JobKind.BACKFILL)
        is_replayed = instance in requeuing or any(gateway.jobs.running(kind, instance) for kind in kinds)
        # Before the call, too: a delivery may end so although the call is not answered.
        self._note(Cancelled, instance=instance)

        async def call() -> None:
            found = await gateway.deliveries.cancel_one(instance, name)
            if not self._world.is_over:
                self._note(
                    Skipped,
                    began=began,
                    instance=instance,
                    event=found.event_id,
                    registration=self._world.names.get(found.registration, found.registration),
                    attempts=found.attempts,
                    is_replayed=is_replayed or found.event_id in requeuing,
                )

        await self.attempt("skip", call)


def version_of(registration: Registration) -> int:
    """Return the version of a registration's URL. That of a receiver that fetches stays."""
    return 1 if registration.is_pulled else int(registration.url.split("/")[4])


def _payload(event: str, chat: str, size: int) -> bytes:
    """Return a message of a person, who has several names, or a list about several."""
    if " " in chat:
        return msgspec.json.encode([{"remoteJid": one, "text": "x" * size} for one in chat.split()])
    user = chat.partition("@")[0]
    text = {"text": "x" * size}
    spellings: list[Any] = [
        {"key": {"remoteJid": chat, "id": event}, **text},
        {"key": {"remoteJid": f"{user}:90@s.whatsapp.net", "id": event}, **text},
        {"key": {"remoteJid": f"{user}@c.us", "id": event}, **text},
        {"key": {"remoteJid": f"77{user}@lid", "remoteJidAlt": chat, "id": event}, **text},
        [{"remoteJid": chat, **text}, {"id": f"{user}:2@c.us"}],
    ]
    return msgspec.json.encode(spellings[zlib.crc32(event.encode()) % len(spellings)])
