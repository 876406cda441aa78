"""Many faults at a time, at random, on three nodes under load; then an account of every event.

Nodes are frozen, cut off from the database and from each other in both ways or one, far away from the
database, and their clocks jump. Clients notice none of it: they go on to send to every node. Environment:
``HOOKGW_FLEET_FAULTS`` (without it nothing runs), ``HOOKGW_FLEET_CHAOS`` (seconds, 60), and
``HOOKGW_FLEET_SEED`` (a random one; it is printed, and gives each node the same faults again).
"""

import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from tests.fleet.account import judge
from tests.fleet.faults import freeze
from tests.fleet.links import WAYS, Link
from tests.fleet.nodes import Fleet, Node, open_fleet, open_witnesses
from tests.fleet.test_faults import prepare
from tests.support.postgres import PostgresServer

SECONDS = float(os.environ.get("HOOKGW_FLEET_CHAOS", "60"))
SEED = int(os.environ.get("HOOKGW_FLEET_SEED", str(random.SystemRandom().randrange(10**6))))
LANES = 10
RATE = 50.0
"""Events a second, of all instances together."""
DRAINED_WITHIN = 120.0

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif("HOOKGW_FLEET_FAULTS" not in os.environ, reason="nox -s fleet runs it"),
    pytest.mark.timeout(2 * SECONDS + DRAINED_WITHIN + 120),
    # httpx leaves the body's generator behind when the connection breaks while it sends.
    pytest.mark.filterwarnings(
        r"ignore:.*async_generator object ByteStream:pytest.PytestUnraisableExceptionWarning"
    ),
]


class Chaos:
    """What is done to one node, one thing after the other.

    Args:
        node: which one.
        clock: the file that says by how many seconds its clock is wrong.
        chance: chooses.
    """

    def __init__(self, node: Node, clock: Path, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._node = node
        self._clock = clock
        self._chance = chance

    async def run(self, until: float) -> None:
        """Do things until a time, and leave the node whole."""
        kinds: dict[str, Callable[[float], Awaitable[None]]] = {
            "freeze": partial(freeze, self._node),
            "cut off": partial(self._cut, self._node.database),
            "hide": partial(self._cut, self._node.peers),
            "delay": self._delay,
            "clock": self._turn_clock,
        }
        while (left := until - trio.current_time()) > 0:
            await trio.sleep(min(left, self._chance.uniform(0.2, 6.0)))
            kind = self._chance.choice(list(kinds))
            self.done[kind] += 1
            # The others take over after 3 s: shorter and longer ones, and what ends just then.
            await kinds[kind](self._chance.uniform(1.0, 8.0))

    async def _cut(self, link: Link, seconds: float) -> None:
        link.cut(*self._chance.choice([WAYS, WAYS[:1], WAYS[1:]]))
        await trio.sleep(seconds)
        link.mend()

    async def _delay(self, seconds: float) -> None:
        least, most = sorted(self._chance.choices([0.0, 0.02, 0.1, 0.25, 0.5], k=2))
        self._node.database.delay = lambda: self._chance.uniform(least, most)
        await trio.sleep(seconds)
        self._node.database.delay = lambda: 0.0

    async def _turn_clock(self, seconds: float) -> None:
        self._clock.write_text(str(self._chance.choice([-7200, -60, -1, 1, 60, 7200])), encoding="ascii")
        await trio.sleep(seconds)
        self._clock.write_text("0", encoding="ascii")


async def test_every_event_is_accounted_for(
    postgres: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\nHOOKGW_FLEET_SEED={SEED}", flush=True)
    clocks = [tmp_path / f"clock-{number}" for number in range(3)]
    for clock in clocks:
        clock.write_text("0", encoding="ascii")
    folder = Path(__file__).parent / "wrong_clock"
    launchers = [["env", f"PYTHONPATH={folder}", f"WRONG_BY_FILE={clock}"] for clock in clocks]
    async with (
        open_witnesses(LANES, lambda n: 0.2 if n % 5 == 4 else 0.0, random.Random(SEED)) as witnesses,
        open_fleet(postgres, schema, tmp_path, random.Random(SEED + 1), launchers=launchers) as fleet,
    ):
        producers = await prepare(fleet, witnesses, RATE)
        chaos = [
            Chaos(node, clock, random.Random(SEED + number))
            for number, (node, clock) in enumerate(zip(fleet.nodes, clocks, strict=True), 2)
        ]
        async with trio.open_nursery() as load:
            for producer in producers:
                load.start_soon(producer.run)
            await trio.sleep(2)
            async with trio.open_nursery() as faults:
                for one in chaos:
                    faults.start_soon(one.run, trio.current_time() + SECONDS)
            await until_shared(fleet)
            for producer in producers:
                producer.enough.set()
        with trio.move_on_after(DRAINED_WITHIN):
            for witness, producer in zip(witnesses, producers, strict=True):
                await witness.wait_for_event(producer.emitted - 1)
        await trio.sleep(1)  # what is settled is written
    lanes = [judge(w.arrivals(), [], p.emitted) for w, p in zip(witnesses, producers, strict=True)]
    accepted = [
        f"{producer.instance}-{number}" for producer in producers for number in range(producer.emitted)
    ]
    stored = {row[0] for row in postgres.execute(f"SELECT id FROM {schema}.events")}
    [(pending,)] = postgres.execute(f"SELECT count(*) FROM {schema}.deliveries WHERE state = 'pending'")
    done = sum((one.done for one in chaos), Counter[str]())
    with capsys.disabled():
        print(
            f"{done.total()} faults in {SECONDS:.0f} s:", ", ".join(f"{n} {kind}" for kind, n in done.items())
        )
        print(f"{len(accepted)} events accepted, {sum(lane.arrivals for lane in lanes)} requests,", end=" ")
        print(f"{sum(len(lane.unexplained) for lane in lanes)} repeats,", end=" ")
        print(f"{sum(producer.refusals for producer in producers)} tries refused,", end=" ")
        print(f"slowest 503 {max(producer.slowest for producer in producers):.1f} s")
    assert [event for event in accepted if event not in stored] == []
    assert [(number, lane.lost) for number, lane in enumerate(lanes) if lane.lost] == []
    assert [(number, lane.inversions) for number, lane in enumerate(lanes) if lane.inversions] == []
    assert pending == 0


async def until_shared(fleet: Fleet) -> None:
    """Wait until every node has its share, each time anew if one of them does not answer."""
    with trio.fail_after(60):
        while True:
            with trio.move_on_after(10), suppress(httpx.HTTPError):
                await fleet.until_shared()
                return
            await trio.sleep(0.1)
