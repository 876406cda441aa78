"""What a flooded lane costs the others: ``hookgw serve`` and its clients, each a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from subprocess import PIPE, Popen
from typing import NamedTuple

from tests.bench.flood import KINDS
from tests.bench.load import EVENT, connect, read_answer, request_of
from tests.bench.over_http import port_of
from tests.bench.parts import ROOT, FastReceiver, receiving, scratch
from tests.bench.results import Result, percentile
from tests.support.gateway_process import serving

PER_SECOND = 50
"""Events of the other lane, one at a time."""


class Latency(NamedTuple):
    """Of the emits of one lane, in milliseconds: until the 202, and until the arrival at the receiver."""

    accepted: list[float]
    arrived: list[float]


def beside_flood(full: bool) -> list[Result]:
    """Emits of one lane, alone and beside a lane that is flooded, in turn; the medians of the rounds' p99."""
    rounds, seconds = (5, 10.0) if full else (3, 4.0)
    alone: list[Latency] = []
    beside: dict[str, list[Latency]] = {kind: [] for kind in KINDS}
    floods: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        with (
            scratch() as folder,
            receiving() as sink,
            receiving("record") as receiver,
            serving(folder, log={"level": "error"}) as server,
        ):
            server.set("quiet", receiver.url("hook"))
            port = port_of(server)
            _emit(port, receiver, 0.5, "warm")
            alone.append(_emit(port, receiver, seconds, "alone"))
            for kind in KINDS:
                # A flooded lane of its own: what the last flood left pending must not be in this one's way.
                server.set(kind, sink.url("hook"))
                with _flood(port, kind, seconds + 1.0, floods[kind]):
                    beside[kind].append(_emit(port, receiver, seconds, kind))
    return [
        Result(
            name=f"emits of a lane beside a flood of {kind}, {what}, p99",
            value=median(percentile(found[which], 0.99) for found in beside[kind]),
            unit="ms",
            reference="the same without the flood",
            reference_value=median(percentile(found[which], 0.99) for found in alone),
            better="less",
            details={
                "p50_ms": median(percentile(found[which], 0.5) for found in beside[kind]),
                "p50_ms_alone": median(percentile(found[which], 0.5) for found in alone),
                "p95_ms": median(percentile(found[which], 0.95) for found in beside[kind]),
                "max_ms": max(max(found[which]) for found in beside[kind]),
                "events_of_the_flood_per_second": median(floods[kind]),
            },
        )
        for kind in KINDS
        for which, what in enumerate(("to the 202", "to the arrival"))
    ]


@contextmanager
def _flood(port: int, kind: str, seconds: float, rates: list[float]) -> Iterator[None]:
    """Flood the instance that has the name of the kind."""
    path = f"/event/emit/{kind}"
    command = [sys.executable, "-m", "tests.bench.flood", str(port), path, str(seconds), kind]
    with Popen(command, cwd=ROOT, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        yield
        rates.append(float(json.loads(process.stdout.readline())["events_per_second"]))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _emit(port: int, receiver: FastReceiver, seconds: float, tag: str) -> Latency:
    """Emit events one at a time."""
    called: dict[str, int] = {}
    accepted: list[float] = []
    began = time.monotonic()
    with connect(port) as client:
        while (now := time.monotonic()) < began + seconds:
            number = int((now - began) * PER_SECOND) + 1
            time.sleep(began + number / PER_SECOND - now)
            name = f"{tag}-{number}"
            body = b'{"id":"%b",%b' % (name.encode(), EVENT[1:])
            called[name] = time.monotonic_ns()
            client.sendall(request_of("/event/emit/quiet", body))
            status = read_answer(client)
            assert status == 202, status
            accepted.append((time.monotonic_ns() - called[name]) / 1e6)
    arrivals: dict[str, int] = {}
    while not called.keys() <= arrivals.keys():
        time.sleep(0.05)
        arrivals |= receiver.take()[1]
    return Latency(accepted, [(arrivals[name] - at) / 1e6 for name, at in called.items()])
