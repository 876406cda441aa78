"""hookgw.asgi:app under hypercorn, over HTTP/2 with TLS: a process of its own, and a client of its own."""

import json
import os
import re
import signal
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded
from h2.exceptions import InvalidBodyLengthError

import hookgw
from tests.support.gateway_process import (
    KEY,
    Arrival,
    ReceiverProcess,
    Server,
    receiving,
    serving,
    write_config,
)
from tests.support.processes import PATIENCE, Process, started

pytestmark = [pytest.mark.e2e, pytest.mark.process]

PIECE = b"0123456789abcdef" * 4096
PLUGIN = """\
from quart import Response
import hookgw

PIECE = b"0123456789abcdef" * 4096

@hookgw.hookimpl
def hookgw_routes(app, gateway):
    @app.route("/shared/download")
    async def download():
        async def pieces():
            for _ in range(48):
                yield PIECE
        return Response(pieces(), content_type="application/octet-stream")

    @app.route("/shared/breaks-off")
    async def breaks_off():
        async def pieces():
            yield b"part"
            raise OSError("the source is gone")
        return Response(pieces(), headers={"content-length": "1000"}, content_type="text/plain")
"""


def wait_for_line(process: Process, text: str) -> str:
    """Return the first line of standard error that has a text."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for line in tuple(process.errors):
            if text in line:
                return line
        assert process.popen.poll() is None, "".join(process.errors)
        time.sleep(0.02)
    raise AssertionError(f"no line with {text!r}:\n{''.join(process.errors)}")


@contextmanager
def hypercorn(folder: Path, *arguments: str, env: Mapping[str, str] = {}) -> Iterator[Process]:
    """Run hypercorn with hookgw.asgi:app on a free port, and all that it started to the end of the block."""
    options = ["-m", "hypercorn", "--worker-class", "trio", "--bind", "127.0.0.1:0", *arguments]
    with started([*options, "hookgw.asgi:app"], cwd=folder, env=env) as process:
        try:
            yield process
        finally:
            if process.popen.poll() is None:
                with suppress(AssertionError):  # a worker outlives a killed hypercorn
                    process.stop()


@contextmanager
def serving_http2(folder: Path, **blocks: Mapping[str, Any]) -> Iterator[Server]:
    """Run the application with TLS, and give a client that speaks HTTP/2."""
    config = write_config(folder, **blocks)
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    tls = ("--certfile", "certificate.pem", "--keyfile", "key.pem")
    with hypercorn(folder, *tls, env={"HOOKGW_CONFIG": str(config)}) as process:
        line = json.loads(wait_for_line(process, "Running on https://"))
        url = re.search(r"https://[0-9.:]+", line["event"])
        assert url is not None
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        with httpx.Client(
            base_url=url[0], headers={"apikey": KEY}, trust_env=False, verify=trust, http2=True, timeout=30
        ) as http:
            yield Server(url[0], process, http, folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("asgi")
    (folder / "plugins").mkdir()
    (folder / "plugins" / "streams.py").write_text(PLUGIN)
    blocks = {"server": {"trusted_proxies": ["127.0.0.0/8"], "cors_origins": ["https://crm.example"]}}
    with serving_http2(folder, **blocks) as server:
        yield server
        assert server.process.stop() == 0


# The gateway


def test_an_event_arrives_and_is_found(server: Server, receiver: ReceiverProcess) -> None:
    server.set("shop", receiver.url("/shop"))
    event_id = server.emit("shop", "CALL", {"n": 1})
    assert receiver.next("/shop").headers["webhook-id"] == event_id
    answer = server.http.get("/webhook/find/shop")
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
    assert answer.json()["url"] == receiver.url("/shop")
    assert answer.headers["x-hookgw-version"] == hookgw.__version__
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert server.get("/webhook/find/nobody", status=404)["status"] == 404


def test_http_1_is_served_too(server: Server, receiver: ReceiverProcess) -> None:
    server.set("old", receiver.url("/old"))
    with httpx.Client(base_url=server.url, headers={"apikey": KEY}, verify=False) as http:
        answer = http.post("/event/emit/old", json={"event": "CALL", "data": {}})
        assert (answer.http_version, answer.status_code) == ("HTTP/1.1", 202)
        # Of a refused body, the client gets the response, and the connection stays.
        assert http.post("/event/emit/old", content=b" " * 3_000_000).status_code == 415
        assert http.get("/healthz").status_code == 200
    receiver.next("/old")


def test_keys_are_checked(server: Server) -> None:
    server.post("/instance/create", {"instanceName": "mine"}, status=201)
    key = server.post("/key/create/mine", {"name": "app"}, status=201)["key"]
    with httpx.Client(base_url=server.url, verify=False, http2=True) as http:
        for headers, path, status in (
            ({}, "/webhook/list", 401),
            ({"apikey": "wrong"}, "/webhook/list", 401),
            ({"apikey": key}, "/metrics", 403),
            ({"apikey": key}, "/webhook/find/mine", 200),
            ({"apikey": key}, "/webhook/find/other", 403),
            ({"authorization": f"Bearer {KEY}"}, "/webhook/list", 200),
        ):
            assert http.get(path, headers=headers).status_code == status, path


@pytest.mark.parametrize("has_length", [True, False])
def test_a_body_over_the_limit_is_refused(server: Server, has_length: bool) -> None:
    server.set("large", "https://app.example/")
    pieces = (b" " * 65_536 for _ in range(40))
    content: Any = b" " * 65_536 * 40 if has_length else pieces
    headers = {"content-type": "application/json"}
    answer = server.http.post("/event/emit/large", content=content, headers=headers)
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 413)
    assert server.http.get("/healthz").status_code == 200


@pytest.mark.parametrize("key", [KEY, "wrong"])
def test_a_part_of_a_body_after_its_refusal_harms_nobody(server: Server, key: str) -> None:
    """It ends hypercorn's process if the response has ended before."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    parts = urlsplit(server.url)
    with (
        socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        peer = H2Connection(H2Configuration(client_side=True))
        peer.initiate_connection()
        head = [
            (":method", "POST"), (":scheme", "https"), (":authority", "x"), (":path", "/event/emit/late"),
            ("apikey", key), ("content-type", "text/plain"),
        ]  # fmt: skip
        peer.send_headers(1, head)
        peer.send_data(1, b"first")
        client.sendall(peer.data_to_send())
        status, is_sent, is_ended = "", False, False
        while not is_ended:
            for event in peer.receive_data(client.recv(65_536)):
                if isinstance(event, ResponseReceived):
                    status = dict(event.headers)[b":status"].decode()
                if isinstance(event, DataReceived) and not is_sent:
                    is_sent = True
                    peer.send_data(1, b"second")
                    peer.send_data(1, b"third", end_stream=True)
                is_ended = is_ended or isinstance(event, StreamEnded)
            client.sendall(peer.data_to_send())
    assert status in ("401", "404")
    assert server.http.get("/healthz").status_code == 200


def test_a_streamed_upload_without_a_length(server: Server, receiver: ReceiverProcess) -> None:
    server.set("batch", receiver.url("/batch"))
    lines = [json.dumps({"event": "CALL", "data": {"n": n, "pad": "x" * 2000}}).encode() for n in range(300)]
    headers = {"content-type": "application/x-ndjson"}
    answer = server.http.post(
        "/event/emit/batch", content=(b"%b\n" % line for line in lines), headers=headers
    )
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 202), answer.text
    assert answer.json()["accepted"] == 300
    assert [receiver.next("/batch").json["data"]["n"] for _ in range(300)] == list(range(300))


def test_an_optional_body_counts_without_a_length_too(server: Server) -> None:
    server.set("rotated", "https://app.example/")
    headers = {"content-type": "application/json"}
    wrong = server.http.post(
        "/webhook/rotateSecret/rotated", content=iter((b'{"grace": ', b'"never"}')), headers=headers
    )
    assert wrong.status_code == 400, wrong.text
    bare = server.http.build_request("POST", "/webhook/rotateSecret/rotated")
    del bare.headers["content-length"]
    assert server.http.send(bare).status_code == 200


def test_a_file_is_uploaded(server: Server, receiver: ReceiverProcess) -> None:
    options = {"rate": 0, "qr_code": False, "connect_delay": 0}
    server.post(
        "/instance/create", {"instanceName": "files", "integration": "simulator", **options}, status=201
    )
    server.get("/instance/connect/files")
    form = {"number": "5511988887777", "mediatype": "document"}
    sent = server.http.post("/message/sendMedia/files", data=form, files={"file": ("a.bin", PIECE * 40)})
    assert (sent.http_version, sent.status_code) == ("HTTP/2", 201), sent.text
    refused = server.http.post("/message/sendMedia/files", data=form, files={"file": ("a.bin", PIECE * 260)})
    assert refused.status_code == 413


def test_a_streamed_download(server: Server) -> None:
    digest = 0
    with server.http.stream("GET", "/shared/download") as answer:
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
        for piece in answer.iter_bytes():
            digest += len(piece)
    assert digest == 48 * len(PIECE)


def test_a_response_that_breaks_off_does_not_look_complete(server: Server) -> None:
    with pytest.raises(InvalidBodyLengthError):
        server.http.get("/shared/breaks-off")
    assert server.http.get("/healthz").status_code == 200


def test_the_dashboard_and_its_stream(server: Server) -> None:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=30, verify=False, http2=True) as browser:
        page = browser.get("/dashboard/login")
        token = re.search(r'name="form_token" value="([^"]+)"', page.text)
        assert token is not None
        entered = browser.post("/dashboard/login", data={"form_token": token[1], "key": KEY})
        cookies = [value for name, value in entered.headers.multi_items() if name == "set-cookie"]
        assert cookies
        assert all("Secure" in cookie for cookie in cookies), cookies
        assert browser.get("/dashboard/instances").status_code == 200
        with browser.stream("GET", "/dashboard/live/instances") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            text = ""
            for part in stream.iter_text():
                text += part
                if "id: " in text and "\n\n" in text:
                    break


def test_what_a_trusted_proxy_says_and_cross_origin(server: Server) -> None:
    wrong = {"apikey": "wrong", "x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "http"}
    statuses = [server.http.get("/webhook/list", headers=wrong).status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]
    assert server.http.get("/webhook/list").status_code == 200  # another address
    page = server.http.get("/dashboard/login", headers={"x-forwarded-proto": "http"})
    assert "Secure" not in page.headers["set-cookie"]
    asked = {"origin": "https://crm.example", "access-control-request-method": "POST"}
    allowed = server.http.options("/event/emit/shop", headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, asked["origin"])


def test_it_does_not_call_itself(server: Server) -> None:
    server.set("loop", f"{server.url}/event/emit/loop")
    event_id = server.emit("loop", "CALL")
    until = time.monotonic() + PATIENCE
    while not (attempts := server.get(f"/delivery/find/loop/{event_id}")["attempts"]):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "hookgw itself" in attempts[0]["error"]


def test_its_log_is_that_of_serve(server: Server) -> None:
    server.get("/healthz")
    lines = [json.loads(line) for line in tuple(server.process.errors)]
    started_lines = [line for line in lines if "Running on" in line["event"]]
    assert [line["logger"] for line in started_lines] == ["hypercorn.error"]


# The process


def test_base_path(tmp_path: Path) -> None:
    with serving_http2(tmp_path, server={"base_path": "/hooks"}) as server:
        assert server.http.get("/hooks/healthz").status_code == 200
        assert server.http.get("/healthz").status_code == 404
        assert server.http.get("/hooks/webhook/list").status_code == 200
        assert server.process.stop() == 0


def test_a_stop_loses_nothing(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver, serving_http2(tmp_path) as server:
        server.set("kept", receiver.url("/wait/0.5"))
        ids = [server.emit("kept", "CALL", {"n": n}) for n in range(5)]
        arrived = [receiver.next("/wait/0.5")]
        assert server.process.stop() == 0
        with serving(tmp_path) as again:
            while len({arrival.headers["webhook-id"] for arrival in arrived}) < 5:
                arrived.append(receiver.next("/wait/0.5"))
            # The attempt that was in progress has ended, and was not made again.
            assert [arrival.headers["webhook-id"] for arrival in arrived] == ids
            assert len(again.get(f"/delivery/find/kept/{ids[0]}")["attempts"]) == 1
            assert again.process.stop() == 0


def test_a_stop_does_not_wait_for_open_streams(tmp_path: Path) -> None:
    with serving_http2(tmp_path) as server:
        with server.http.stream("POST", "/event/emit/x", content=iter(())):
            pass
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        parts = urlsplit(server.url)
        with (
            socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            client.sendall(b"POST /event/emit/x HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nx")
            assert b" 401 " in client.recv(65_536)
            assert server.process.stop() == 0


def refused(folder: Path, *arguments: str, env: Mapping[str, str] = {}) -> str:
    """Return what hypercorn says of a start that must fail."""
    with hypercorn(folder, *arguments, env=env) as process:
        process.exit_code()
        process.rest()
        return "".join(process.errors)


def test_a_stop_does_not_wait_for_threads_of_plugins(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "polls.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='worker').start()\n"
    )
    config = write_config(tmp_path)
    with hypercorn(tmp_path, env={"HOOKGW_CONFIG": str(config)}) as process:
        wait_for_line(process, "Running on")
        assert process.stop() == 0
        assert "worker" in wait_for_line(process, "threads of plugins did not end")


def test_a_mistake_in_the_configuration_stops_the_start(tmp_path: Path) -> None:
    write_config(tmp_path, delivery={"time_out": "5s"})
    errors = refused(tmp_path)
    assert re.search(
        r"Lifespan failure in startup. '.*delivery.time_out .*Did you mean delivery.timeout\?'", errors
    )
    assert not (tmp_path / "hookgw.db").exists()


def test_it_runs_on_trio_alone(tmp_path: Path) -> None:
    write_config(tmp_path)
    assert "start hypercorn with --worker-class trio" in refused(tmp_path, "--worker-class", "asyncio")


def test_a_second_worker_is_refused(tmp_path: Path) -> None:
    write_config(tmp_path)
    errors = refused(tmp_path, "--workers", "2")
    assert "is in use by another hookgw" in errors
    assert "Only one process can use it." in errors
    assert "give hypercorn one worker" in errors


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver, serving_http2(tmp_path) as server:
        server.set("killed", receiver.url("/wait/0.5"))
        ids = [server.emit("killed", "CALL", {"n": n}) for n in range(3)]
        pid = int((tmp_path / "hookgw.db.lock").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        server.process.exit_code()
        arrived: list[Arrival] = []
        with serving(tmp_path) as again:
            while {arrival.headers["webhook-id"] for arrival in arrived} != set(ids):
                arrived.append(receiver.next("/wait/0.5"))
            assert again.process.stop() == 0
