"""Three nodes on one PostgreSQL under load, and faults at random.

Environment: ``HOOKGW_FLEET_FAULTS`` (without it nothing runs), ``HOOKGW_FLEET_EVENTS`` (so many at least),
``HOOKGW_FLEET_SEED`` (a random one; it is printed, and gives the same faults again).
"""

import math
import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.crash.load import Producer, Witness
from tests.fleet.account import Fault, Lane, judge
from tests.fleet.faults import any_fault
from tests.fleet.nodes import Fleet, open_fleet, open_witnesses
from tests.support.postgres import PostgresServer

FAULTS = int(os.environ.get("HOOKGW_FLEET_FAULTS", "0"))
EVENTS = int(os.environ.get("HOOKGW_FLEET_EVENTS", "0"))
SEED = int(os.environ.get("HOOKGW_FLEET_SEED", str(random.SystemRandom().randrange(10**6))))
LANES = 10
LONGEST_TAKEOVER = 5.0
"""Seconds, of 99 % of the takeovers."""
LEAST_RATE = 80.0
"""Events a second, of all instances together."""
# A fault takes 4 to 5 s, and so does what follows it.
RATE = max(LEAST_RATE, EVENTS / (4.0 * FAULTS) if FAULTS else 0.0)
DEADLINE = 120.0 + 20.0 * FAULTS + EVENTS / LEAST_RATE

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not FAULTS, reason="nox -s fleet runs it"),
    pytest.mark.timeout(2 * DEADLINE),
    # httpx leaves the body's generator behind when the connection breaks while it sends.
    pytest.mark.filterwarnings(
        r"ignore:.*async_generator object ByteStream:pytest.PytestUnraisableExceptionWarning"
    ),
]


async def test_nothing_is_lost_or_overtaken_whatever_happens(
    postgres: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\nHOOKGW_FLEET_SEED={SEED}", flush=True)
    chance = random.Random(SEED)
    faults: list[Fault] = []
    with trio.fail_after(DEADLINE):
        async with (
            open_witnesses(LANES, lambda n: 0.5 if n % 5 == 4 else 0.0, random.Random(SEED + 1)) as witnesses,
            open_fleet(postgres, schema, tmp_path, random.Random(SEED + 2)) as fleet,
        ):
            producers = await prepare(fleet, witnesses, RATE)
            for producer in producers:
                producer.at_least = math.ceil(EVENTS / LANES)
            async with trio.open_nursery() as load:
                for producer in producers:
                    load.start_soon(producer.run)
                await trio.sleep(2)
                for number in range(FAULTS):
                    began = trio.current_time()
                    waiting = sum(p.emitted for p in producers) - sum(w.delivered() for w in witnesses)
                    kind, node = await any_fault(fleet, postgres, chance)
                    ended = trio.current_time()
                    has_takeover = kind not in ("restart", "hide")
                    faults.append(Fault(kind, node.name, began, ended, has_takeover, max(0, waiting)))
                    # Mostly one after the other. At times the next one meets a fleet that is not whole.
                    if chance.random() < 0.8:
                        await fleet.until_shared()
                    await trio.sleep(chance.uniform(0.0, 1.0))
                    if number % 20 == 19:
                        with capsys.disabled():
                            emitted = sum(p.emitted for p in producers)
                            print(f"{number + 1} faults, {emitted} events", flush=True)
                for producer in producers:
                    producer.enough.set()
            for witness, producer in zip(witnesses, producers, strict=True):
                await witness.wait_for_event(producer.emitted - 1)
    lanes = [
        judge(witness.arrivals(), faults, producer.emitted, accepted=producer.accepted)
        for witness, producer in zip(witnesses, producers, strict=True)
    ]
    with capsys.disabled():
        print(table(lanes, faults, producers))
    problems = [problem for lane in lanes for problem in lane.problems()]
    assert not problems
    assert percentile(takeovers_of(lanes), 0.99) < LONGEST_TAKEOVER


async def prepare(fleet: Fleet, witnesses: Sequence[Witness], rate: float) -> list[Producer]:
    """Create an instance for each receiver, each by a call on any node."""
    for number, witness in enumerate(witnesses):
        await fleet.call("POST", "/instance/create", {"instanceName": f"lane{number}"})
        await fleet.call("POST", f"/webhook/set/lane{number}", {"url": witness.url})
    return [
        Producer(fleet.any_url, f"lane{number}", rate / len(witnesses)) for number in range(len(witnesses))
    ]


def takeovers_of(lanes: Sequence[Lane]) -> list[float]:
    return sorted(seconds for lane in lanes for seconds in lane.takeovers.values())


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[math.ceil(part * len(ordered)) - 1] if ordered else 0.0


def table(lanes: Sequence[Lane], faults: Sequence[Fault], producers: Sequence[Producer]) -> str:
    """The figures, for people."""
    found = takeovers_of(lanes)
    slowest = sorted(
        ((seconds, fault.kind) for lane in lanes for fault, seconds in lane.takeovers.items()), reverse=True
    )
    kinds = Counter(fault.kind for fault in faults)
    rows = [
        ("faults", f"{len(faults)}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds))),
        ("seed", SEED),
        ("events accepted", sum(p.emitted for p in producers)),
        ("requests at the receivers", sum(lane.arrivals for lane in lanes)),
        ("lost", sum(len(lane.lost) for lane in lanes)),
        ("inversions", sum(len(lane.inversions) for lane in lanes)),
        ("repeats for no reason", sum(len(lane.unexplained) for lane in lanes)),
        ("repeats by a fault", sum(len(lane.repeats or ()) for lane in lanes)),
        ("lanes with more than one by a fault", sum(lane.repeats is None for lane in lanes)),
        ("accepted and not delivered at faults", sum(fault.waiting for fault in faults)),
        ("takeovers", len(found)),
        *((f"takeover {name}", f"{percentile(found, part):.1f} s") for name, part in PERCENTILES),
        ("slowest takeovers", ", ".join(f"{seconds:.1f} s ({kind})" for seconds, kind in slowest[:4])),
        ("longest refusal of an event", f"{max(p.longest for p in producers):.1f} s"),
        ("slowest 503", f"{max(p.slowest for p in producers):.1f} s"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n" + "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


PERCENTILES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
