"""All nodes are restarted one after the other under load; clients that are refused try another node.

Nobody tells the clients which node will stop. Environment: ``HOOKGW_FLEET_FAULTS`` (without it nothing runs),
``HOOKGW_FLEET_RESTART_RATE`` (events a second, 500), ``HOOKGW_FLEET_RESTARTS`` (of single nodes, 15).
"""

import os
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
import trio

from hookgw.testing import answer
from tests.bench.parts import receiving
from tests.bench.peers.marks import make_mark
from tests.bench.results import percentile
from tests.crash.account import Arrival
from tests.crash.load import Producer
from tests.fleet.account import Fault, judge
from tests.fleet.nodes import Fleet, open_fleet, open_witnesses
from tests.support.gateway_process import KEY
from tests.support.postgres import PostgresServer

RATE = float(os.environ.get("HOOKGW_FLEET_RESTART_RATE", "500"))
INSTANCES = 20
PATIENCE = 20.0
"""Seconds that a try may take. To be slow, on a busy machine, is not to refuse."""
RETRY = 0.01
RESTARTS = int(os.environ.get("HOOKGW_FLEET_RESTARTS", "15"))
ANSWER_AFTER = 0.4
"""Seconds that the receivers of the many restarts take: each node has attempts in flight when it stops."""
LANES = 6
STOPPED_WITHIN = 2.0
DEADLINE = 240.0 + 15.0 * RESTARTS

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif("HOOKGW_FLEET_FAULTS" not in os.environ, reason="nox -s fleet runs it"),
    pytest.mark.timeout(DEADLINE + 30),
]


@dataclass
class Client:
    """Emits the numbered events of one instance at a steady rate, each until it is accepted.

    Attributes:
        emitted: how many events got their 202.
        refusals: how many tries got something else, or nothing.
        longest: the longest time, in seconds, from the first refusal of an event to its 202.
        took: the seconds from the first try of each event to its 202.
    """

    number: int
    ports: list[int]
    rate: float
    emitted: int = 0
    refusals: int = 0
    longest: float = 0.0
    took: list[float] = field(default_factory=list)
    enough: trio.Event = field(default_factory=trio.Event)
    _stream: trio.SocketStream | None = None

    async def run(self) -> None:
        """Emit until ``enough`` is set. What is late is made up for."""
        began = trio.current_time()
        try:
            while not self.enough.is_set():
                request = self._request()
                first = trio.current_time()
                refused: float | None = None
                while not await self._emit(request):
                    refused = refused or trio.current_time()
                    self.refusals += 1
                    self.ports.append(self.ports.pop(0))  # another node
                    await trio.sleep(RETRY)
                self.emitted += 1
                now = trio.current_time()
                self.took.append(now - first)
                if refused is not None:
                    self.longest = max(self.longest, now - refused)
                await trio.sleep_until(began + self.emitted / self.rate)
        finally:
            await self._close()

    def _request(self) -> bytes:
        mark = make_mark(self.number, self.emitted, time.monotonic_ns())
        body = b'{"event":"CALL","id":"lane%d-%d","data":{"mark":"%b"}}' % (self.number, self.emitted, mark)
        head = f"POST /event/emit/lane{self.number} HTTP/1.1\r\nhost: fleet\r\napikey: {KEY}\r\n"
        return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async def _emit(self, request: bytes) -> bool:
        """Return whether the event was accepted. After a failure, the next try has a new connection."""
        data = b""
        with trio.move_on_after(PATIENCE):
            try:
                if self._stream is None:
                    self._stream = await trio.open_tcp_stream("127.0.0.1", self.ports[0])
                await self._stream.send_all(request)
                while not _is_whole(data):
                    piece = await self._stream.receive_some()
                    if not piece:
                        break
                    data += piece
            except (OSError, trio.BrokenResourceError):
                data = b""
        if data.startswith(b"HTTP/1.1 202 ") and _is_whole(data):
            return True
        assert not data or data.startswith(b"HTTP/1.1 503 "), data
        await self._close()
        return False

    async def _close(self) -> None:
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)
            self._stream = None


def _is_whole(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return False
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    assert length is not None, head
    return len(body) >= int(length[1])


async def test_no_emit_is_refused_for_a_second(
    postgres: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)
    faults: list[Fault] = []
    with trio.fail_after(DEADLINE), receiving(module="tests.bench.peers.receiver") as receiver:
        async with open_fleet(postgres, schema, tmp_path, chance) as fleet:
            for number in range(INSTANCES):
                await fleet.call("POST", f"/webhook/set/lane{number}", {"url": receiver.url(number)})
            await trio.sleep(1)  # then all nodes know all instances
            clients = [Client(number, _ports(fleet, number), RATE / INSTANCES) for number in range(INSTANCES)]
            began = trio.current_time()
            async with trio.open_nursery() as load:
                for client in clients:
                    load.start_soon(client.run)
                await trio.sleep(2)
                for node in fleet.nodes:
                    stopped = time.monotonic()
                    assert await node.stop() == 0
                    faults.append(Fault("stop", node.name, stopped, time.monotonic()))
                    await node.start()
                    await fleet.until_shared()
                    await trio.sleep(1)
                for client in clients:
                    client.enough.set()
            seconds = trio.current_time() - began
            arrivals = await _arrivals(fleet, receiver.url("arrivals"), sum(c.emitted for c in clients))
    for client in clients:
        # Nothing was killed, so nothing comes again.
        lane = judge(arrivals[client.number], faults, client.emitted)
        assert lane.problems() == []
        assert lane.repeats == []
    with capsys.disabled():
        print(_story(clients, faults, seconds))
    assert max(client.longest for client in clients) < 1.0


async def test_no_stop_takes_longer_than_the_attempts_in_flight(
    postgres: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node hands its shards over as attempts end, and again while it still takes some: any may be slow."""
    chance = random.Random(3)
    took: list[float] = []
    async with (
        open_witnesses(LANES, lambda _: 0.0, chance) as witnesses,
        open_fleet(postgres, schema, tmp_path, chance) as fleet,
    ):
        producers = []
        for number, witness in enumerate(witnesses):
            witness.behave = lambda: answer(wait=ANSWER_AFTER)
            await fleet.call("POST", f"/webhook/set/lane{number}", {"url": witness.url})
            producers.append(Producer(fleet.any_url, f"lane{number}", rate=0.5 / ANSWER_AFTER))
        async with trio.open_nursery() as load:
            for producer in producers:
                load.start_soon(producer.run)
            await trio.sleep(1)
            for node in islice(cycle(fleet.nodes), RESTARTS):
                began = time.monotonic()
                assert await node.stop() == 0
                took.append(time.monotonic() - began)
                await node.start()
                await fleet.until_shared()
                await trio.sleep(chance.random())
            for producer in producers:
                producer.enough.set()
        for witness, producer in zip(witnesses, producers, strict=True):
            with trio.fail_after(120):
                await witness.wait_for_event(producer.emitted - 1)
    emitted = sum(producer.emitted for producer in producers)
    with capsys.disabled():
        p50, p99 = (percentile(took, share) for share in (0.5, 0.99))
        print(
            f"\n{len(took)} restarts, {emitted} events; a stop took {p50:.2f} s, 99 % {p99:.2f} s,", end=" "
        )
        print(f"the longest {max(took):.2f} s")
    for witness, producer in zip(witnesses, producers, strict=True):
        lane = judge(witness.arrivals(), [], producer.emitted)
        assert lane.problems() == []
    assert max(took) < STOPPED_WITHIN


def _ports(fleet: Fleet, number: int) -> list[int]:
    """Return the ports of all nodes, beginning with another one for each client."""
    ports = [urlsplit(node.url).port or 0 for node in fleet.nodes]
    return ports[number % len(ports) :] + ports[: number % len(ports)]


async def _arrivals(fleet: Fleet, url: str, wanted: int) -> dict[int, list[Arrival]]:
    """Wait until so many events have arrived; return all arrivals by client, in their order."""
    found: dict[int, list[Arrival]] = defaultdict(list)
    different: set[tuple[int, int]] = set()
    while len(different) < wanted:
        answered = await fleet.http.get(url)
        for client, number, _, at in msgspec.json.decode(answered.content):
            found[client].append(Arrival(number, at / 1e9, delivered=True))
            different.add((client, number))
        await trio.sleep(0.05)
    return found


def _story(clients: list[Client], faults: list[Fault], seconds: float) -> str:
    events = sum(client.emitted for client in clients)
    took = [one for client in clients for one in client.took]
    stops = ", ".join(f"{fault.ended - fault.began:.1f} s" for fault in faults)
    refusals, longest = sum(one.refusals for one in clients), max(one.longest for one in clients)
    p50, p99 = (percentile(took, share) * 1e3 for share in (0.5, 0.99))
    return "\n".join(
        [
            f"\n{len(faults)} nodes restarted under {events / seconds:.0f} events/s ({events} in all)",
            "nothing lost, overtaken or repeated",
            f"{refusals} tries refused, no event for longer than {longest:.2f} s",
            f"emit to 202: median {p50:.0f} ms, 99 % {p99:.0f} ms, longest {max(took):.2f} s",
            f"the nodes stopped in {stops}",
        ]
    )
