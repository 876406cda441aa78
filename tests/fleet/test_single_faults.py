"""One fault after the other, each on a fleet of its own with real processes and a real database.

Without ``HOOKGW_FLEET_FAULTS``, only the quick ones run.
"""

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
import pytest
import trio

from tests.crash.load import Producer, Witness
from tests.fleet import faults
from tests.fleet.account import Fault, judge
from tests.fleet.nodes import GRACE, Fleet, Node, open_fleet, open_witnesses
from tests.support.poolers import needs_pgbouncer, run_pgbouncer
from tests.support.postgres import PostgresServer

IS_WHOLE = bool(os.environ.get("HOOKGW_FLEET_FAULTS"))
AWAY = 60.0
"""Seconds for which the database is unreachable."""
LANES = 3
RATE = 20.0
"""Events a second of each instance."""
REFUSED_WITHIN = 10.0
UNREADY_WITHIN = 5.0
GONE_WITHIN = GRACE + 10.0

slow = pytest.mark.skipif(not IS_WHOLE, reason="nox -s fleet runs it")
pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(240),
    # httpx leaves the body's generator behind when the connection breaks while it sends.
    pytest.mark.filterwarnings(
        r"ignore:.*async_generator object ByteStream:pytest.PytestUnraisableExceptionWarning"
    ),
]


class Load:
    """Producers and receivers of a fleet, and the account of what came of it."""

    def __init__(self, fleet: Fleet, witnesses: list[Witness]) -> None:
        self.fleet = fleet
        self.producers = [Producer(fleet.any_url, f"lane{n}", RATE, timeout=15.0) for n in range(LANES)]
        self._witnesses = witnesses
        self._faults: list[Fault] = []

    async def during(self, kind: str, *causes: Callable[[], Awaitable[object]]) -> None:
        """Cause faults under load, one after the other; go on until all that was accepted is delivered."""
        async with trio.open_nursery() as nursery:
            for producer in self.producers:
                nursery.start_soon(producer.run)
            await trio.sleep(0.5)
            for cause in causes:
                if self._faults:
                    await self.fleet.until_shared()
                began = trio.current_time()
                await cause()
                self._faults.append(Fault(kind, "", began, trio.current_time()))
                await trio.sleep(0.5)
            for producer in self.producers:
                producer.enough.set()
        for witness, producer in zip(self._witnesses, self.producers, strict=True):
            with trio.fail_after(60):
                await witness.wait_for_event(producer.emitted - 1)

    def check(self) -> None:
        """Nothing is lost, the order holds, and at most one delivery of a lane came again."""
        for witness, producer in zip(self._witnesses, self.producers, strict=True):
            assert judge(witness.arrivals(), self._faults, producer.emitted).problems() == []
            assert producer.slowest <= REFUSED_WITHIN


@asynccontextmanager
async def loaded(
    postgres: PostgresServer, schema: str, folder: Path, **options: object
) -> AsyncIterator[tuple[Fleet, Load]]:
    """Run a fleet and receivers for the length of a block, and check the account at its end."""
    chance = random.Random(1)
    async with (
        open_witnesses(LANES, lambda n: 0.2 if n == 0 else 0.0, chance) as witnesses,
        open_fleet(postgres, schema, folder, chance, **options) as fleet,  # type: ignore[arg-type]
    ):
        for number, witness in enumerate(witnesses):
            await fleet.call("POST", "/instance/create", {"instanceName": f"lane{number}"})
            await fleet.call("POST", f"/webhook/set/lane{number}", {"url": witness.url})
        load = Load(fleet, witnesses)
        yield fleet, load
        load.check()


async def until_ready(fleet: Fleet, nodes: list[Node], *, ready: bool, within: float) -> None:
    with trio.fail_after(within):
        for node in nodes:
            while await node.is_ready(fleet.http) is not ready:  # noqa: ASYNC110 -- in another process
                await trio.sleep(0.1)


async def emit(fleet: Fleet, node: Node, answers: list[httpx.Response]) -> None:
    event = {"event": "CALL", "data": {}}
    answers.append(await fleet.http.post(f"{node.url}/event/emit/lane0", json=event, timeout=30))


async def test_the_database_crashes_and_the_nodes_that_made_its_tables_go_on(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """Three nodes start together on an empty database."""
    async with loaded(postgres, schema, tmp_path) as (_, load):
        await load.during("restart", partial(faults.restart, postgres))


@slow
async def test_the_database_is_unreachable(postgres: PostgresServer, schema: str, tmp_path: Path) -> None:
    async with loaded(postgres, schema, tmp_path) as (fleet, load):

        async def away() -> None:
            for node in fleet.nodes:
                node.database.cut()
            began = trio.current_time()
            answers: list[httpx.Response] = []
            async with trio.open_nursery() as nursery:
                for node in fleet.nodes:
                    nursery.start_soon(emit, fleet, node, answers)
                await until_ready(fleet, fleet.nodes, ready=False, within=UNREADY_WITHIN)
                nursery.cancel_scope.deadline = began + REFUSED_WITHIN
            assert [answer.status_code for answer in answers] == [503, 503, 503]
            # A node that is told to stop meanwhile does so in time, and is not missed.
            with trio.fail_after(GONE_WITHIN):
                await fleet.nodes[2].stop()
            await trio.sleep_until(began + AWAY)
            for node in fleet.nodes:
                node.database.mend()
            await until_ready(fleet, fleet.nodes[:2], ready=True, within=20)

        await load.during("away", away)


@slow
async def test_the_database_is_slow(postgres: PostgresServer, schema: str, tmp_path: Path) -> None:
    async with loaded(postgres, schema, tmp_path) as (fleet, load):

        async def slow() -> None:
            for node in fleet.nodes:
                node.database.delay = lambda: 0.1
            await trio.sleep(10)
            for node in fleet.nodes:
                node.database.delay = lambda: 0.0

        await load.during("slow", slow)


@slow
@needs_pgbouncer
async def test_calls_are_answered_in_time_though_the_database_is_far_away(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """Behind a pooler of sessions, and 250 ms away in each direction: too far for hookgw to work."""

    async def ask(node: Node, method: str, path: str, body: object = None) -> None:
        began = trio.current_time()
        answered = await fleet.http.request(method, node.url + path, json=body, timeout=30)
        assert answered.status_code in (200, 201, 202, 503), answered.text
        took = trio.current_time() - began
        assert took < REFUSED_WITHIN, f"{method} {path} at {node.name} took {took:.1f} s: {answered.text}"

    with run_pgbouncer(postgres, "session") as port:
        async with loaded(postgres, schema, tmp_path, pooler=port) as (fleet, _):
            # No lane's: the account of those has numbers as ids.
            await fleet.call("POST", "/instance/create", {"instanceName": "spare"})
            for is_new in (False, True, True):
                for node in fleet.nodes:
                    node.database.delay = lambda: 0.25
                    if is_new:  # connections have to be opened from there, too
                        node.database.refuse()
                        node.database.mend()
                async with trio.open_nursery() as nursery:
                    for node in fleet.nodes:
                        event, webhook = {"event": "CALL", "data": {}}, {"url": "http://127.0.0.1:9/"}
                        nursery.start_soon(ask, node, "POST", "/event/emit/spare", event)
                        nursery.start_soon(ask, node, "POST", "/webhook/set/other", webhook)
                        nursery.start_soon(ask, node, "GET", "/delivery/list/lane0")
                        nursery.start_soon(ask, node, "GET", "/node/list")
            for node in fleet.nodes:
                node.database.delay = lambda: 0.0


@slow
@pytest.mark.parametrize("kind", ["kill", "cut off", "hide", "refuse"])
async def test_something_happens_to_a_node(
    postgres: PostgresServer, schema: str, tmp_path: Path, kind: str
) -> None:
    async with loaded(postgres, schema, tmp_path) as (fleet, load):
        node = fleet.nodes[1]
        happens: dict[str, Callable[[], Awaitable[object]]] = {
            "kill": partial(faults.kill, node, 4.0),
            "cut off": partial(faults.cut_off, node, 8.0),
            "hide": partial(faults.hide, node, 6.0),
            "refuse": partial(faults.cut_off, node, 6.0, is_refused=True),
        }
        await load.during(kind, happens[kind])


@slow
async def test_nodes_are_frozen_for_any_time(postgres: PostgresServer, schema: str, tmp_path: Path) -> None:
    """Just not long enough to be replaced, and replaced at any point of what they were doing."""
    async with loaded(postgres, schema, tmp_path) as (fleet, load):
        lengths = [tenths / 10 for tenths in range(20, 81, 5)]
        nodes = cycle(fleet.nodes)
        await load.during("freeze", *(partial(faults.freeze, next(nodes), length) for length in lengths))


@slow
async def test_all_nodes_are_cut_off_from_each_other(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with loaded(postgres, schema, tmp_path) as (fleet, load):

        async def hide_all() -> None:
            async with trio.open_nursery() as nursery:
                for node in fleet.nodes:
                    nursery.start_soon(faults.hide, node, 6.0)
                await trio.sleep(4)  # what is kept alive may have been cut off in the middle
                answered = await fleet.http.get(f"{fleet.nodes[0].url}/readyz")
                assert answered.status_code == 200

        await load.during("hide all", hide_all)


@slow
@pytest.mark.parametrize("off", [-60, 60])
async def test_the_clock_of_a_node_is_wrong(
    postgres: PostgresServer, schema: str, tmp_path: Path, off: int
) -> None:
    wrong = ["env", f"PYTHONPATH={Path(__file__).parent / 'wrong_clock'}", f"WRONG_BY={off}"]
    async with loaded(postgres, schema, tmp_path, launchers=[(), wrong, ()]) as (fleet, load):
        # What it has sent, others go on with, and the other way round.
        async def both() -> None:
            await faults.kill(fleet.nodes[1], 4.0)
            await fleet.until_shared()
            await faults.kill(fleet.nodes[0], 4.0)

        await load.during("wrong clock", both)
        assert "wrong clock" in fleet.nodes[1].log
