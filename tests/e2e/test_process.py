"""The process: start, refusal to start, drain, and clients that must not kill it."""

import json
import re
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

import hookgw
from tests.support.gateway_process import KEY, ReceiverProcess, Server, receiving, serving, write_config
from tests.support.ports import free_port
from tests.support.processes import run, started

pytestmark = pytest.mark.e2e


def test_it_prints_its_url_when_it_is_ready(tmp_path: Path) -> None:
    with started(["-m", "hookgw", "serve", "--config", write_config(tmp_path)], cwd=tmp_path) as process:
        line = process.line()
        match = re.fullmatch(r"hookgw (\S+) listening on (http://127\.0\.0\.1:\d+)", line)
        assert match is not None, line
        assert match[1] == hookgw.__version__
        assert httpx.get(match[2] + "/readyz", trust_env=False, timeout=30, verify=False).status_code == 200
        assert process.stop() == 0


def test_a_missing_global_key_is_generated_and_shown_once(tmp_path: Path) -> None:
    config = write_config(tmp_path, auth={"global_key": None})
    for start in range(2):
        with started(["-m", "hookgw", "serve", "--config", config], cwd=tmp_path) as process:
            first = process.line()
            if start == 0:
                key = first.rsplit(" ", 1)[1]
                assert first.startswith("Global key (shown once, store it now): ")
                first = process.line()
            url = first.rsplit(" ", 1)[1]
            answer = httpx.get(
                url + "/instance/fetchInstances",
                headers={"apikey": key},
                trust_env=False,
                verify=False,
                timeout=30,
            )
            assert answer.status_code == 200
            assert process.stop() == 0
    assert key.encode() not in (tmp_path / "hookgw.db").read_bytes()


def test_it_finishes_attempts_in_progress(tmp_path: Path, receiver: ReceiverProcess) -> None:
    with serving(tmp_path) as server:
        server.set("drain", receiver.url("/wait/0.5"))
        first, second = server.emit("drain", "CALL"), server.emit("drain", "CALL")
        assert receiver.next("/wait/0.5").headers["webhook-id"] == first
        assert server.process.stop() == 0
    with serving(tmp_path) as server:
        assert receiver.next("/wait/0.5").headers["webhook-id"] == second
        report = server.get(f"/delivery/find/drain/{first}")
        assert (report["state"], len(report["attempts"])) == ("delivered", 1)
        assert server.process.stop() == 0


def test_it_continues_after_a_restart(tmp_path: Path, receiver: ReceiverProcess) -> None:
    url = f"http://127.0.0.1:{free_port()}/continue"
    with serving(tmp_path) as server:
        secret = server.set("kept", url)
        event_id = server.emit("kept", "CALL", {"n": 1})
        assert server.process.stop() == 0
    with serving(tmp_path) as server:
        assert server.get("/webhook/find/kept")["url"] == url
        assert server.get("/webhook/secret/kept")["secret"] == secret
        server.set("kept", receiver.url("/continue"))
        assert receiver.next("/continue").headers["webhook-id"] == event_id


def refused(folder: Path, *, code: int = 1, **blocks: Any) -> str:
    """Return the error messages of a start that must fail with the exit code."""
    done = run(["-m", "hookgw", "serve", "--config", write_config(folder, **blocks)], cwd=folder)
    assert done.returncode == code, done.stderr
    assert not re.search(r"^Traceback", done.stderr, re.MULTILINE)
    assert "listening" not in done.stdout
    return done.stderr


def test_a_port_in_use_prevents_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        assert bind in refused(tmp_path, server={"bind": [bind]})


def test_a_data_file_in_use_prevents_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert str(tmp_path / "hookgw.db") in refused(tmp_path)
        assert server.get("/healthz") is not None


def test_a_corrupt_data_file_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / "hookgw.db").write_bytes(b"this is no database" * 1000)
    assert str(tmp_path / "hookgw.db") in refused(tmp_path)
    assert (tmp_path / "hookgw.db").read_bytes() == b"this is no database" * 1000


def test_a_data_file_of_a_newer_version_prevents_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.process.stop() == 0
    with sqlite3.connect(tmp_path / "hookgw.db") as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    assert "newer" in refused(tmp_path)


def test_a_typo_in_the_configuration_is_named_with_its_line(tmp_path: Path) -> None:
    error = refused(tmp_path, delivery={"time_out": "5s"})
    line = (tmp_path / "config.yaml").read_text().splitlines().index("  time_out: 5s") + 1
    assert "delivery.time_out" in error
    assert re.search(rf"(line |:){line}\b", error), error
    assert "Did you mean delivery.timeout?" in error


BROKEN = 'raise RuntimeError("this plugin is broken")\n'


def test_a_broken_plugin_prevents_the_start_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "broken.py").write_text(BROKEN)
    error = refused(tmp_path)
    assert "broken" in error
    assert "this plugin is broken" in error


def test_a_broken_plugin_may_be_optional(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "broken.py").write_text(BROKEN)
    (tmp_path / "plugins" / "working.py").write_text(WORKING)
    with serving(tmp_path, plugins={"optional": ["broken"]}) as server, receiving(tmp_path) as receiver:
        server.set("plugins", receiver.url("/plugins"))
        server.emit("plugins", "CALL", {"n": 1})
        assert receiver.next("/plugins").headers["x-plugin"] == "working"


WORKING = """\
import hookgw

@hookgw.hookimpl
def hookgw_prepare(request):
    request.headers["x-plugin"] = "working"
"""


def test_the_demo_ends_by_itself(tmp_path: Path) -> None:
    done = run(["-m", "hookgw", "demo", "--once"], cwd=tmp_path, patience=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["nothing"], ["serve", "--nothing"], ["emit"]])
def test_usage_errors_exit_with_2(tmp_path: Path, arguments: list[str]) -> None:
    assert run(["-m", "hookgw", *arguments], cwd=tmp_path).returncode == 2


def test_an_unreachable_server_exits_with_1(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = run(["-m", "hookgw", "lane", "list", "--server", url], cwd=tmp_path)
    assert done.returncode == 1
    assert url in done.stderr


# One client must not be able to harm the others.


def connect(server: Server) -> socket.socket:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=10)


def websocket_upgrade_and_a_byte(server: Server) -> None:
    with connect(server) as client:
        client.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nx"
        )
        client.recv(1000)


def http2_request(method: str, path: str) -> list[tuple[str, str]]:
    return [(":method", method), (":scheme", "http"), (":authority", "x"), (":path", path)]


def http2_headers_and_resets(server: Server) -> None:
    peer = H2Connection(H2Configuration(client_side=True))
    peer.initiate_connection()
    for stream in range(1, 400, 2):
        peer.send_headers(stream, http2_request("GET", "/healthz"), end_stream=True)
        peer.reset_stream(stream)
    with connect(server) as client:
        client.sendall(peer.data_to_send())
        client.recv(1000)


def half_a_head(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"POST /event/emit/alive HTTP/1.1\r\nHost: x\r\nApi")


def half_a_body(server: Server) -> None:
    with connect(server) as client:
        client.sendall(emit_request("alive", b'{"event": "CALL", "data": {"half": 1}}')[:-5])


def half_closed(server: Server) -> None:
    with connect(server) as client:
        client.sendall(emit_request("alive", b'{"event": "CALL", "data": {}}'))
        client.shutdown(socket.SHUT_WR)
        client.recv(1000)


def garbage(server: Server) -> None:
    with connect(server) as client:
        client.sendall(b"\x00\xff" * 500 + b"\r\n\r\n")
        client.recv(1000)


def emit_request(instance: str, body: bytes) -> bytes:
    head = f"POST /event/emit/{instance} HTTP/1.1\r\nHost: x\r\nApikey: {KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    "abuse",
    [
        websocket_upgrade_and_a_byte,
        http2_headers_and_resets,
        half_a_head,
        half_a_body,
        half_closed,
        garbage,
    ],
    ids=lambda abuse: abuse.__name__,
)
def test_no_client_can_kill_it(
    server: Server, receiver: ReceiverProcess, abuse: Callable[[Server], None]
) -> None:
    path = f"/alive/{abuse.__name__}"
    server.set("alive", receiver.url(path))
    for _ in range(5):
        abuse(server)
    assert server.process.popen.poll() is None
    event_id = server.emit("alive", "CALL", {"n": 1})
    while receiver.next(path).headers["webhook-id"] != event_id:
        pass


def test_a_client_that_leaves_takes_no_accepted_event_with_it(
    server: Server, receiver: ReceiverProcess
) -> None:
    """Each client closes after its request. The event is accepted or not, but never accepted and lost."""
    server.set("leaving", receiver.url("/leaving"))
    for number in range(30):
        with connect(server) as client:
            body = json.dumps({"event": "CALL", "id": f"left{number}", "data": {}}).encode()
            client.sendall(emit_request("leaving", body))
    last = server.emit("leaving", "CALL")
    page = server.get("/delivery/list/leaving?limit=100")
    accepted = {delivery["eventId"] for delivery in page["deliveries"]}
    assert last in accepted
    arrived: list[str] = []
    while not accepted <= set(arrived):
        arrived.append(receiver.next("/leaving").headers["webhook-id"])
    assert len(arrived) == len(set(arrived))


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"event": "CALL", "data": "\xff"}', "application/json", 400),
        (b"[" * 10_000 + b"]" * 10_000, "application/json", 400),
        (b'{"event": "CALL", "data": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "application/json", 400),
        (b"event=CALL", "application/x-www-form-urlencoded", 415),
        (b" " * 20_000_000, "application/json", 413),
    ],
)
def test_bad_bodies_get_an_error_response(
    server: Server, content: bytes, content_type: str, status: int
) -> None:
    server.post("/webhook/set/bodies", {"url": "https://app.example/"}, status=201)
    answer = server.http.post("/event/emit/bodies", content=content, headers={"content-type": content_type})
    assert answer.status_code == status
    error = answer.json()
    assert error["status"] == status
    assert error["response"]["message"]


def test_an_endless_body_without_a_length_is_refused(server: Server) -> None:
    pieces = (b" " * 65536 for _ in range(400))
    headers = {"content-type": "application/json"}
    try:
        answer = server.http.post("/event/emit/bodies", content=pieces, headers=headers)
    except httpx.WriteError:
        return
    assert answer.status_code == 413


def test_a_process_under_test_ends_with_those_that_it_has_started(tmp_path: Path) -> None:
    child = "import time; print('runs', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with started(["-c", parent], cwd=tmp_path) as process:
        assert process.line() == "runs"
    # The child has the pipes as well: the readers see their end only if it has ended.
    assert process.rest() == []
