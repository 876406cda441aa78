"""The comparison with other gateways: its adapters, its arithmetic, its load and its compose file."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.bench.parts import receiving
from tests.bench.peers.__main__ import LOCAL, SYSTEMS
from tests.bench.peers.account import Account, Arrival, account
from tests.bench.peers.cells import PAYLOAD, Cell, Receiver
from tests.bench.peers.marks import MARK, PLACE, make_mark
from tests.bench.peers.publish import Published, publish
from tests.bench.peers.receiver import Recorder
from tests.bench.peers.table import KILLED, OFFERED, THROUGHPUT, table

FOLDER = Path(__file__).parent / "bench" / "peers"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PEERS = [name for name in SYSTEMS if name != "hookgw"]


def request(data: bytes) -> bytes:
    return b"POST /d/1 HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


def rows(recorder: Recorder) -> list[Arrival]:
    answer = recorder.answer_get(b"GET /arrivals HTTP/1.1\r\n\r\n")
    return [Arrival(*row) for row in json.loads(answer.partition(b"\r\n\r\n")[2])]


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_adapter_creates_a_destination_and_publishes_the_payload_as_it_is(name: str) -> None:
    calls: list[tuple[str, str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append((request.method, request.url.path, json.loads(request.content or b"{}")))
        return httpx.Response(201, json={"data": {"uid": "made", "project": {"uid": "project"}}})

    # WebhookX is told where events are published, in the place of a credential.
    system = SYSTEMS[name]("http://127.0.0.1:1", "http://127.0.0.1:2/" if name == "webhookx" else "key org")
    system.http.close()
    with httpx.Client(base_url=system.url, transport=httpx.MockTransport(answer)) as system.http:
        system.create_destination(7, "http://127.0.0.1:3/destination/7")
        assert system.healthy() is (name != "webhookx")  # nothing listens on its second URL
    assert any("http://127.0.0.1:3/destination/7" in json.dumps(body) for _, _, body in calls)

    head, _, body = system.publish_request(7, PAYLOAD).partition(b"\r\n\r\n")
    assert re.match(rb"POST /\S* HTTP/1.1\r\n", head)
    assert f"content-length: {len(body)}".encode() in head
    assert body.count(PLACE) == 1
    assert PAYLOAD in body
    assert json.loads(body)
    assert system.publish_port == (2 if name == "webhookx" else 1)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_the_receiver_reads_the_mark_wherever_it_is(chunked: bool) -> None:
    recorder = Recorder()
    body = b'{"event":{"mark":"' + make_mark(3, 14, 15) + b'"}}'
    first = request(body)
    if chunked:
        first = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
            len(body),
            body,
        )
    answers, rest = recorder.handle(first[:-3])
    assert (answers, rest) == (b"", first[:-3])
    answers, rest = recorder.handle(rest + first[-3:] + request(b"{}"))
    assert (answers.count(b"HTTP/1.1 200 OK"), rest) == (2, b"")
    assert [(row.publisher, row.number, row.sent) for row in rows(recorder)] == [(3, 14, 15)]
    assert rows(recorder) == []


def test_the_receiver_fails_as_often_as_it_is_told() -> None:
    recorder = Recorder()
    recorder.handle(b"GET /fail/20 HTTP/1.1\r\n\r\n")
    answers, _ = recorder.handle(request(make_mark(0, 0, 0)) * 1000)
    assert 150 < answers.count(b" 503 ") < 250
    assert len(rows(recorder)) == answers.count(b" 200 ")


def test_every_event_is_accounted_for() -> None:
    published = Published(accepted={(1, 0), (1, 1), (1, 2), (1, 3), (2, 0)}, unknown={(2, 1)}, began=0)
    published.refused[429] = 4
    order = [(1, 1), (1, 0), (1, 2), (1, 2), (2, 1), (9, 9), (2, 0)]
    arrivals = [Arrival(who, number, 0, (place + 1) * 10**9) for place, (who, number) in enumerate(order)]
    result = account(published, arrivals)
    assert (result.accepted, result.delivered, result.lost, result.repeated) == (5, 4, 1, 1)
    assert (result.inversions, result.unknown, result.refused, result.seconds) == (2, 1, 4, 7.0)
    assert (result.p50, result.p99) == (3.0, 7.0)


def test_order_is_that_of_a_destination() -> None:
    published = Published(accepted={(1, 0), (1, 1), (1, 2)}, each=2)
    arrivals = [Arrival(1, number, 0, 1) for number in (1, 0, 2)]
    assert account(published, arrivals).inversions == 0
    published.each = 1
    assert account(published, arrivals).inversions == 1


@pytest.mark.parametrize("rate", [None, 5000.0], ids=["as fast as possible", "offered"])
def test_publishers_publish_in_turn(rate: float | None) -> None:
    requests = [[request(PAYLOAD)] * 2, [request(PAYLOAD)] * 2]
    with receiving(module="tests.bench.peers.receiver") as started:
        receiver = Receiver(started.port)
        published = publish(started.port, requests, first=5, seconds=10, rate=rate, most=40)
        arrivals = receiver.take()
        result = account(published, arrivals)
    assert (result.accepted, result.delivered, result.inversions, result.repeated) == (40, 40, 0, 0)
    assert {publisher for publisher, _ in published.accepted} == {5, 6}
    assert len(published.took) == 40


def test_events_without_an_answer_are_unknown_and_refused_ones_are_counted() -> None:
    with receiving(module="tests.bench.peers.receiver") as started:
        receiver = Receiver(started.port)
        receiver.fail(100)
        published = publish(started.port, [[request(PAYLOAD)]], first=0, seconds=10, most=3)
        assert (published.accepted, published.refused[503]) == (set(), 3)
        broken = b"POST / HTTP/1.1\r\ncontent-length: none\r\n\r\n" + PAYLOAD
        published = publish(started.port, [[broken]], first=0, seconds=0.0, most=1)
    assert published.accepted == set()


def test_the_table_has_a_ratio_for_each_peer() -> None:
    def cell(rate: int) -> Cell:
        figures = Account(
            accepted=rate,
            delivered=rate,
            lost=0,
            repeated=1,
            inversions=rate // 100,
            unknown=0,
            refused=0,
            seconds=1.0,
            p50=0.0023,
            p99=1.5,
        )
        return Cell(account=figures, cpu=rate / 1000, memory=(60.2, 0.0))

    names = [*THROUGHPUT, *OFFERED, *KILLED]
    own = {name: [cell(1000), cell(3000)] for name in names}
    peer = {name: [cell(500)] for name in names if name not in KILLED}
    lines = table({"hookgw 1": own, "Peer 2": peer}).splitlines()
    assert lines[0] == "| measure | hookgw 1 | Peer 2 |"
    assert "| 1 destination, 1 publisher: delivered events/s | 2,000 | 500 (4.00 ×) |" in lines
    assert "| latency at 200 events/s offered, p50 / p99 | 2.3 ms / 1.5 s | 2.3 ms / 1.5 s |" in lines
    [lost, _] = [line for line in lines if "delivered again" in line]
    assert lost.endswith("| 0 / 2 of 4,000 | – |")


@pytest.mark.parametrize("name", PEERS)
def test_the_compose_file_starts_each_peer_in_the_version_of_its_adapter(name: str) -> None:
    own = SERVICES[name]
    assert own["profiles"] == [name]
    assert own["image"].rpartition(":")[2].removeprefix("v") == SYSTEMS[name].version
    needed = set(own.get("depends_on", ()))
    for step in list(needed):
        needed |= set(SERVICES[step].get("depends_on", ()))
    # What a profile needs is in the profile.
    assert needed >= {"postgresql", "redis"}
    assert all(name in SERVICES[service]["profiles"] for service in needed)


@pytest.mark.parametrize("name", SERVICES)
def test_the_compose_file_is_well_formed(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= {
        *("image", "profiles", "network_mode", "security_opt", "environment", "command", "depends_on"),
        *("healthcheck", "volumes", "configs"),
    }
    assert set(service["profiles"]) <= set(PEERS)
    assert re.search(r":v?\d+(\.\d+)+$", service["image"])
    assert all(isinstance(value, str) for value in service.get("environment", {}).values())
    assert {mount.partition(":")[0] for mount in service.get("volumes", ())} <= set(COMPOSE["volumes"])
    conditions = {"service_healthy", "service_completed_successfully"}
    for needed, how in service.get("depends_on", {}).items():
        assert how["condition"] in conditions
        assert "healthcheck" in SERVICES[needed] or how["condition"] != "service_healthy"


@pytest.mark.parametrize("name", [name for name in LOCAL if name != "hookgw"])
def test_the_compose_file_has_the_settings_of_the_adapter(name: str, tmp_path: Path) -> None:
    given = SERVICES[name]["environment"]
    used = LOCAL[name](tmp_path, tmp_path / "program")._env()  # type: ignore[attr-defined]
    assert set(given) == set(used)
    own = re.compile(r"PORT|URL|KEY|SECRET|LISTEN|HOST$")  # places and credentials
    assert {key: value for key, value in given.items() if not own.search(key)} == {
        key: value for key, value in used.items() if not own.search(key)
    }


def test_the_page_names_every_version() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    for name in LOCAL:
        if name != "hookgw":
            assert f"git checkout v{SYSTEMS[name].version}" in text
    assert all(f"`{name}=http" in text for name in SYSTEMS)
    assert MARK.fullmatch(PLACE)
