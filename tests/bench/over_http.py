"""Measures of emitting over HTTP, with the server in a process of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from urllib.parse import urlsplit

from tests.bench.load import EVENT, Load, drive, request_of
from tests.bench.parts import DATA, ROOT, receiving, scratch
from tests.bench.results import Result, percentile
from tests.support.gateway_process import Server, serving

CONNECTIONS = 16


def emit_one(full: bool) -> list[Result]:
    """One event a request, against an empty route on hypercorn."""
    ours, silent, reference = _both(EVENT, 10.0 if full else 3.0)
    return [
        Result(
            name="HTTP emit, one event a request",
            value=ours.rate,
            unit="requests/s",
            reference="empty quart-trio route on hypercorn, same body",
            reference_value=reference.rate,
            details={
                "p50_ms": percentile(ours.took, 0.5) * 1e3,
                "p99_ms": percentile(ours.took, 0.99) * 1e3,
                "while_nobody_is_registered": silent.rate,
            },
        )
    ]


def emit_batches(full: bool) -> list[Result]:
    """A hundred events a request, against an empty route that reads the same body."""
    ours, silent, reference = _both(b"[" + b",".join([EVENT] * 100) + b"]", 10.0 if full else 3.0)
    return [
        Result(
            name="HTTP emit, batches of 100",
            value=ours.rate * 100,
            unit="events/s",
            reference="empty quart-trio route on hypercorn, same body",
            reference_value=reference.rate * 100,
            details={"while_nobody_is_registered": silent.rate * 100},
        )
    ]


_NETWORK = """
import hookgw
import msgspec
import trio


class Network:
    def __init__(self, name, emits):
        self.name, self._emits = name, emits

    async def run(self, session):
        await session.set_state(hookgw.ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session, message, *, key):
        raise hookgw.NotSupported("This connector only receives.")

    async def ingest(self, session, request):
        if self._emits:
            await session.emit("MESSAGES_UPSERT", msgspec.json.decode(request.body))
        return hookgw.IngestResponse()


@hookgw.hookimpl
def hookgw_connectors():
    return [Network("silent", False), Network("emitting", True)]
"""
_ROUNDS = 5


def ingest(full: bool) -> list[Result]:
    """A request of a network, and in turn an empty route: a connector that answers, and one that emits."""
    seconds = 2.0 if full else 0.6
    found: dict[str, list[Load]] = {"silent": [], "emitting": [], "empty": []}
    with scratch() as folder, receiving() as receiver, _empty_route() as port:
        (folder / "plugins").mkdir()
        (folder / "plugins" / "network.py").write_text(_NETWORK)
        with serving(folder, log={"level": "error"}, auth={"instance_key_rate": 0}) as server:
            places = {"empty": (port, request_of("/empty", DATA))}
            for name in ("silent", "emitting"):
                body = {"instanceName": name, "integration": name}
                path = server.post("/instance/create", body, status=201)["ingestUrl"]
                server.get(f"/instance/connect/{name}")
                places[name] = (port_of(server), request_of(path, DATA))
            server.post("/webhook/set/emitting", {"url": receiver.url("hook")}, status=201)
            for turn in range(_ROUNDS + 1):
                for name, (at, request) in places.items():
                    status = 202 if name == "empty" else 200
                    load = drive(at, request, connections=CONNECTIONS, seconds=seconds).only(status)
                    if turn:  # the first one warms up
                        found[name].append(load)
    rates = {name: percentile([load.rate for load in loads], 0.5) for name, loads in found.items()}
    took = [seconds for load in found["emitting"] for seconds in load.took]
    return [
        Result(
            name="HTTP ingest, a connector that only answers",
            value=rates["silent"],
            unit="requests/s",
            reference="empty quart-trio route on hypercorn, same body, in turn",
            reference_value=rates["empty"],
        ),
        Result(
            name="HTTP ingest, one event a request",
            value=rates["emitting"],
            unit="requests/s",
            reference="empty quart-trio route on hypercorn, same body, in turn",
            reference_value=rates["empty"],
            details={"p50_ms": percentile(took, 0.5) * 1e3, "p99_ms": percentile(took, 0.99) * 1e3},
        ),
    ]


def _both(body: bytes, seconds: float) -> tuple[Load, Load, Load]:
    """hookgw delivering to a receiver, hookgw with nobody registered, and the empty route."""
    with scratch() as folder, receiving() as receiver, serving(folder, log={"level": "error"}) as server:
        server.post("/instance/create", {"instanceName": "silent"}, status=201)
        silent = _load(port_of(server), request_of("/event/emit/silent", body), seconds)
        server.set("bench", receiver.url("hook"))
        ours = _load(port_of(server), request_of("/event/emit/bench", body), seconds)
    with _empty_route() as port:
        reference = _load(port, request_of("/empty", body), seconds)
    return ours, silent, reference


def _load(port: int, request: bytes, seconds: float) -> Load:
    drive(port, request, connections=CONNECTIONS, seconds=0.5)
    return drive(port, request, connections=CONNECTIONS, seconds=seconds).only(202)


def port_of(server: Server) -> int:
    port = urlsplit(server.url).port
    assert port is not None
    return port


@contextmanager
def _empty_route() -> Iterator[int]:
    command = [sys.executable, "-m", "tests.bench.empty_route"]
    with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield int(process.stdout.readline())
        process.stdin.close()
