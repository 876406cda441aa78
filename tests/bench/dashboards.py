"""What the dashboard costs: open pages beside deliveries, and the list of many instances."""

import os
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import httpx
import trio

from tests.bench.load import EVENT
from tests.bench.over_http import port_of
from tests.bench.parts import gateway, receiving, register, scratch
from tests.bench.results import Result
from tests.support.gateway_process import KEY, Server, serving
from tests.support.session_cookie import session_cookie

PAGES = 20
INSTANCES = 10_000
OFFERED = 1_000
"""Events a second."""
BATCH = 50
LIVE = ("overview", "deliveries", "instance/bench0", "instances")
"""The parts that pages of a session keep open: four, the most of a session."""


def dashboards(full: bool) -> list[Result]:
    """Deliveries beside 20 open pages, in turn with none; and the list of 10,000 instances."""
    rounds, seconds = (5, 10.0) if full else (3, 4.0)
    found: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
    with scratch() as folder, receiving() as receiver, serving(folder, log={"level": "error"}) as server:
        for number in range(OFFERED // BATCH):
            server.set(f"bench{number}", receiver.url(number))
        _offer(server, 1.0)
        for _ in range(rounds):
            for is_open in (False, True):
                if is_open:
                    with _open_pages(server) as updates:
                        time.sleep(0.5)
                        measured = _measure(server, seconds)
                    assert updates[0] > PAGES, "the pages were not updated"
                else:
                    measured = _measure(server, seconds)
                found[is_open].append(measured)
    without, beside = (
        [median(column) for column in zip(*found[is_open], strict=True)] for is_open in (False, True)
    )
    return [
        Result(
            name=f"durable end to end over HTTP beside {PAGES} open pages",
            value=beside[0],
            unit="events/s",
            reference="the same without them, in turn",
            reference_value=without[0],
        ),
        Result(
            name=f"CPU at {OFFERED:,} events/s beside {PAGES} open pages",
            value=beside[1],
            unit="% of a core",
            reference="the same without them, in turn",
            reference_value=without[1],
            better="less",
            details={"delivered_per_s": beside[2], "delivered_per_s_without": without[2]},
        ),
        *_lists(),
    ]


def _measure(server: Server, seconds: float) -> tuple[float, float, float]:
    """Events a second end to end; at a steady rate, the CPU in percent, and what was delivered a second."""
    count = int(seconds * 4_000)
    began = time.monotonic()
    for number in range(count // BATCH):
        _emit(server, number)
    while _metric(server, "hookgw_backlog_bytes"):
        time.sleep(0.02)
    most = count / (time.monotonic() - began)
    cpu, delivered, began = _cpu(server), _metric(server, "hookgw_deliveries_total"), time.monotonic()
    _offer(server, seconds)
    elapsed = time.monotonic() - began
    spent = (_cpu(server) - cpu) / elapsed * 100
    return most, spent, (_metric(server, "hookgw_deliveries_total") - delivered) / elapsed


def _emit(server: Server, number: int) -> None:
    body = b"[" + b",".join([EVENT] * BATCH) + b"]"
    path = f"/event/emit/bench{number % (OFFERED // BATCH)}"
    answer = server.http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 202, answer.text


def _offer(server: Server, seconds: float) -> None:
    """Emit :data:`OFFERED` events a second, in batches, over all instances."""
    began, sent = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        if sent * BATCH > now * OFFERED:
            time.sleep(0.005)
        else:
            _emit(server, sent)
            sent += 1


def _metric(server: Server, name: str) -> float:
    text = server.http.get("/metrics").text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def _cpu(server: Server) -> float:
    """The seconds of CPU that the server took until now."""
    fields = Path(f"/proc/{server.process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _log_in(url: str) -> str:
    with httpx.Client(base_url=url, trust_env=False) as http:
        page = http.get("/dashboard/login").text
        [token] = re.findall(r'name="form_token" value="([0-9a-f]+)"', page)
        answer = http.post("/dashboard/login", data={"form_token": token, "key": KEY})
        assert answer.status_code == 303, answer.text
        return session_cookie(http)


@contextmanager
def _open_pages(server: Server) -> Iterator[list[int]]:
    """Keep the live parts of that many pages open; gives how many updates came."""
    sockets, updates, ended = [], [0], threading.Event()
    try:
        for _ in range(PAGES // len(LIVE)):
            cookie = _log_in(server.url)
            for part in LIVE:
                stream = socket.create_connection(("127.0.0.1", port_of(server)))
                sockets.append(stream)
                head = f"GET /dashboard/live/{part} HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: {cookie}\r\n\r\n"
                stream.sendall(head.encode())
        reader = threading.Thread(target=_read, args=(sockets, updates, ended))
        reader.start()
        yield updates
        ended.set()
        reader.join()
    finally:
        ended.set()
        for stream in sockets:
            stream.close()


def _read(sockets: list[socket.socket], updates: list[int], ended: threading.Event) -> None:
    while not ended.is_set():
        for stream in select.select(sockets, [], [], 0.2)[0]:
            data = stream.recv(1 << 20)
            assert data, "a stream ended"
            updates[0] += data.count(b"\nid: ") + data.startswith(b"id: ")


def _lists() -> list[Result]:
    with scratch() as folder:
        trio.run(_fill, folder)
        with serving(folder, log={"level": "error"}) as server:
            many = {page: _page(server, page) for page in ("/instances", "/instances?search=9&page=3", "/")}
    with scratch() as folder, serving(folder, log={"level": "error"}) as server:
        server.post("/instance/create", {"instanceName": "bench0"}, status=201)
        few = _page(server, "/instances")
    return [
        Result(
            name=f"the page that lists {INSTANCES:,} instances, median",
            value=many["/instances"],
            unit="ms",
            reference="the same with one instance",
            reference_value=few,
            better="less",
            details={"search_ms": many["/instances?search=9&page=3"], "overview_ms": many["/"]},
        )
    ]


async def _fill(folder: Path) -> None:
    async with gateway(folder) as opened:
        await register(opened, ["http://127.0.0.1:9/"] * INSTANCES)


def _page(server: Server, path: str) -> float:
    """The median of the time in which a page arrives, in milliseconds."""
    cookie = _log_in(server.url)
    with httpx.Client(base_url=server.url, headers={"cookie": cookie}, trust_env=False) as http:
        get = partial(http.get, f"/dashboard{path}")
        took = []
        for _ in range(15):
            began = time.perf_counter()
            assert get().status_code == 200
            took.append((time.perf_counter() - began) * 1e3)
    return median(took[2:])
