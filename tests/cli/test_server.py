"""The gateway with its HTTP API, in this process."""

import logging
import signal
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog
import trio

from hookgw import Invalid, Outcome, __version__
from hookgw.app import serve
from hookgw.testing import open_receiver
from tests.api.server.test_certificates import write
from tests.cli.conftest import Echoes
from tests.public.app import open_server
from tests.public.command import StoppedEarly, configure_logging
from tests.public.config import (
    DeliverySettings,
    LogSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.kernel import ConfigError, Size, StartError
from tests.public.webhooks import RegistrationChange

pytestmark = pytest.mark.usefixtures("_signals_kept")


def settings_in(folder: Path, bind: str = "127.0.0.1:0") -> Settings:
    """Return settings with all data in a folder, and without plugins."""
    return Settings(
        server=ServerSettings(bind=(bind,)),
        storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)),
        plugins=PluginsSettings(first_party=False),
    )


async def get(url: str, **options: str) -> httpx.Response:
    return await trio.to_thread.run_sync(partial(httpx.get, url, headers=options, trust_env=False))


async def test_it_serves_until_the_block_ends(tmp_path: Path) -> None:
    async with open_server(settings_in(tmp_path), base=tmp_path) as server:
        assert (await get(f"{server.urls[0]}/readyz")).status_code == 200
    with pytest.raises(httpx.ConnectError):
        await get(f"{server.urls[0]}/readyz")


async def test_the_metrics_count_its_connections(tmp_path: Path) -> None:
    keys: list[str] = []
    async with open_server(settings_in(tmp_path), base=tmp_path, show_key=keys.append) as server:
        answer = await get(f"{server.urls[0]}/metrics", apikey=keys[0])
        assert "\nhookgw_http_connections 1.0\n" in answer.text
        assert "\nhookgw_http_connections_crowded_out_total 0.0\n" in answer.text


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "0.0.0.0:0"])
async def test_no_delivery_is_made_to_the_server_itself(tmp_path: Path, bind: str) -> None:
    delivery = DeliverySettings(allow_networks=("127.0.0.0/8",))
    settings = msgspec.structs.replace(settings_in(tmp_path, bind), delivery=delivery)
    async with open_server(settings, base=tmp_path) as server, open_receiver() as neighbour:
        port = server.urls[0].rpartition(":")[2]
        for url in (f"http://127.0.0.1:{port}/healthz", neighbour.url):
            await server.gateway.registrations.set(
                "shop", "default", RegistrationChange(url=url), create=True
            )
            attempt = await server.gateway.registrations.test("shop")
            if url == neighbour.url:
                assert attempt.outcome is Outcome.DELIVERED
            else:
                assert attempt.outcome is Outcome.BLOCKED
                assert "hookgw itself listens there" in (attempt.error or "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_block_and_counts_once_if_it_comes_twice(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.command.process.ONE_SIGNAL", 3600)
    async with open_server(settings_in(tmp_path), base=tmp_path):
        signal.raise_signal(number)
        await trio.sleep_forever()
    for one in (signal.SIGINT, signal.SIGTERM):
        assert signal.getsignal(one) not in (signal.SIG_DFL, signal.default_int_handler)
        signal.raise_signal(one)


async def test_a_signal_during_the_start_stops_it(tmp_path: Path) -> None:
    def stop(_key: str) -> None:
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedEarly):
        async with open_server(settings_in(tmp_path), base=tmp_path, show_key=stop):
            pytest.fail("it started")


async def test_an_exception_of_the_block_is_raised(tmp_path: Path) -> None:
    with pytest.RaisesGroup(LookupError, flatten_subgroups=True):
        async with open_server(settings_in(tmp_path), base=tmp_path):
            raise LookupError("in the block")


async def test_the_key_is_shown_once_by_the_first_start_that_succeeds(tmp_path: Path) -> None:
    shown: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = settings_in(tmp_path, "{}:{}".format(*taken.getsockname()))
        for _ in range(2):
            with pytest.RaisesGroup(StartError, flatten_subgroups=True):
                async with open_server(settings, base=tmp_path, show_key=shown.append):
                    pytest.fail("it cannot listen")
    assert shown == []
    for _ in range(2):
        async with open_server(settings_in(tmp_path), base=tmp_path, show_key=shown.append) as server:
            assert (await get(f"{server.urls[0]}/lane/list", apikey=shown[0])).status_code == 200
    assert len(shown) == 1


async def test_a_key_that_could_not_be_shown_is_not_stored(tmp_path: Path) -> None:
    def fail(_key: str) -> None:
        raise BrokenPipeError

    with pytest.RaisesGroup(BrokenPipeError, flatten_subgroups=True):
        async with open_server(settings_in(tmp_path), base=tmp_path, show_key=fail):
            pytest.fail("nobody has seen its key")
    shown: list[str] = []
    async with open_server(settings_in(tmp_path), base=tmp_path, show_key=shown.append) as server:
        assert (await get(f"{server.urls[0]}/lane/list", apikey=shown[0])).status_code == 200


async def test_serve_prints_the_key_once_and_its_url(tmp_path: Path, echoes: Echoes) -> None:
    async def once() -> str:
        echoes.text = ""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve.run, settings_in(tmp_path), tmp_path)
            url = (await echoes.wait_for(rf"(?m)^hookgw {__version__} listening on (\S+)$"))[1]
            assert (await get(f"{url}/lane/list", apikey=key or echoes.text.split()[7])).status_code == 200
            signal.raise_signal(signal.SIGTERM)
        return echoes.text

    key = ""
    first = await once()
    assert first.startswith("Global key (shown once, store it now): ")
    key = first.split()[7]
    assert "key" not in await once()


async def test_a_hangup_reloads_the_certificate(tmp_path: Path) -> None:
    def served() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    settings = settings_in(tmp_path)
    server_settings = msgspec.structs.replace(settings.server, tls=write(tmp_path))
    async with open_server(
        msgspec.structs.replace(settings, server=server_settings), base=tmp_path
    ) as server:
        (url,) = server.urls
        assert url.startswith("https://127.0.0.1:")
        port = int(url.rpartition(":")[2])
        first = await trio.to_thread.run_sync(served)
        write(tmp_path)
        assert await trio.to_thread.run_sync(served) == first
        signal.raise_signal(signal.SIGHUP)
        while await trio.to_thread.run_sync(served) == first:
            pass


class Logged:
    """A configuration that changes, and what the log says about it."""

    def __init__(self, settings: Settings, lines: list[Any]) -> None:
        self.settings = settings
        self._lines = lines

    def read(self) -> Settings:
        if self.settings.server.base_path == "wrong":
            raise ConfigError("server.base_path: wrong.", "log.level: wrong, too.")
        if self.settings.server.base_path == "bug":
            raise RuntimeError("a bug")
        return self.settings

    async def hang_up(self, level: str = "info", base_path: str = "") -> list[Any]:
        """Change the configuration, send SIGHUP, and return the lines about it."""
        self.settings = msgspec.structs.replace(
            self.settings,
            log=msgspec.structs.replace(self.settings.log, level=level),
            server=msgspec.structs.replace(self.settings.server, base_path=base_path),
        )
        self._lines.clear()
        signal.raise_signal(signal.SIGHUP)
        return await self.logged()

    async def logged(self) -> list[Any]:
        while not (found := [line for line in self._lines if line["event"].startswith("configuration")]):
            await trio.lowlevel.checkpoint()
        return found


async def test_a_hangup_reloads_the_configuration_or_says_what_is_wrong(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with structlog.testing.capture_logs() as lines:
        config = Logged(settings, lines)
        # One that comes during the start is served at its end.
        async with open_server(
            settings,
            base=tmp_path,
            show_key=lambda _: signal.raise_signal(signal.SIGHUP),
            read_again=config.read,
        ) as server:
            assert (await config.logged())[0]["event"] == "configuration reloaded"
            lines_of_two = await config.hang_up(base_path="wrong")
            assert [line["reason"] for line in lines_of_two] == [
                "server.base_path: wrong.",
                "log.level: wrong, too.",
            ]
            (line,) = await config.hang_up(base_path="bug")
            assert (line["event"], line["log_level"]) == ("configuration not reloaded", "error")
            (line,) = await config.hang_up(base_path="/x")
            assert line["needs_restart"] == ["server.base_path"]
            assert line["log_level"] == "warning"
            assert (await get(f"{server.urls[0]}/healthz")).status_code == 200


async def test_a_hangup_changes_the_level_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = msgspec.structs.replace(settings_in(tmp_path), log=LogSettings(format="json"))
    configure_logging(settings.log)
    config = Logged(msgspec.structs.replace(settings, log=LogSettings(level="debug", format="json")), [])
    async with open_server(settings, base=tmp_path, read_again=config.read):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        while not logging.getLogger().isEnabledFor(logging.DEBUG):
            await trio.lowlevel.checkpoint()
    assert '"changed": ["log.level"]' in capsys.readouterr().err


async def test_a_broken_certificate_prevents_the_start(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    tls = msgspec.structs.replace(write(tmp_path), key=str(tmp_path / "none.pem"))
    server_settings = msgspec.structs.replace(settings.server, tls=tls)
    with pytest.raises(StartError, match=r"none\.pem cannot be read"):
        async with open_server(msgspec.structs.replace(settings, server=server_settings), base=tmp_path):
            raise AssertionError("it started")


HALF = """
import hookgw

@hookgw.hookimpl
def hookgw_event_kinds():
    return [hookgw.EventKind(name="HALF", meaning="X.", aliases=("half.alias",))]

@hookgw.hookimpl
def hookgw_connectors():
    class Connector:
        name = "half"
        async def run(self, session): raise AssertionError
        async def send(self, session, message, *, key): ...
    return [Connector()]

@hookgw.hookimpl
async def hookgw_run(gateway):
    raise AssertionError

@hookgw.hookimpl
def hookgw_routes(app):
    app.add_url_rule("/public/half", view_func=lambda: "half")
    app.before_request(lambda: "half")
    raise RuntimeError
"""


async def test_an_optional_plugin_whose_routes_fail_is_gone(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "half.py").write_text(HALF)
    plugins = PluginsSettings(first_party=False, optional=("half",))
    settings = msgspec.structs.replace(settings_in(tmp_path), plugins=plugins)
    async with open_server(settings, base=tmp_path) as server:
        assert (await get(f"{server.urls[0]}/readyz")).status_code == 200
        assert (await get(f"{server.urls[0]}/public/half")).status_code == 404
        catalog = server.gateway.catalog
        assert [catalog.get(name) for name in ("HALF", "half.alias")] == [None, None]
        assert catalog.get("MESSAGES_UPSERT") is not None
        with pytest.raises(Invalid, match="there is no connector 'half'"):
            await server.gateway.instances.create("shop", integration="half")
        assert server.gateway.hooks.background("hookgw_run") == []
