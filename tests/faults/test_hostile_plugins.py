"""Plugins that do everything wrong, in a real process: it survives, and names them."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

KEY = "test-key-of-the-faults"

# Each event says in its data what the plugin does with it.
PLUGIN = """
import asyncio
import time

import hookgw
import msgspec
import trio


class Own(BaseException):
    pass


async def stray_cancelled():
    kept = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            kept.append(cancelled)
    return kept[0]


RAISED = {
    "Own": Own,
    "exit": lambda: SystemExit(0),
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
    "asyncio": asyncio.CancelledError,
    "group": lambda: BaseExceptionGroup("two", [KeyboardInterrupt(), Own()]),
    "surrogate": lambda: ValueError("\\ud800"),
}
CHANGES = {
    "text": {"data_json": "{}"},
    "none": {"data_json": None},
    "broken": {"data_json": b'{"a":'},
    "sender": {"sender": object()},
    "nan": {"time": float("nan")},
    "huge": {"time": 1e300},
    "no time": {"time": None},
}


def wanted(event, hook):
    data = event.data if isinstance(event.data, dict) else {}
    return data.get("raise") if data.get("hook") == hook else None


async def act(event, hook):
    what = wanted(event, hook)
    if what == "cancelled":
        raise await stray_cancelled()
    if what == "cancelled in a group":
        raise BaseExceptionGroup("both", [await stray_cancelled(), ValueError("boom")])
    if what is not None:
        raise RAISED[what]()


@hookgw.hookimpl
async def hookgw_event_accepted(event):
    await act(event, "accepted")


@hookgw.hookimpl
async def hookgw_filter(event):
    await act(event, "filter")


@hookgw.hookimpl
def hookgw_transform(event):
    change = wanted(event, "transform")
    if change is not None:
        return msgspec.structs.replace(event, **CHANGES[change])


@hookgw.hookimpl
def hookgw_prepare(request, event):
    match wanted(event, "prepare"):
        case "none":
            request.headers = None
        case "list":
            request.headers = [("a", "b")]
        case "str":
            request.headers = "a: b"
        case "deleted":
            del request.headers
        case "null":
            request.headers["x-mine"] = None


@hookgw.hookimpl
def hookgw_attempt(delivery, registration):
    delivery.seq = delivery.lane = delivery.event = None
    registration.headers["x-spoiled"] = None


@hookgw.hookimpl
def hookgw_encode(event):
    if wanted(event, "encode") == "block":
        time.sleep(0.6)


@hookgw.hookimpl
async def hookgw_run():
    raise await stray_cancelled()


class Connector:
    name = "hostile"

    async def run(self, session):
        raise SystemExit(0)

    async def send(self, session, message, *, key):
        raise SystemExit(0)


@hookgw.hookimpl
def hookgw_connectors():
    return [Connector()]


@hookgw.hookimpl
def hookgw_routes(app):
    @app.get("/public/stray")
    async def stray():
        raise await stray_cancelled()

    @app.get("/public/exit")
    async def leave():
        async def body():
            yield b"a"
            raise SystemExit(0)

        return body()
"""
CONFIG = """
server: {bind: ["127.0.0.1:0"]}
auth: {global_key: KEY}
storage: {path: hookgw.db}
delivery: {allow_networks: ["127.0.0.0/8"], schedule: [], jitter: 0}
plugins: {block_warning: 200ms}
log: {format: json, level: info}
""".replace("KEY", KEY)

RAISING = ["Own", "exit", "interrupt", "generator", "asyncio", "group", "surrogate", "cancelled"]
HOSTILE = [
    *(("accepted", what) for what in RAISING),
    *(("filter", what) for what in [*RAISING, "cancelled in a group"]),
    *(("transform", what) for what in ["text", "none", "broken", "sender", "nan", "huge", "no time"]),
    *(("prepare", what) for what in ["none", "list", "str", "deleted", "null"]),
]


class Receiver(BaseHTTPRequestHandler):
    bodies: list[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.bodies.append(json.loads(body))  # broken JSON would end the request without a response
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[tuple[str, list[Any]]]:
    bodies: list[Any] = []
    handler = type("Handler", (Receiver,), {"bodies": bodies})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.process
def test_a_process_survives_every_plugin(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir(mode=0o700)
    (tmp_path / "plugins" / "hostile.py").write_text(PLUGIN)
    (tmp_path / "config.yaml").write_text(CONFIG)
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "hookgw", "serve"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True
    )
    with process, receiving() as (url, bodies):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            client = httpx.Client(base_url=address, headers={"apikey": KEY}, trust_env=False, timeout=20)
            with client:
                client.post("/webhook/set/shop", json={"url": url, "events": ["CALL"]}).raise_for_status()
                for hook, what in HOSTILE:
                    body = {"event": "CALL", "data": {"hook": hook, "raise": what}}
                    assert client.post("/event/emit/shop", json=body).status_code == 202, (hook, what)
                # The events of others arrive, in order and unchanged.
                for number in range(3):
                    body = {"event": "CALL", "data": {"number": number}}
                    assert client.post("/event/emit/shop", json=body).status_code == 202
                until(lambda: len(bodies) >= len(RAISING) + 3)
                assert [body["data"] for body in bodies[-3:]] == [{"number": number} for number in range(3)]
                dead = client.get("/delivery/list/shop", params={"state": "dead"}).json()
                found = dead["deliveries"] if isinstance(dead, dict) else dead
                assert len(found) == len(HOSTILE) - len(RAISING)

                # A connector that leaves, routes that leave, and a hook that blocks.
                client.post("/instance/create", json={"instanceName": "net", "integration": "hostile"})
                client.get("/instance/connect/net")
                state = client.get("/instance/connectionState/net").json()["instance"]
                assert state["state"] == "close"
                assert "'hostile' failed in hookgw_connectors.run: SystemExit: 0" in state["reason"]
                assert client.get("/public/stray").status_code == 500
                with socket.create_connection(
                    (address.split(":")[1][2:], int(address.split(":")[2]))
                ) as sock:
                    sock.sendall(b"GET /public/exit HTTP/1.1\r\nhost: a\r\n\r\n")
                    while sock.recv(4096):
                        pass
                client.post(
                    "/event/emit/shop", json={"event": "CALL", "data": {"hook": "encode", "raise": "block"}}
                )
                until(lambda: 'hookgw_loop_blocked_total{plugin="hostile"}' in client.get("/metrics").text)
                metrics = client.get("/metrics").text
                for hook in ("hookgw_event_accepted", "hookgw_filter", "hookgw_run", "hookgw_routes"):
                    assert f'hookgw_plugin_failures_total{{hook="{hook}",plugin="hostile"}}' in metrics
                assert client.get("/readyz").status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
    log.seek(0)
    lines = [json.loads(line) for line in log if line.startswith("{")]
    log.close()
    blocked = [line for line in lines if line["event"].startswith("the event loop is blocked")]
    assert any((line["plugin"], line["hook"]) == ("hostile", "hookgw_encode") for line in blocked)
    assert any("hostile.py" in line["line"] for line in blocked)
