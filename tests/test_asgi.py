"""The ASGI application without a server, message by message; tests/e2e/test_asgi.py has hypercorn."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio

import hookgw.asgi
from hookgw.asgi import App
from tests.public.kernel import StartError
from tests.support.gateway_process import write_config

LIFESPAN = {"type": "lifespan", "asgi": {"version": "3.0"}}


@pytest.fixture(autouse=True)
def _quiet_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave this process as it is: its log, its limits and its standard output."""
    monkeypatch.setattr(hookgw.asgi, "prepare_process", lambda settings, config: None)
    monkeypatch.setattr(hookgw.asgi, "exempt_started_objects", lambda: None)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = write_config(tmp_path)
    monkeypatch.setenv("HOOKGW_CONFIG", str(file))
    return file


class Lifespan:
    """The server's side of a lifespan."""

    def __init__(self, app: App, nursery: trio.Nursery) -> None:
        self.sent: list[dict[str, Any]] = []
        self._says, self._messages = trio.open_memory_channel[dict[str, Any]](2)
        self._sent = trio.Event()
        nursery.start_soon(app, LIFESPAN, self._messages.receive, self._keep)

    async def _keep(self, message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)
        self._sent.set()

    async def answer(self, says: str | None) -> dict[str, Any]:
        """Return the next message, after one of the server's."""
        self._sent = trio.Event()
        if says is not None:
            await self._says.send({"type": f"lifespan.{says}"})
        with trio.fail_after(30):
            await self._sent.wait()
        return self.sent[-1]


class Client:
    """A request and its response."""

    def __init__(self, path: str, host: str = "127.0.0.1") -> None:
        self.scope = {
            "type": "http", "http_version": "2", "method": "GET", "scheme": "https", "path": path,
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [(b"host", b"x")],
            "client": ("127.0.0.1", 1), "server": (host, 8443), "state": {},
        }  # fmt: skip
        self.sent: list[dict[str, Any]] = []
        self._first = True

    async def receive(self) -> dict[str, Any]:
        if self._first:
            self._first = False
            await trio.lowlevel.checkpoint()
            return {"type": "http.request", "body": b"", "more_body": False}
        await trio.sleep_forever()
        raise AssertionError

    async def send(self, message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)


async def test_the_gateway_lives_as_long_as_the_lifespan(config: Path, nursery: trio.Nursery) -> None:
    app = App()
    lifespan = Lifespan(app, nursery)
    assert await lifespan.answer("startup") == {"type": "lifespan.startup.complete"}
    assert (config.parent / "hookgw.db").exists()
    client = Client("/healthz")
    await app(client.scope, client.receive, client.send)
    assert client.sent[0]["status"] == 200
    assert (await lifespan.answer("shutdown"))["type"] == "lifespan.shutdown.complete"
    with pytest.raises(RuntimeError, match="not running"):
        await app(client.scope, client.receive, client.send)


async def test_a_mistake_in_the_configuration_is_the_message(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_CONFIG", str(tmp_path / "missing.yaml"))
    failed = await Lifespan(App(), nursery).answer("startup")
    assert failed["type"] == "lifespan.startup.failed"
    assert "missing.yaml: the configuration file cannot be read" in failed["message"]


@pytest.mark.parametrize(
    ("error", "message", "lines"),
    [
        (StartError("The lease is lost.", "Start again."), "The lease is lost. Start again.", []),
        (RuntimeError("a bug"), "hookgw crashed; see its log.", ["crashed"]),
    ],
)
async def test_a_crash_ends_the_server(
    config: Path,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
    lines: list[str],
) -> None:
    crash = trio.Event()

    class Keys:
        async def ensure_lasting_global_key(self, show: object) -> None:
            await trio.lowlevel.checkpoint()

    @asynccontextmanager
    async def open_api(*args: object, **options: object) -> AsyncIterator[Any]:
        async def crashes() -> None:
            await crash.wait()
            raise error

        async with trio.open_nursery() as tasks:
            tasks.start_soon(crashes)
            app = SimpleNamespace(routed=trio.Event())
            app.routed.set()
            yield SimpleNamespace(gateway=SimpleNamespace(keys=Keys()), run=trio.sleep_forever, app=app)

    monkeypatch.setattr(hookgw.asgi, "open_api", open_api)
    lifespan = Lifespan(App(), nursery)
    await lifespan.answer("startup")
    crash.set()
    with structlog.testing.capture_logs() as logs:
        failed = await lifespan.answer(None)
    assert failed == {"type": "lifespan.shutdown.failed", "message": message}
    assert [log["event"] for log in logs if log["log_level"] == "critical"] == lines


async def test_a_setting_that_has_no_effect_is_told(
    config: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_SERVER__TLS__CERTIFICATE", "a.pem")
    monkeypatch.setenv("HOOKGW_SERVER__TLS__KEY", "b.pem")
    lifespan = Lifespan(App(), nursery)
    with structlog.testing.capture_logs() as logs:
        await lifespan.answer("startup")
    assert "server.tls is not used" in [log["event"] for log in logs]
    await lifespan.answer("shutdown")


def test_another_event_loop_is_refused() -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(App()(LIFESPAN, receive, send))
    assert sent == [
        {
            "type": "lifespan.startup.failed",
            "message": "hookgw runs on Trio: start hypercorn with --worker-class trio.",
        }
    ]


async def test_a_websocket_is_refused() -> None:
    client = Client("/")
    await App()({**client.scope, "type": "websocket"}, client.receive, client.send)
    assert client.sent == [{"type": "websocket.close", "code": 1000}]


async def test_it_learns_its_addresses_from_requests(config: Path, nursery: trio.Nursery) -> None:
    app = App()
    lifespan = Lifespan(app, nursery)
    await lifespan.answer("startup")
    for host in ("127.0.0.1", "::1", "127.0.0.1"):
        client = Client("/healthz", host)
        await app(client.scope, client.receive, client.send)
    unix = Client("/healthz")
    await app({**unix.scope, "server": ("/run/hookgw.sock", None)}, unix.receive, unix.send)
    assert unix.sent[0]["status"] == 200
    await lifespan.answer("shutdown")


@pytest.fixture
def hypercorns() -> Iterator[logging.Logger]:
    logger = logging.getLogger("hypercorn.error")
    before = list(logger.handlers), list(logger.filters)
    yield logger
    logger.handlers, logger.filters = before


def test_hypercorns_lines_are_written_once(
    hypercorns: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: Any
) -> None:
    """hypercorn adds its handler with its first line, after the start."""
    to_file = logging.FileHandler(tmp_path / "log")
    hypercorns.addFilter(hookgw.asgi.remove_handlers)
    hypercorns.handlers = [logging.StreamHandler(sys.stderr), to_file]
    hypercorns.warning("Running")
    to_file.close()
    assert capsys.readouterr().err == ""
    assert [record.message for record in caplog.records] == ["Running"]
    assert (tmp_path / "log").read_text() == "Running\n"
