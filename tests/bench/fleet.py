"""One, two and three nodes on one PostgreSQL, and one process with a data file, in turn under the same load.

The nodes are processes, and so are the server, whose commits reach the disk, and the receiver. 64 producers,
spread over the nodes, emit events of 64 instances, each with one registration. A producer sends its next
request when it has the answer to the last one.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.bench.load import EVENT, drive_servers, request_of
from tests.bench.over_http import port_of
from tests.bench.parts import FastReceiver, receiving, scratch
from tests.bench.peers.processes import tree_of, usage_of
from tests.bench.results import Result, percentile
from tests.support.gateway_process import Server, serving
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, find_binaries, run_postgres

LANES = 64
ADDRESSES = 16
"""Of the receiver: an address has a limited number of connections."""
BATCHES = {"one event per request": 1, "batches of 8": 8}
SYSTEMS = ("SQLite", "1 node", "2 nodes", "3 nodes")
FIGURES = {
    "rate": "events/s, emitted and delivered",
    "p50": "emit to 202, median, ms",
    "p99": "emit to 202, 99 %, ms",
    "nodes": "processor time of hookgw, s per 1,000 events",
    "database": "processor time of PostgreSQL, s per 1,000 events",
    "transactions": "transactions per event",
    "wal": "write-ahead log, bytes per event",
}
PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- the table of nodes begins -->\n", "<!-- the table of nodes ends -->\n"
_HAS_TO_ARRIVE_IN = 60.0


def fleet(full: bool) -> list[Result]:
    """Events a second, each system beside SQLite. Without PostgreSQL, nothing is measured."""
    if find_binaries() is None:
        return []
    rounds, seconds = (5, 5.0) if full else (2, 2.0)
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    with (
        scratch() as folder,
        run_postgres(fsync=True) as postgres,
        receiving(f"addresses={ADDRESSES}") as receiver,
        _Systems(folder, postgres, receiver) as systems,
    ):
        for turn in range(rounds + 1):
            # There and back, so that no system always has the longest history or the coldest cache.
            for system in SYSTEMS if turn % 2 else reversed(SYSTEMS):
                servers = systems.only(system)
                for name, batch in BATCHES.items():
                    figures = systems.measure(servers, batch, seconds if turn else 1.0)
                    if turn:  # the first one warms up
                        found[name, system].append(figures)
    middle = {
        place: {figure: median(one[figure] for one in each) for figure in FIGURES}
        for place, each in found.items()
    }
    return [
        Result(
            name=f"fleet, {name}: {system}",
            value=middle[name, system]["rate"],
            unit="events/s",
            reference="one process with a data file (SQLite), in turn",
            reference_value=middle[name, SYSTEMS[0]]["rate"],
            details=middle[name, system],
        )
        for name in BATCHES
        for system in SYSTEMS
    ]


@dataclass
class _Systems:
    """The processes: a gateway with a data file, and up to three nodes."""

    folder: Path
    postgres: PostgresServer
    receiver: FastReceiver
    _stack: ExitStack = field(default_factory=ExitStack)
    _alone: list[Server] = field(default_factory=list)
    _nodes: list[tuple[Server, ExitStack]] = field(default_factory=list)

    def __enter__(self) -> _Systems:
        folder = self.folder / "alone"
        folder.mkdir()
        self._alone = [self._stack.enter_context(serving(folder, log={"level": "error"}))]
        self._register(self._alone[0])
        self._start_node()
        self._register(self._nodes[0][0])
        return self

    def __exit__(self, *error: object) -> None:
        for _, node in self._nodes:
            node.close()
        self._stack.close()

    def only(self, system: str) -> Sequence[Server]:
        """Start and stop nodes until there are as many as the system has; return its processes."""
        if system == SYSTEMS[0]:
            return self._alone
        wanted = SYSTEMS.index(system)
        while len(self._nodes) < wanted:
            self._start_node()
        while len(self._nodes) > wanted:
            last, stack = self._nodes.pop()
            last.process.stop()
            stack.close()
        servers = [server for server, _ in self._nodes]
        while (held := [node["shards"] for node in servers[0].get("/node/list")]) and (
            len(held) != wanted or max(held) - min(held) > 1
        ):
            time.sleep(0.1)
        time.sleep(1.0)  # until every lane runs where it is now
        return servers

    def measure(self, servers: Sequence[Server], batch: int, seconds: float) -> dict[str, float]:
        """Emit for that long, and wait until all has arrived; return the figures."""
        body = EVENT if batch == 1 else b"[" + b",".join([EVENT] * batch) + b"]"
        requests = [
            (port_of(servers[number % len(servers)]), request_of(f"/event/emit/bench{number}", body))
            for number in range(LANES)
        ]
        pids = [server.process.popen.pid for server in servers]
        self.receiver.take()
        before, began = self._used(pids), time.perf_counter()
        load = drive_servers(requests, seconds=seconds).only(202)
        # Requests that were cut off at the end of the load may arrive, too.
        wanted, arrived, deadline = sum(load.answers) * batch, 0, began + seconds + _HAS_TO_ARRIVE_IN
        while arrived < wanted:
            assert time.perf_counter() < deadline, f"{arrived} of {wanted} have arrived"
            arrived += self.receiver.take()[0]
            time.sleep(0.01)
        elapsed = time.perf_counter() - began
        time.sleep(1.2)  # the server publishes its counts once a second
        used = [after - earlier for after, earlier in zip(self._used(pids), before, strict=True)]
        nodes, database, transactions, wal = used
        on_database = servers is not self._alone
        return {
            "rate": arrived / elapsed,
            "p50": percentile(load.took, 0.5) * 1e3,
            "p99": percentile(load.took, 0.99) * 1e3,
            "nodes": nodes / arrived * 1e3,
            "database": database / arrived * 1e3 * on_database,
            "transactions": transactions / arrived * on_database,
            "wal": wal / arrived * on_database,
        }

    def _start_node(self) -> None:
        name = "abc"[len(self._nodes)]
        port = free_port()
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        stack = ExitStack()
        node = stack.enter_context(
            serving(
                folder,
                log={"level": "error"},
                server={"bind": [f"127.0.0.1:{port}"]},
                storage={"engine": "postgresql", "url": self.postgres.url()},
                fleet={
                    "node": name,
                    "url": f"http://127.0.0.1:{port}",
                    "secret": "the-secret-of-the-bench-fleet",
                },
            )
        )
        self._nodes.append((node, stack))

    def _register(self, server: Server) -> None:
        for number in range(LANES):
            url = self.receiver.url(number, f"127.0.0.{1 + number % ADDRESSES}")
            server.post(f"/webhook/set/bench{number}", {"url": url}, status=201)

    def _used(self, pids: Sequence[int]) -> tuple[float, float, float, float]:
        """Return processor seconds of the gateways and of PostgreSQL, transactions, and bytes of WAL."""
        counts = """SELECT sum(xact_commit)::float, (pg_current_wal_lsn() - '0/0')::float
            FROM pg_stat_database"""
        ((transactions, wal),) = self.postgres.execute(counts)
        return usage_of(pids).cpu, usage_of(tree_of(self.postgres.pid)).cpu, transactions, wal


def table(results: Sequence[Result]) -> list[str]:
    """Return the lines of a Markdown table, and nothing without results of this measure."""
    ours = {result.name: result.details for result in results if result.name.startswith("fleet, ")}
    if not ours:
        return []
    lines = [f"| | {' | '.join(SYSTEMS)} |", "|---|" + "---|" * len(SYSTEMS)]
    for name in BATCHES:
        for figure, words in FIGURES.items():
            values = [ours[f"fleet, {name}: {system}"][figure] for system in SYSTEMS]
            lines.append(f"| {name}: {words} | {' | '.join(map(_cell, values))} |")
    return lines


def write(results: Sequence[Result], machine: dict[str, str | float]) -> None:
    """Put the table into docs/performance.md, with the day and the machine."""
    lines = table(results)
    if not lines:
        return
    day = datetime.now(UTC).date().isoformat()
    head = f"Measured on {day} on {machine['cores']:.0f} cores, under a load of {machine['load']:.1f} before"
    head += f" the run, with an `fsync` of {machine['fsync_ms']:.2f} ms:"
    text = PAGE.read_text(encoding="utf-8")
    new = BEGIN + "\n".join(["", head, "", *lines, "", ""]) + END
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: new, text, flags=re.DOTALL), encoding="utf-8")


def _cell(value: float) -> str:
    if value == 0:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
