"""``hookgw connect``: a receiver without a public address, and kills of either side."""

import errno
import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from hookgw.connect.connect import Connection
from hookgw.connect.connect import run as connect_until_signal
from hookgw.testing import answer, open_receiver
from tests.cli.conftest import says
from tests.public.command import Client, ReaderGone, ServerUnavailable
from tests.support.gateway_process import KEY, ReceiverProcess, serving
from tests.support.ports import free_port
from tests.support.processes import PATIENCE, Process, run, started

pytestmark = pytest.mark.e2e


def arguments(instance: str, url: str, *more: str) -> list[str]:
    return ["-m", "hookgw", "connect", instance, "--to", url, *more]


def environment(server_url: str) -> dict[str, str]:
    return {"HOOKGW_URL": server_url, "HOOKGW_KEY": KEY}


def wait_for_error(process: Process, text: str) -> None:
    """Wait for a line on standard error. Its standard output stays silent meanwhile."""
    until = time.monotonic() + PATIENCE
    while not any(text in line for line in process.errors):
        assert time.monotonic() < until, process.errors
        time.sleep(0.02)


def test_it_posts_what_it_fetches_and_survives_kills_of_both_sides(
    tmp_path: Path, receiver: ReceiverProcess
) -> None:
    port = free_port()
    ids: list[str] = []
    arrived: list[str] = []
    bodies: dict[str, bytes] = {}

    def arrivals(count: int) -> None:
        while len(set(arrived)) < count:
            found = receiver.next("/n8n")
            name = found.headers["webhook-id"]
            arrived.append(name)
            assert bodies.setdefault(name, found.body) == found.body

    url, place = receiver.url("/n8n"), {"server": {"bind": [f"127.0.0.1:{port}"]}}
    env = environment(f"http://127.0.0.1:{port}")
    with serving(tmp_path, **place) as server:
        server.post("/instance/create", {"instanceName": "loja1"}, status=201)
        with started(arguments("loja1", url), cwd=tmp_path, env=env) as connection:
            wait_for_error(connection, "Made the webhook default of loja1")
            wait_for_error(connection, "loja1/default goes to")
            ids += [server.emit("loja1", "CALL", {"n": n}) for n in range(10)]
            arrivals(5)
            connection.stop(signal.SIGKILL)
        # It is off, and comes back.
        ids += [server.emit("loja1", "CALL", {"n": n}) for n in range(10)]
        connection_of = started(arguments("loja1", url, "--json"), cwd=tmp_path, env=env)
        with connection_of as connection:
            arrivals(20)
            line = json.loads(connection.line())
            assert (line["kind"], line["answered"], line["error"]) == ("CALL", 200, None)
            ids += [server.emit("loja1", "CALL", {"n": n}) for n in range(10)]
            arrivals(25)
            server.process.stop(signal.SIGKILL)
            with serving(tmp_path, **place) as again:
                ids += [again.emit("loja1", "CALL", {"n": n}) for n in range(5)]
                arrivals(35)
                connection.line_with(ids[-1])
                assert connection.stop() == 0
                assert again.get("/lane/list")[0]["backlog"] == 0
                assert again.process.stop() == 0
    # A kill repeats at most what was in progress, and nothing overtakes.
    assert list(dict.fromkeys(arrived)) == ids
    assert len(arrived) <= len(ids) + 2
    assert [one for one, before in zip(arrived[1:], arrived, strict=False) if one != before] == ids[1:]


def test_a_laptop_that_was_off_and_a_second_webhook_that_gets_the_day(
    tmp_path: Path, receiver: ReceiverProcess
) -> None:
    """The walk of a new user, with the commands of the manual: nothing is lost, and all is in order."""
    local, other = receiver.url("/n8n"), receiver.url("/crm")

    def hookgw(*words: str) -> str:
        done = run(["-m", "hookgw", *words], cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def arrived(path: str, count: int) -> list[str]:
        return [receiver.next(path).headers["webhook-id"] for _ in range(count)]

    with serving(tmp_path) as server:
        env = environment(server.url)
        server.post("/instance/create", {"instanceName": "loja1"}, status=201)
        day = [server.emit("loja1", "CALL", {"n": n}) for n in range(3)]  # nobody wants them yet
        with started(arguments("loja1", local), cwd=tmp_path, env=env) as connection:
            wait_for_error(connection, "Made the webhook default of loja1")
            seen = [server.emit("loja1", "CALL", {"n": n}) for n in range(3)]
            assert arrived("/n8n", 3) == seen
            assert connection.stop() == 0
        off = [server.emit("loja1", "CALL", {"n": n}) for n in range(5)]
        with started(arguments("loja1", local), cwd=tmp_path, env=env) as connection:
            assert arrived("/n8n", 5) == off
            hookgw("webhook", "set", "loja1", other, "--label", "crm")
            chosen = ("webhook", "backfill", "loja1", "--label", "crm", "--since", "1d")
            assert "11" in hookgw(*chosen, "--dry-run")
            hookgw(*chosen)
            newer = server.emit("loja1", "CALL")
            assert arrived("/crm", 12) == [*day, *seen, *off, newer]
            assert arrived("/n8n", 1) == [newer]
            assert connection.stop() == 0
        assert server.process.stop() == 0


def test_a_local_server_that_is_off_costs_no_attempt(tmp_path: Path) -> None:
    with serving(tmp_path, delivery={"schedule": ["100ms"]}) as server:
        server.set("loja1", "http://127.0.0.1:9/")
        env = environment(server.url)
        url = f"http://127.0.0.1:{free_port()}/hook"
        with started(arguments("loja1", url), cwd=tmp_path, env=env) as connection:
            wait_for_error(connection, "Made the webhook connect of loja1")
            event = server.emit("loja1", "CALL")
            # More often than the schedule has entries.
            for _ in range(3):
                assert "NOT DELIVERED" in connection.line_with(event)
            [found] = server.get("/delivery/list/loja1?label=connect")["deliveries"]
            assert (found["state"], found["attempts"]) == ("pending", 0)
            assert connection.stop() == 0
        assert server.process.stop() == 0


def test_it_stops_also_while_hookgw_is_away_and_cannot_hear_what_arrived(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as local, serving(tmp_path) as server:
        server.set("loja1", "pull:")
        url = f"http://127.0.0.1:{local.getsockname()[1]}/"
        with started(arguments("loja1", url), cwd=tmp_path, env=environment(server.url)) as connection:
            event = server.emit("loja1", "CALL")
            local.settimeout(PATIENCE)
            accepted, _ = local.accept()
            with accepted:
                accepted.recv(1)
                server.process.stop(signal.SIGKILL)
                accepted.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
                assert event in connection.line_with(" 204 ")
            wait_for_error(connection, "Cannot connect to hookgw")
            assert connection.stop() == 0


def test_a_refused_delivery_becomes_a_dead_letter_and_the_next_follows(
    tmp_path: Path, receiver: ReceiverProcess
) -> None:
    with serving(tmp_path, delivery={"schedule": ["100ms"]}) as server:
        server.post("/instance/create", {"instanceName": "loja1"}, status=201)
        env = environment(server.url)
        options = arguments("loja1", receiver.url("/status/500"), "--label", "mine")
        with started(options, cwd=tmp_path, env=env) as connection:
            wait_for_error(connection, "Made the webhook mine of loja1")
            first, second = server.emit("loja1", "CALL"), server.emit("loja1", "CALL")
            for event in (first, first, second, second):
                assert event in connection.line_with(" 500 ")
            assert connection.stop() == 0
        report = server.get(f"/delivery/find/loja1/{first}")
        assert report["state"] == "dead"
        assert report["attempts"][0]["error"] == ("The consumer reported a failure: The server answered 500.")
        assert server.process.stop() == 0


def test_a_fetch_that_waits_returns_empty_at_sigterm(tmp_path: Path) -> None:
    with serving(tmp_path) as server, ThreadPoolExecutor() as threads:
        server.set("loja1", "pull:")
        waiting = threads.submit(server.post, "/delivery/pull/loja1", {"wait": "60s"})
        with pytest.raises(TimeoutError):
            waiting.result(timeout=1)
        assert server.process.stop() == 0
        assert waiting.result(timeout=5) == {"deliveries": [], "cursor": None}


def test_it_says_what_is_wrong_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        env = environment(server.url)
        for options, problem in (
            (arguments("nobody", "http://127.0.0.1:9/"), "nobody"),
            (arguments("loja1", "ftp://x"), "not an http or https URL"),
            (
                arguments("loja1", "http://127.0.0.1:9/", "--label", "default"),
                "posted to http://127.0.0.1:8/x",
            ),
        ):
            server.set("loja1", "http://127.0.0.1:8/x")
            with started(options, cwd=tmp_path, env=env) as connection:
                assert connection.exit_code() != 0
                connection.rest()
                assert problem in "".join(connection.errors)
        assert server.process.stop() == 0


def test_it_says_that_the_webhook_is_paused_and_names_one_that_is_disabled(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        env = environment(server.url)
        server.post("/webhook/set/loja1/mine", {"url": "pull:"}, status=201)
        server.post("/webhook/pause/loja1/mine", {}, status=200)
        options = arguments("loja1", "http://127.0.0.1:9/")
        with started(options, cwd=tmp_path, env=env) as connection:
            wait_for_error(connection, "Resume it: hookgw webhook resume loja1 --label mine.")
            wait_for_error(connection, "loja1/mine goes to")
            assert connection.stop() == 0
        server.post("/webhook/set/loja1/mine", {"url": "pull:", "enabled": False}, status=201)
        with started(options, cwd=tmp_path, env=env) as connection:
            assert connection.exit_code() != 0
            connection.rest()
            assert "Enable it: hookgw webhook enable loja1 --label mine." in "".join(connection.errors)
        assert server.process.stop() == 0


async def test_what_arrived_is_not_posted_again_when_its_acknowledgement_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a restart, hookgw knows of no lease, and a proxy may answer while it starts."""

    def end_with_the_second(_: Connection, delivery: dict[str, Any], *_rest: object) -> None:
        if delivery["id"] == "dlv_2":
            raise ReaderGone(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(Connection, "show", end_with_the_second)
    monkeypatch.setattr("hookgw.connect.connect.FIRST_WAIT", 0.0)
    first, second = (
        {"id": f"dlv_{n}", "headers": {}, "body": f"{n}", "cursor": f"c{n}.{n}.00000000.000000000000"}
        for n in (1, 2)
    )
    done = says({"acknowledged": 1, "failed": 0})
    async with open_receiver() as local, open_receiver(default=done) as hookgw:
        hookgw.will(
            *(says({"deliveries": [first]}), says({}, 409)),
            *(says({}, 429), answer(404, b"404 page not found"), says({}, 401), says({}, 409)),
            says({"deliveries": [first, second]}),
        )
        with Client(hookgw.url, KEY) as client, pytest.RaisesGroup(ReaderGone, flatten_subgroups=True):
            await connect_until_signal(Connection(client, "loja1", "default", "me", as_json=True), local.url)
    assert [request.body for request in local.requests] == [b"1", b"2"]
    assert [request.json["ids"] for request in hookgw.requests if "ack" in request.target] == [
        ["dlv_1"],
        ["dlv_1"],
        ["dlv_2"],
    ]
    # That would go back, if another process with this name has acknowledged more.
    assert not any("after" in request.json for request in hookgw.requests)


async def test_a_proxy_waits_longer_than_a_fetch_does() -> None:
    """Envoy answers 504 after 15 s, which looked like an outage whenever nothing happened for that long."""
    async with open_receiver(default=says({"deliveries": []})) as hookgw:
        with Client(hookgw.url, KEY) as client:
            assert await Connection(client, "loja1", "default", "me", as_json=True).fetch(1) == []
    assert hookgw.requests[0].json["wait"] == "10s"


async def test_waits_after_an_outage_begin_anew_once_a_fetch_has_found_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answers = iter(["away", "away", "nothing", "away"])
    times: list[float] = []

    class Scripted(Connection):
        async def fetch(self, _most: int) -> list[dict[str, Any]]:
            times.append(trio.current_time())
            match next(answers, "the end"):
                case "away":
                    raise ServerUnavailable("away")
                case "the end":
                    raise ReaderGone(errno.EPIPE, "The end")
            return []

    with Client("http://127.0.0.1:1", KEY) as client, pytest.RaisesGroup(ReaderGone, flatten_subgroups=True):
        await connect_until_signal(Scripted(client, "loja1", "default", "me", as_json=True), "http://x")
    assert [later - earlier for earlier, later in pairwise(times)] == [1, 2, 0, 1]


async def test_an_acknowledgement_outlives_a_limit_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgw.connect.connect.FIRST_WAIT", 0.0)
    async with open_receiver(default=says({"acknowledged": 1, "failed": 0})) as hookgw:
        hookgw.will(says({}, 429), says({}, 503))
        with Client(hookgw.url, KEY) as client:
            connection = Connection(client, "loja1", "default", "me", as_json=True)
            await connection.acknowledge(ids=["dlv_1"])
    assert len(hookgw.requests) == 3


async def test_what_arrived_is_acknowledged_before_the_end_if_nobody_reads_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody_reads(*_: object) -> None:
        raise ReaderGone(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(Connection, "show", nobody_reads)
    delivery = {"id": "dlv_1", "headers": {}, "body": "{}", "cursor": "c1.1.00000000.000000000000"}
    async with open_receiver() as local, open_receiver(default=says({"deliveries": [delivery]})) as hookgw:
        with Client(hookgw.url, KEY) as client, pytest.RaisesGroup(ReaderGone, flatten_subgroups=True):
            await connect_until_signal(Connection(client, "loja1", "default", "me", as_json=True), local.url)
    assert len(local.requests) == 1
    assert [request.target for request in hookgw.requests] == [
        "/delivery/pull/loja1/default",
        "/delivery/ack/loja1/default",
    ]
