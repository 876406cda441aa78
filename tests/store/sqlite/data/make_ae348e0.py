# This script runs against the modules of ae348e0, which this checkout does not have.
# mypy: ignore-errors
# ruff: noqa: I001
"""Write the data files of hookgw ae348e0 that the migration tests start from.

The script uses that version's own gateway and store; it does not run against this checkout. To write the
files again, install a checkout of ae348e0 and run the script from there::

    git worktree add ../ae348e0 ae348e0
    python3 -m venv ../venv && ../venv/bin/pip install -e ../ae348e0
    cd ../ae348e0 && PYTHONHASHSEED=0 ../venv/bin/python <this file> <the folder of this file>

It writes ``plain.db.gz`` and ``encrypted.db.gz``, and beside each a JSON file with what the old version reads
from it (``tests/store/sqlite/previous_version.py`` loads both). While the script runs, receivers listen on
127.0.7.x, port 8080; a resolver maps the example hosts to these addresses.

Each file is the disk image of a gateway that is killed while moves, attempts and retries are under way. The
clock, the random numbers and the event ids are fixed, so two runs differ in little: the numbers in ``names``
and the order of operational events depend on the order in which tasks run.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import itertools
import os
import random
import shutil
import socket
import sqlite3
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import trio
import yaml
from trio.testing import MockClock

from hookgw.clock import Clock, virtual_clock
from hookgw.config import load_settings
from hookgw.deliveries import Delivery, DeliveryState, LaneState
from hookgw.errors import StorageUnavailable
from hookgw import Event
from hookgw.core import Gateway, open_gateway
from hookgw.registrations import Ordering, Registration, RegistrationChange
from hookgw.sealing import MasterKeys, parse_master_key
from hookgw.store import DeliveryQuery, Store, open_store
from hookgw.store.moving import START, Place
from hookgw.store.moving_access import MovingAccess
from hookgw.testing import Receiver, answer, open_receiver
from hookgw.testing import GatewayKit

VERSION = "ae348e0"
STEP = 10
"""How many deliveries a move looks at in one commit. The 2,500 of ae348e0 would make the files large."""
SLOW = 5.0
"""Seconds of the mock clock until a receiver that hangs answers."""
MASTER_KEY = base64.b64encode(b"hookgw fixture key, not a secret").decode()
GLOBAL_KEY = "a-global-key-for-tests"
PORT = 8080
TABLES = ("names", "events", "deliveries", "bodies", "attempts", "shelves")


class Hosts:
    """The receivers by host name, and the resolver that finds them."""

    def __init__(self) -> None:
        self.receivers: dict[str, Receiver] = {}
        self._addresses: dict[str, str] = {}

    async def listen(self, stack: AsyncExitStack, *names: str) -> None:
        for name in names:
            receiver = open_receiver(host=self._address(name), port=PORT)
            self.receivers[name] = await stack.enter_async_context(receiver)

    def fail(self, *names: str) -> None:
        """Let receivers answer every request with 503."""
        for name in names:
            self.receivers[name].default = answer(503, "Not now.")

    async def resolve(self, host: str, port: int, **options: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return socket.getaddrinfo(
            self._address(host.removesuffix(".example")), port, flags=socket.AI_NUMERICHOST, **options
        )

    def _address(self, name: str) -> str:
        return self._addresses.setdefault(name, f"127.0.7.{len(self._addresses) + 1}")


class Emitter:
    """Makes events; the ids of each instance count from 1, so several instances have the same ones.

    Attributes:
        but: hosts whose lanes need not be at rest before the next event.
    """

    def __init__(self) -> None:
        self.but: tuple[str, ...] = ()
        self._counts: Counter[str] = Counter()

    async def emit(self, kit: GatewayKit, *instances: str, rounds: int = 1) -> None:
        """Accept an event of each instance in turn, that many times; wait for the lanes after each."""
        for _ in range(rounds):
            for instance in instances:
                self._counts[instance] += 1
                await kit.gateway.events.accept([self._event(kit, instance, self._counts[instance])])
                await at_rest(kit, *self.but)

    def _event(self, kit: GatewayKit, instance: str, number: int) -> Event:
        data: dict[str, Any]
        if number % 7 == 0:  # no chat: the partition is that of the empty string
            kind, data = "QRCODE_UPDATED", {"qrcode": {"code": f"code-{number}"}}
        else:
            chat = f"155500{number * 5 % 11:02d}@s.whatsapp.net"
            kind, data = "MESSAGES_UPSERT", {"key": {"remoteJid": chat}, "text": f"{instance} {number}"}
        return Event(
            id=f"evt-{number:04d}",
            kind=kind,
            instance=instance,
            data_json=msgspec.json.encode(data),
            time=kit.gateway.clock.wall(),
        )


class HeldMoves:
    """Lets each move take so many steps; from then on the disk refuses its next one."""

    def __init__(self, **steps: int) -> None:
        self.steps: dict[str, int] = dict(steps)

    def patch(self) -> Any:
        relane_some = MovingAccess.relane_some

        async def held(
            store: Store, registration: str, lanes: Sequence[str], lane_of: Any, place: Place = START
        ) -> Place | None:
            left = self.steps.get(registration)
            if left == 0:
                raise StorageUnavailable("The move is held.")
            if left is not None:
                self.steps[registration] = left - 1
            return await relane_some(store, registration, lanes, lane_of, place)

        return mock.patch.object(MovingAccess, "relane_some", held)


@contextmanager
def fixed_chance() -> Iterator[None]:
    """Draw keys, secrets, nonces and ids from one seeded generator."""
    source = random.Random(VERSION)
    ids = (f"msg_ops{number:04d}" for number in itertools.count(1))
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True
    trio._core._run._r.seed(VERSION)
    with ExitStack() as stack:
        for place in ("os.urandom", "random._urandom"):
            stack.enter_context(mock.patch(place, source.randbytes))
        stack.enter_context(
            mock.patch("uuid.uuid4", side_effect=lambda: uuid.UUID(bytes=source.randbytes(16), version=4))
        )
        stack.enter_context(mock.patch("hookgw.operations.new_event_id", side_effect=ids))
        stack.enter_context(mock.patch("hookgw.store.moving_access.MOVING_STEP", STEP))
        yield


@asynccontextmanager
async def gateway(folder: Path, hosts: Hosts, given: Mapping[str, Any]) -> AsyncIterator[GatewayKit]:
    """Run a gateway on the data file of the folder."""
    clock = trio.lowlevel.current_clock()
    complete: dict[str, Any] = {
        **given,
        "events": {"validate": "off"},
        "plugins": {"first_party": False, "folders": []},
    }
    complete["storage"] = {**given.get("storage", {}), "path": str(folder / "hookgw.db")}
    file = folder / "hookgw.yaml"
    file.write_text(yaml.safe_dump(complete), encoding="utf-8")
    settings = load_settings(file, {})
    async with open_gateway(settings, base=folder, clock=virtual_clock(), resolve=hosts.resolve) as opened:
        assert isinstance(clock, MockClock)
        try:
            yield GatewayKit(opened, clock, [])
        finally:
            clock.jump(SLOW)  # the attempts that hang end, or the gateway could not close


async def at_rest(kit: GatewayKit, *but: str) -> None:
    """Wait until all lanes are empty or wait for a retry, except those of the hosts named."""
    give_up_at = time.monotonic() + 10
    while not kit.gateway.operational.is_quiet or any(_busy(kit.gateway, but)):
        if time.monotonic() > give_up_at:
            raise TimeoutError(", ".join(_busy(kit.gateway, but)))
        await trio.to_thread.run_sync(time.sleep, 0.002)
    await kit.gateway.store.flush()


def _busy(gateway: Gateway, but: Sequence[str]) -> Iterator[str]:
    now = gateway.clock.steady()
    for lane in gateway.lanes():
        waits = lane.state is LaneState.WAITING and (lane.waiting_until or 0) > now
        rests = lane.state is LaneState.IDLE and lane.backlog == 0
        if not waits and not rests and not any(f"//{host}.example" in lane.lane for host in but):
            yield f"{lane.lane} {lane.state}"


def url(host: str, path: str = "hook", user: str = "") -> str:
    return f"http://{user}{host}.example:{PORT}/{path}"


async def dead_of(kit: GatewayKit, registration: Registration) -> list[str]:
    """The dead letters of a registration, the oldest first."""
    query = DeliveryQuery(instance=registration.instance, state=DeliveryState.DEAD)
    found = await kit.gateway.store.list_deliveries(query)
    return [one.id for one in reversed(found) if one.registration == registration.id]


# plain.db


def plain_settings(last: bool) -> dict[str, Any]:
    """The configuration of the first start, or of the last one."""
    webhooks: list[dict[str, Any]] = [
        {"label": "archive", "url": url("archive", "all")},
        {
            "label": "mirror",
            "url": url("mirror2" if last else "mirror", "all"),
            "ordering": "chat",
            "concurrency": 3,
        },
        {"label": "retired", "url": url("retired", "all"), "events": ["MESSAGES_UPSERT"]},
    ]
    return {
        "auth": {"global_key": GLOBAL_KEY},
        "delivery": {"allow_networks": ["127.0.0.0/8"], "jitter": 0},
        "global_webhooks": webhooks[:2] if last else webhooks,
        "operations": {"url": url("ops", "alerts")},
    }


async def plain_first(kit: GatewayKit, hosts: Hosts, emitter: Emitter) -> None:
    """The life of plain.db until its last start: history, dead letters and backlogs, no moves."""
    four_chats = {"ordering": Ordering.CHAT, "concurrency": 4}
    four = {"ordering": Ordering.NONE, "concurrency": 4}
    register = kit.register
    crm = await register(url("crm"))
    await register(url("crm"), instance="desk")
    await register(url("audit", "in"), label="audit", **four_chats)
    await register(url("audit", "in"), instance="desk", label="audit", **four)
    await register("https://fast.example/hook", label="fast", **four)
    await register(url("moved"), label="moving")
    await register(url("new"), label="newcomer")
    await register(url("hung"), label="hung")
    await register(url("spread"), instance="desk", label="spread")
    await register(url("reorder"), instance="desk", label="reorder", **four_chats)
    await register(url("dropped"), instance="desk", label="dropped")
    await register(url("bot", user="ann:pa55@"), instance="bot", ordering=Ordering.CHAT, concurrency=1)
    await register(
        url("kinds"),
        instance="bot",
        label="kinds",
        concurrency=8,
        by_events=True,
        events=("QRCODE_UPDATED",),
        headers={"x-team": "blue"},
    )
    await register(url("narrow"), instance="bot", label="narrow", **four_chats)
    off = await register(url("off"), instance="bot", label="off")
    await register(url("refused"), instance="bot", label="refused")
    await register(url("crm"), instance="left")

    rejected = [answer(422), answer(), answer()]  # the first of shop, desk and left
    hosts.receivers["crm"].will(answer(), answer(422), answer(), *rejected, *rejected, *rejected)
    await emitter.emit(kit, "shop", "desk", "bot", "left", rounds=6)
    await kit.settled()
    hosts.fail("crm", "audit", "moved", "new", "spread", "reorder", "kinds", "narrow", "off", "ops")
    hosts.fail("archive", "mirror", "retired")
    hosts.receivers["refused"].default = answer(410)
    await kit.gateway.instances.delete("left")
    await emitter.emit(kit, "shop", "desk", "bot", rounds=4)
    await kit.settled()
    await kit.gateway.registrations.set("bot", off.label, RegistrationChange(url=off.url, enabled=False))
    await emitter.emit(kit, "desk", "shop", "bot", rounds=8)
    await kit.advance(6)
    await emitter.emit(kit, "shop", "shop", "desk", "bot", rounds=8)
    for delivery in (await dead_of(kit, crm))[1:]:
        await kit.gateway.deliveries.resend("shop", delivery)
    await emitter.emit(kit, "shop", "desk", rounds=2)
    await kit.advance(16)


async def plain_last(
    kit: GatewayKit, hosts: Hosts, emitter: Emitter, held: HeldMoves, clock: MockClock
) -> None:
    """The life of plain.db from its last start to the kill: moves that are under way, attempts that hang."""
    emitter.but = ("mirror", "mirror2", "moved", "new", "spread", "reorder", "narrow", "narrow2", "narrow3")
    await at_rest(kit, *emitter.but)
    await emitter.emit(kit, "shop", "desk", "bot", rounds=2)
    clock.jump(40)
    await at_rest(kit, *emitter.but)

    async def change(instance: str, label: str, **fields: Any) -> None:
        before = kit.gateway.registrations.find(instance, label)
        assert before is not None
        held.steps.setdefault(before.id, 1)
        request = RegistrationChange(**{"url": before.url, **fields})
        await kit.gateway.registrations.set(instance, label, request)

    await change("shop", "moving", url=url("new"))
    await emitter.emit(kit, "shop", "desk", "bot", rounds=2)
    await change("desk", "spread", ordering=Ordering.CHAT, concurrency=4)
    await change("desk", "reorder", ordering=Ordering.NONE)
    await change("bot", "narrow", url=url("narrow2"), ordering=Ordering.NONE, concurrency=2)
    await emitter.emit(kit, "shop", "desk", "bot", rounds=3)
    await change("bot", "narrow", url=url("narrow3"), ordering=Ordering.URL)
    await emitter.emit(kit, "bot", "desk", "shop", rounds=2)

    seen = {name: len(hosts.receivers[name].requests) for name in ("hung", "dropped")}
    for name in seen:
        hosts.receivers[name].default = answer(wait=SLOW)
    emitter.but = (*emitter.but, *seen)
    await emitter.emit(kit, "shop", "desk", rounds=3)
    for name, count in seen.items():
        await hosts.receivers[name].wait_for(count + 1)
    await change("shop", "hung", url="vazio", enabled=False)
    await kit.gateway.registrations.delete("desk", "dropped")
    await emitter.emit(kit, "shop", "desk", "bot")


async def make_plain(folder: Path, clock: MockClock) -> float:
    hosts, emitter = Hosts(), Emitter()
    held = HeldMoves(global_mirror=1)
    async with AsyncExitStack() as stack:
        await hosts.listen(
            stack, "crm", "audit", "moved", "new", "hung", "spread", "reorder", "dropped", "kinds", "narrow"
        )
        await hosts.listen(
            stack, "narrow2", "narrow3", "off", "refused", "archive", "mirror", "retired", "ops"
        )
        async with gateway(folder, hosts, plain_settings(last=False)) as kit:
            await plain_first(kit, hosts, emitter)
        clock.jump(60)
        hosts.fail("narrow2", "narrow3")
        stack.enter_context(held.patch())
        async with gateway(folder, hosts, plain_settings(last=True)) as kit:
            await plain_last(kit, hosts, emitter, held, clock)
            return await image(kit, folder)


# encrypted.db


def encrypted_settings() -> dict[str, Any]:
    return {
        "auth": {"global_key": GLOBAL_KEY},
        "delivery": {"allow_networks": ["127.0.0.0/8"], "jitter": 0},
        "storage": {"master_key": MASTER_KEY},
        "global_webhooks": [{"label": "archive", "url": url("archive", "all")}],
        "operations": {"url": url("ops", "alerts")},
    }


async def make_encrypted(folder: Path, clock: MockClock) -> float:
    hosts, emitter, held = Hosts(), Emitter(), HeldMoves()
    async with AsyncExitStack() as stack:
        await hosts.listen(stack, "crm", "audit", "moved", "new", "archive", "ops")
        stack.enter_context(held.patch())
        async with gateway(folder, hosts, encrypted_settings()) as kit:
            await kit.register(url("crm"))
            await kit.register(url("crm"), instance="desk")
            await kit.register(url("audit", "in"), label="audit", ordering=Ordering.CHAT, concurrency=3)
            moving = await kit.register(url("moved"), instance="desk", label="moving")
            hosts.receivers["crm"].will(answer(), answer(422), answer(422))
            await emitter.emit(kit, "shop", "desk", rounds=3)
            hosts.fail("crm", "audit", "moved", "new", "archive", "ops")
            await emitter.emit(kit, "shop", "desk", rounds=12)
            await kit.advance(6)
            held.steps[moving.id] = 1
            await kit.gateway.registrations.set("desk", "moving", RegistrationChange(url=url("new")))
            emitter.but = ("moved", "new")
            await emitter.emit(kit, "desk", "shop", rounds=2)
            return await image(kit, folder)


# The files


async def image(kit: GatewayKit, folder: Path) -> float:
    """Copy the data file and its write-ahead log as a kill in this moment leaves them; return the time."""
    await kit.gateway.store.flush()
    for suffix in ("", "-wal"):
        shutil.copyfile(folder / f"hookgw.db{suffix}", folder / f"image.db{suffix}")
    return kit.gateway.clock.steady()


def compact(file: Path) -> None:
    """Fold the write-ahead log into the file, and leave no free pages."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            connection.execute(statement).fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def truth_of(file: Path, settings: dict[str, Any], at: float) -> dict[str, Any]:
    """What ae348e0 itself reads from the file."""
    copy = file.with_name("read.db")
    shutil.copyfile(file, copy)
    master_key = settings.get("storage", {}).get("master_key")
    keys = MasterKeys(parse_master_key(master_key)) if master_key else MasterKeys()
    async with open_store(copy, clock=Clock(), keys=keys) as store:
        lanes = {found.lane: await deliveries_in(store, found.lane) for found in await store.backlog()}
        moves = await store.load_moves()
        stored = await store.load_registrations()
        instances = sorted(await store.load_instances())
        values = await store.read(lambda shelves: shelves.values.load())
    pending = sorted(itertools.chain(*lanes.values()), key=lambda one: one.position)
    ids = sorted({one.registration for one in pending} | set(stored))
    return {
        "version": VERSION,
        "schema": _one(file, "PRAGMA user_version"),
        "at": at,
        "settings": settings,
        "instances": instances,
        "registrations": {key: described(registration) for key, registration in sorted(stored.items())},
        "pending": {key: [row(one) for one in pending if one.registration == key] for key in ids},
        "lanes": {lane: [one.seq for one in lanes[lane]] for lane in sorted(lanes)},
        "moves": dict(sorted(moves.items())),
        "lane_values": {key: value for key, value in values.items() if key.endswith((".lane", ".lanes"))},
        "states": dict(_all(file, "SELECT state, count(*) FROM deliveries GROUP BY state")),
        "dead": dead_letters(file),
        "last_numbers": dict(_all(file, "SELECT name, seq FROM sqlite_sequence ORDER BY name")),
        "counts": {table: _one(file, f"SELECT count(*) FROM {table}") for table in TABLES},
    }


async def deliveries_in(store: Store, lane: str) -> list[Delivery]:
    found: list[Delivery] = []
    more = True
    while more:
        page = await store.page(lane, found[-1].position if found else 0, 1000)
        found += page.deliveries
        more = page.more
    return found


def described(registration: Registration) -> dict[str, Any]:
    fields = ("instance", "label", "url", "events", "enabled", "disabled_reason", "by_events", "concurrency")
    found = {name: getattr(registration, name) for name in fields}
    return {**found, "ordering": registration.ordering.value}


def row(delivery: Delivery) -> dict[str, Any]:
    data = delivery.event.data
    return {
        "seq": delivery.seq,
        "position": delivery.position,
        "lane": delivery.lane,
        "instance": delivery.event.instance,
        "event": delivery.event.id,
        "kind": delivery.event.kind,
        "chat": data.get("key", {}).get("remoteJid", ""),
        "attempts": delivery.attempts,
        "failures": delivery.failures,
        "queued_at": delivery.queued_at,
        "next_at": delivery.next_at,
        "body": delivery.body is not None,
    }


def dead_letters(file: Path) -> dict[str, list[int]]:
    """The sequence numbers of the dead letters, by registration."""
    statement = """SELECT name, seq FROM deliveries JOIN names ON number = registration
        WHERE state = 'dead' ORDER BY name, seq"""
    found: dict[str, list[int]] = {}
    for registration, seq in _all(file, statement):
        found.setdefault(registration, []).append(seq)
    return found


def _all(file: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def _one(file: Path, statement: str) -> Any:
    return _all(file, statement)[0][0]


def write_json(file: Path, truth: dict[str, Any]) -> None:
    """Write the truth with one pending delivery to a line."""
    depths = {"pending": 3, "registrations": 2, "lanes": 2, "moves": 2, "dead": 2}
    items = (f"{_text(key)}: {_spread(value, depths.get(key, 1) - 1)}" for key, value in truth.items())
    file.write_text("{\n" + ",\n".join(items) + "\n}\n", encoding="utf-8")


def _spread(value: Any, depth: int) -> str:
    """JSON that begins a line for each item of the outer levels."""
    if depth == 0 or not value:
        return _text(value)
    if isinstance(value, dict):
        items = [f"{_text(key)}: {_spread(item, depth - 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + "\n}"
    return "[\n" + ",\n".join(_spread(item, depth - 1) for item in value) + "\n]"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def main() -> None:
    arguments = argparse.ArgumentParser(description="Write the data files of ae348e0.")
    arguments.add_argument("folder", type=Path)
    target: Path = arguments.parse_args().folder.resolve()
    os.umask(0o077)
    for name, make, settings in (
        ("plain", make_plain, plain_settings(last=True)),
        ("encrypted", make_encrypted, encrypted_settings()),
    ):
        with tempfile.TemporaryDirectory() as folder, fixed_chance():
            clock = MockClock()
            at = trio.run(make, Path(folder), clock, clock=clock)
            file = Path(folder, "image.db")
            compact(file)
            truth = trio.run(truth_of, file, settings, at)
            write_json(target / f"{name}.json", truth)
            (target / f"{name}.db.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
