"""The recorded program: it opens a store, asks for random changes, and says what it asks and is answered.

:mod:`tests.simulation.power.runs` starts it, with an action, a data file, a seed and perhaps a planted fault.
"""

import json
import os
import random
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from hookgw import Attempt, DeliveryState, Event, Outcome, Registration
from hookgw.store import history, steps
from hookgw.store.sqlite import checkpoints, database, maintenance
from tests.public.concurrency import Clock
from tests.public.config import MasterKeys
from tests.public.records import HOOKGW, AuditEntry, Instance, Job, JobKind, LaneRule, Ordering, Settlement
from tests.public.store import Append, ConnectorState, ReplayQuery, Store, open_store
from tests.simulation.power.account import INSTANCES, STEP, VALUES, Model, Request
from tests.simulation.power.plants import PLANTS
from tests.simulation.power.runs import Action
from tests.simulation.power.serving import serve
from tests.simulation.power.tracing import be_recorded, mark

AT = 1_700_000_000.0
REGISTRATIONS = ("reg_1", "reg_2", "reg_3")
STATES = {
    "delivered": (DeliveryState.DELIVERED, Outcome.DELIVERED),
    "pending": (DeliveryState.PENDING, Outcome.FAILED),
    "dead": (DeliveryState.DEAD, Outcome.REJECTED),
}


class Workload:
    """Random requests to a store.

    Args:
        chance: chooses them.
        folder: for backups.
        often: the request of every second round, such as ``erase``; empty for none.
    """

    def __init__(self, chance: random.Random, folder: Path, often: str) -> None:
        self._often = often
        self._chance = chance
        self._folder = folder
        self._model = Model()
        self._asked = 0
        self._count = 0
        self._stored: set[int] = set()

    async def run(self, path: Path, rounds: int) -> None:
        """Open the store twice, and make rounds of requests each time."""
        for last in (False, True):
            async with open_store(path, clock=Clock()) as store:
                if not last:
                    mark(json.dumps({"opened": True}).encode())
                    for name, registration in zip(INSTANCES, REGISTRATIONS, strict=False):
                        await self._ask(
                            {
                                "do": "put_instance",
                                "name": name,
                                "registration": registration,
                                "url": "http://a",
                            },
                            partial(
                                store.put_instance,
                                Instance(name=name, id=INSTANCES[name]),
                                Registration(id=registration, instance=name, url="http://a"),
                            ),
                        )
                for _ in range(rounds):
                    await self._round(store)
                if last:  # most cuts happen while the program runs, so the end is one
                    os.kill(os.getpid(), signal.SIGKILL)

    async def _round(self, store: Store) -> None:
        """Several tasks append and settle at once; then one of the other requests is made alone."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._chance.randint(1, 3)):
                nursery.start_soon(self._traffic, store, self._chance.randint(1, 6))
            if self._chance.random() < 0.15:
                nursery.start_soon(self._back_up, store)
        names = ("park", "resend", "replay", "drop", "erase", "retain", "pause")
        [name] = self._chance.choices(names, (3, 3, 3, 2, 1, 2, 3))
        if self._often and self._chance.random() < 0.5:
            name = self._often
        await getattr(self, f"_{name}")(store)

    async def _traffic(self, store: Store, count: int) -> None:
        for _ in range(count):
            what = self._chance.random()
            if what < 0.5:
                await self._append(store)
            elif what < 0.85:
                await self._settle(store)
            else:
                await self._put(store)

    async def _append(self, store: Store) -> None:
        chance = self._chance
        # The numbers that the store is about to give. Nothing else runs before it gives them.
        seq = int(await store.park_cursor())
        events: list[dict[str, Any]] = []
        appends = []
        for _ in range(chance.randint(0, 4)):
            instance = chance.choice(list(INSTANCES))
            self._count += 1
            number = chance.randint(1, self._count) if chance.random() < 0.15 else self._count
            person = f"person-{chance.randint(1, 8)}@s"
            targets = [
                (registration, seq := seq + 1)
                for registration in chance.sample(REGISTRATIONS, chance.randint(0, 3))
            ]
            secret = f"secret-{self._count}."
            one = {"id": f"e{number}", "instance": instance, "person": person, "secret": secret}
            events.append(one | {"targets": targets})
            payload = {"from": person, "secret": secret, "text": "x" * chance.choice((1, 99, 5000))}
            event = Event(
                id=f"e{number}", kind="MESSAGES_UPSERT", instance=instance,
                data_json=json.dumps(payload).encode(), time=AT,
            )  # fmt: skip
            appends.append(Append(event, tuple((name, f"{name}:0") for name, _ in targets)))
        request: Request = {"do": "append", "events": events}
        state = None
        if chance.random() < 0.3:
            request["state"] = self._count
            state = ConnectorState(
                instance="shop", instance_id=INSTANCES["shop"], state_json=str(self._count).encode()
            )
        await self._ask(request, partial(store.append, appends, state=state))
        self._stored.update(seq for one in events for _, seq in one["targets"])

    async def _settle(self, store: Store) -> None:
        chance, model = self._chance, self._model
        for _ in range(chance.randint(1, 5)):
            ready = [seq for name in REGISTRATIONS for seq in model.pending(name)[:3] if seq in self._stored]
            if not ready:
                break
            seq = chance.choice(ready)
            name = chance.choice(list(STATES))
            state, outcome = STATES[name]
            number = model.deliveries[seq].attempts + 1
            self._count += 1
            at = AT + self._count
            attempt = Attempt(number=number, at=at, duration=0.1, outcome=outcome, status=200, answer="a")
            settlement = Settlement(
                seq=seq, state=state, at=at, attempt=attempt, body=chance.choice((None, b"b" * 900))
            )
            self._say({"do": "settle", "seq": seq, "state": name, "attempt": number, "at": at})
            store.settle_nowait(settlement)
        if chance.random() < 0.5:
            await self._ask({"do": "flush"}, store.flush)

    async def _put(self, store: Store) -> None:
        chance = self._chance
        self._count += 1
        if chance.random() < 0.4:
            registration, url = chance.choice(REGISTRATIONS), f"http://r{self._count}"
            await self._ask(
                {"do": "put", "shelf": "registrations", "key": registration, "value": url},
                partial(store.put_registration, Registration(id=registration, instance="shop", url=url)),
            )
            return
        key, value = chance.choice(VALUES), self._count
        entry = AuditEntry(at=AT, action=f"value.{value}", actor=HOOKGW)
        await self._ask(
            {"do": "put", "shelf": "values", "key": key, "value": value, "audit": entry.action},
            partial(store.put_value, key, value, audit=[entry]),
        )

    async def _park(self, store: Store) -> None:
        """Delete a registration, as the gateway does: with a job that parks its deliveries in steps."""
        registration = self._chance.choice(REGISTRATIONS)
        job = self._job(JobKind.DELETE_REGISTRATION)
        await self._ask(
            {"do": "remove_registration", "registration": registration, "job": job.id},
            partial(store.remove_registration, registration, job=job),
        )
        cursor = await store.park_cursor()
        for _ in range(self._chance.randint(1, 4)):
            request = {"do": "park", "registration": registration, "job": job.id}
            step = await self._ask(request, partial(store.park_step, registration, "off", cursor, job=job))
            job = job.advanced(step.count, cursor)
            if not step.more:
                break
        if self._chance.random() < 0.5:
            await self._ask({"do": "remove_jobs", "jobs": [job.id]}, partial(store.remove_jobs, [job.id]))

    async def _resend(self, store: Store) -> None:
        finished = [seq for seq, held in self._model.deliveries.items() if held.state != "pending"]
        for seq in self._chance.sample(finished, min(3, len(finished))):
            held = self._model.deliveries[seq]
            await self._ask(
                {"do": "resend", "seq": seq},
                partial(store.resend, held.instance, seq, _rule(held.registration)),
            )

    async def _replay(self, store: Store) -> None:
        instance = self._chance.choice(list(INSTANCES))
        job = self._job(JobKind.REPLAY)
        await self._ask(
            {"do": "put", "shelf": "jobs", "key": job.id, "value": [0, True]}, partial(store.put_job, job)
        )
        cursor = None
        while True:
            step = await self._ask(
                {"do": "replay", "instance": instance, "job": job.id},
                partial(
                    store.replay_step,
                    ReplayQuery(instance=instance),
                    {name: _rule(name) for name in REGISTRATIONS},
                    cursor,
                    job=job,
                ),
            )
            job, cursor = job.advanced(step.count, step.cursor), step.cursor
            if cursor is None:
                return

    async def _drop(self, store: Store) -> None:
        registration, count = self._chance.choice(REGISTRATIONS), self._chance.randint(1, 3)
        instance = self._chance.choice(list(INSTANCES))
        await self._ask(
            {"do": "drop_oldest", "registration": registration, "instance": instance, "count": count},
            partial(store.drop_oldest, _rule(registration), instance, "full", count=count, size=0),
        )

    async def _erase(self, store: Store) -> None:
        person, instance = f"person-{self._chance.randint(1, 8)}@s", self._chance.choice(list(INSTANCES))
        await self._ask({"do": "flush"}, store.flush)
        concerned = await store.find_concerned(instance, person, await store.cancel_cursor())
        await self._ask(
            {"do": "erase", "instance": instance, "person": person},
            partial(store.erase, concerned.events, person),
        )
        await self._ask({"do": "scrub"}, store.scrub)

    async def _retain(self, store: Store) -> None:
        before = AT + self._chance.randint(0, self._count)
        await self._ask(
            {"do": "retain", "before": before},
            partial(store.enforce_retention, before=before, limit=2**40, ids_before=0.0),
        )

    async def _pause(self, store: Store) -> None:
        """Let a checkpoint happen."""
        await trio.sleep(1.5 * checkpoints.INTERVAL * checkpoints.MOST_INTERVALS)

    async def _back_up(self, store: Store) -> None:
        file = self._folder / f"backup-{self._asked}.db"
        await self._ask(
            {"do": "back_up", "file": file.name}, partial(store.back_up, file, lambda done, total: None)
        )

    def _job(self, kind: JobKind) -> Job:
        self._count += 1
        return Job(id=f"job_{self._count}", kind=kind, instance="shop", started=AT)

    async def _ask(self, request: Request, call: Any) -> Any:
        number = self._say(request)
        result = await call()
        mark(json.dumps({"answered": number, "failed": result is False}).encode())
        return result

    def _say(self, request: Request) -> int:
        self._asked += 1
        request["number"] = self._asked
        # As the reader will have it: JSON makes lists of tuples.
        text = json.dumps(request)
        self._model.apply(json.loads(text))
        mark(text.encode())
        return self._asked


def _rule(registration: str) -> LaneRule:
    return LaneRule(registration, 0, Ordering.URL, 1)


async def open_only(path: Path, keys: MasterKeys) -> None:
    """Open the store, which migrates, encrypts or recovers the file, and end without closing it."""
    async with open_store(path, clock=Clock(), keys=keys):
        mark(json.dumps({"answered": 1}).encode())
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run as the arguments say: the action, the data file, and what :func:`runs._record` adds."""
    action, path, seed, rounds, often, keys, plant = sys.argv[1:]
    # Small, so that a short run has many steps, and starts its log over several times.
    for module, names in (
        (steps, ("STEP", "REPLAY_STEP")),
        (history, ("PRUNE_STEP",)),
    ):
        for name in names:
            setattr(module, name, STEP)
    for module in (checkpoints, database):
        module.WAL_PAGES = 60  # type: ignore[attr-defined]
    checkpoints.INTERVAL = 0.02
    PLANTS[plant]()
    be_recorded()
    match Action(action):
        case Action.WORK:
            work = Workload(random.Random(int(seed)), Path(path).parents[1], often)
            trio.run(work.run, Path(path), int(rounds))
        case Action.OPEN:
            trio.run(open_only, Path(path), msgspec.json.decode(keys, type=MasterKeys))
        case Action.SERVE:
            serve(Path(path).parents[1])
        case Action.COMPACT:
            maintenance.compact_file(Path(path))
        case Action.RESTORE:
            maintenance.restore_file(Path(path).with_name("backup.db"), Path(path), force=True)
    mark(json.dumps({"answered": 1}).encode())


if __name__ == "__main__":
    main()
