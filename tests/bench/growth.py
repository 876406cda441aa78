"""What an event costs over HTTP as destinations and payloads grow, against 64 destinations and 0.8 KiB."""

import time
from itertools import count
from statistics import median

from tests.bench.load import request_of
from tests.bench.over_http import port_of
from tests.bench.parts import raise_file_limit, receiving, scratch
from tests.bench.peers.account import account
from tests.bench.peers.cells import PAYLOAD, Receiver
from tests.bench.peers.processes import usage_of
from tests.bench.peers.publish import publish
from tests.bench.results import Result
from tests.support.gateway_process import Server, serving

PUBLISHERS = 125
DRAIN = 30.0
"""How long the receiver waits for the last event of a load, in seconds."""


def growth(full: bool) -> list[Result]:
    """Processor time of an event: from accept to settled, and memory of the process afterwards."""
    sizes = (1, 64, 1000, 4000) if full else (1, 64, 500)
    paddings = (0, 7_400, 64_700)
    rounds, events = (5, 12_000) if full else (3, 2_000)
    raise_file_limit(max(sizes) + 1000)
    with (
        scratch() as folder,
        receiving(module="tests.bench.peers.receiver") as started,
        serving(folder, log={"level": "error"}) as server,
    ):
        bench = _Bench(server, Receiver(started.port))
        # In turn, because machines are shared. All registrations are there from the first load on.
        bench.register(max(sizes))
        cells = [(size, 0) for size in sizes] + [(64, padding) for padding in paddings[1:]]
        took: dict[tuple[int, int], list[float]] = {cell: [] for cell in cells}
        for cell in cells:
            bench.load(*cell, max(1000, 3 * cell[0]))
        for _ in range(rounds):
            for cell in cells:
                took[cell].append(bench.load(*cell, events if cell[1] < 10_000 else events // 4))
        memory = bench.memory()
    usual = median(took[64, 0])
    return [
        Result(
            name=f"HTTP emit, {size:,} destinations, {(len(PAYLOAD) + padding) / 1024:.1f} KiB, CPU",
            value=median(took[size, padding]),
            unit="µs",
            reference="64 destinations, 0.8 KiB, in turn",
            reference_value=usual,
            better="less",
            details={"mib_after_all": memory},
        )
        for size, padding in cells
    ]


class _Bench:
    def __init__(self, server: Server, receiver: Receiver) -> None:
        self._server, self._receiver = server, receiver
        self._first = count(0, 1000)

    def register(self, wanted: int) -> None:
        for number in range(wanted):
            self._server.post(f"/webhook/set/peer{number}", {"url": self._receiver.url(number)}, status=201)

    def memory(self) -> float:
        return usage_of([self._server.process.popen.pid]).memory

    def load(self, destinations: int, padding: int, events: int) -> float:
        """Return the processor time of an event, in µs, once all have arrived."""
        data = PAYLOAD if not padding else PAYLOAD[:-1] + b',"pad":"' + b"x" * padding + b'"}'
        body = b'{"event":"MESSAGES_UPSERT","data":' + data + b"}"
        requests = [request_of(f"/event/emit/peer{number}", body) for number in range(destinations)]
        self._receiver.take()
        before = usage_of([self._server.process.popen.pid])
        published = publish(
            port_of(self._server),
            [requests[number % destinations :: PUBLISHERS] for number in range(PUBLISHERS)],
            first=next(self._first) % 100_000,
            seconds=120,
            most=events,
        )
        arrivals, end = self._receiver.take(), time.monotonic() + DRAIN
        while account(published, arrivals).lost and time.monotonic() < end:
            time.sleep(0.05)
            arrivals += self._receiver.take()
        lost = account(published, arrivals).lost
        assert not lost, f"{lost} events did not arrive"
        return (usage_of([self._server.process.popen.pid]).cpu - before.cpu) / len(published.accepted) * 1e6
