"""Three nodes on one PostgreSQL are killed, frozen and restarted under load.

Environment: ``HOOKGW_FLEET_FAULTS`` (without it nothing runs), ``HOOKGW_FLEET_SEED`` (a random one; it is
printed, and gives the same faults again).
"""

from __future__ import annotations

import math
import os
import random
import signal
from pathlib import Path

import pytest
import trio

from tests.fleet.account import Fault, Lane, judge
from tests.fleet.nodes import Fleet, Node, Producer, Witness, open_fleet, open_witnesses
from tests.support.postgres import PostgresServer

FAULTS = int(os.environ.get("HOOKGW_FLEET_FAULTS", "0"))
SEED = int(os.environ.get("HOOKGW_FLEET_SEED", str(random.SystemRandom().randrange(10**6))))
RATE = float(os.environ.get("HOOKGW_FLEET_RATE", "80"))
"""Events a second, of all instances together."""
LANES = 10
FROZEN = 8.0
DEADLINE = 120.0 + 20.0 * FAULTS

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not FAULTS, reason="nox -s fleet runs it"),
    pytest.mark.timeout(DEADLINE + 30),
    # httpx leaves the body's generator behind when the connection breaks while it sends.
    pytest.mark.filterwarnings(
        r"ignore:.*async_generator object ByteStream:pytest.PytestUnraisableExceptionWarning"
    ),
]


async def test_nothing_is_lost_or_overtaken_whatever_happens_to_nodes(
    postgres: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print(f"HOOKGW_FLEET_SEED={SEED}")  # pytest shows it when the test fails
    chance = random.Random(SEED)
    faults: list[Fault] = []
    with trio.fail_after(DEADLINE):
        async with (
            open_witnesses(LANES, lambda n: 0.5 if n % 5 == 4 else 0.0, random.Random(SEED + 1)) as witnesses,
            open_fleet(postgres, schema, tmp_path, random.Random(SEED + 2)) as fleet,
        ):
            producers = await prepare(fleet, witnesses)
            async with trio.open_nursery() as load:
                for producer in producers:
                    load.start_soon(producer.run)
                await trio.sleep(2)
                for _ in range(FAULTS):
                    faults.append(await fault(fleet, chance))
                    await trio.sleep(chance.uniform(0.0, 2.0))
                for producer in producers:
                    producer.enough.set()
            for witness, producer in zip(witnesses, producers, strict=True):
                await witness.wait_for_event(producer.emitted - 1)
    lanes = [
        judge(witness.arrivals(), faults, producer.emitted)
        for witness, producer in zip(witnesses, producers, strict=True)
    ]
    with capsys.disabled():
        print(story(lanes, faults, producers))
    takeovers = sorted(seconds for lane in lanes for seconds in lane.takeovers.values())
    if takeovers:
        assert takeovers[math.ceil(0.99 * len(takeovers)) - 1] < 5.0, f"takeovers took {takeovers[-10:]}"


async def test_a_rolling_restart_refuses_no_event_for_a_second(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    with trio.fail_after(DEADLINE):
        async with (
            open_witnesses(LANES, lambda _: 0.0, chance) as witnesses,
            open_fleet(postgres, schema, tmp_path, chance) as fleet,
        ):
            producers = await prepare(fleet, witnesses)
            for producer in producers:
                producer.timeout = 20.0  # to be slow, on a busy machine, is not to refuse
            faults = []
            async with trio.open_nursery() as load:
                for producer in producers:
                    load.start_soon(producer.run)
                await trio.sleep(1)
                for node in fleet.nodes:
                    began = trio.current_time()
                    # As a load balancer does that is told first: no new requests go there.
                    node.is_up = False
                    assert await node.stop() == 0
                    faults.append(Fault("stop", node.name, began, trio.current_time()))
                    await node.start()
                    await fleet.until_shared()
                for producer in producers:
                    producer.enough.set()
            for witness, producer in zip(witnesses, producers, strict=True):
                await witness.wait_for_event(producer.emitted - 1)
    for witness, producer in zip(witnesses, producers, strict=True):
        lane = judge(witness.arrivals(), faults, producer.emitted)
        assert lane.repeats == []
    assert max(producer.longest for producer in producers) < 1.0


async def prepare(fleet: Fleet, witnesses: list[Witness]) -> list[Producer]:
    """Create an instance for each receiver, each by a call on any node."""
    for number, witness in enumerate(witnesses):
        await fleet.call("POST", "/instance/create", {"instanceName": f"lane{number}"})
        await fleet.call("POST", f"/webhook/set/lane{number}", {"url": witness.url})
    return [Producer(fleet, f"lane{number}", RATE / len(witnesses)) for number in range(len(witnesses))]


async def fault(fleet: Fleet, chance: random.Random) -> Fault:
    """Do something to a node, and wait until it is there again."""
    node = chance.choice(fleet.nodes)
    kind = chance.choice(["kill", "kill", "freeze", "stop"])
    began = trio.current_time()
    match kind:
        case "kill":
            await node.kill()
            # At times it is back before the others have noticed.
            await trio.sleep(chance.choice([0.0, 4.0]))
            await node.start()
        case "freeze":
            await freeze(node)
        case _:
            assert await node.stop() == 0
            await node.start()
    return Fault(kind, node.name, began, trio.current_time())


async def freeze(node: Node) -> None:
    """Stop a process where it is, and let it go on later; a load balancer notices both."""
    node.signal(signal.SIGSTOP)
    node.is_up = False
    try:
        await trio.sleep(FROZEN)
    finally:
        node.signal(signal.SIGCONT)
    await trio.sleep(1)
    node.is_up = True


def story(lanes: list[Lane], faults: list[Fault], producers: list[Producer]) -> str:
    """The figures, for people."""
    kinds = {kind: sum(fault.kind == kind for fault in faults) for kind in ("kill", "freeze", "stop")}
    takeovers = sorted(seconds for lane in lanes for seconds in lane.takeovers.values())
    repeats = sum(len(lane.repeats) for lane in lanes)
    return "\n".join(
        [
            f"\n{len(faults)} faults {kinds}, seed {SEED}: nothing lost, order kept",
            f"{sum(p.emitted for p in producers)} events, {sum(lane.arrivals for lane in lanes)} arrivals",
            f"{repeats} repeats, at most one of a lane by a fault",
            f"no emit refused for longer than {max(p.longest for p in producers):.1f} s",
            f"{len(takeovers)} takeovers, the longest {takeovers[-1] if takeovers else 0:.1f} s",
        ]
    )
