"""What a server does while Quart, the routes and the pages are still loaded."""

from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway, hookimpl
from tests.cli.test_server import settings_in
from tests.public.app import load_surfaces, open_server
from tests.public.config import AuthSettings, PluginsSettings, Settings
from tests.public.kernel import StartError
from tests.public.plugins import Hooks, load_plugins
from tests.public.web import AppApplication as Application

KEY = "a-key-of-the-tests"

pytestmark = pytest.mark.usefixtures("_signals_kept")


class Loading:
    """Loads the routes once it may, or fails."""

    def __init__(self) -> None:
        self.may_end = False
        self.error: Exception | None = None

    def load(self, app: Application, gateway: Gateway) -> Generator[None, None, Any]:
        while not self.may_end:
            yield
        if self.error is not None:
            raise self.error
        return (yield from load_surfaces(app, gateway))


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Loading:
    loading = Loading()
    monkeypatch.setattr("hookgw.app.surfaces.load_surfaces", loading.load)
    return loading


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return msgspec.structs.replace(settings_in(tmp_path), auth=AuthSettings(global_key=KEY))


async def rounds() -> None:
    """Let the server do what it can: it never rests while it loads."""
    for _ in range(50):
        await trio.lowlevel.checkpoint()


async def emit(url: str) -> int:
    headers = {"apikey": KEY}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, verify=False, timeout=30
    ) as client:
        event = {"event": "messages.upsert", "data": {}}
        return (await client.post("/event/emit/shop", json=event)).status_code


@asynccontextmanager
async def request(url: str, path: str) -> AsyncIterator[trio.SocketStream]:
    host, _, port = url.removeprefix("http://").partition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        yield stream


async def test_events_are_accepted_and_other_requests_wait(
    settings: Settings, tmp_path: Path, loading: Loading
) -> None:
    async with open_server(settings, base=tmp_path) as server:
        await server.gateway.instances.create("shop")
        [url] = server.urls
        async with request(url, "/readyz") as one, request(url, "/dashboard/login") as other:
            assert await emit(url) == 202
            await rounds()
            assert not server.routed.is_set()
            loading.may_end = True
            for stream in (one, other):
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")


async def test_a_server_is_asked_to_do_without_the_hub(settings: Settings, tmp_path: Path) -> None:
    async with open_server(settings, base=tmp_path, hub=False) as server:
        await server.gateway.instances.create("shop")
        assert await emit(server.urls[0]) == 202
        assert not server.gateway.hub.is_running


async def test_a_stop_answers_the_requests_that_wait(
    settings: Settings, tmp_path: Path, loading: Loading
) -> None:
    async def end_later() -> None:
        await stopping.wait()
        await rounds()
        loading.may_end = True

    stopping = trio.Event()
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        nursery.start_soon(end_later)
        async with open_server(settings, base=tmp_path) as server:
            await server.gateway.instances.create("shop")
            stream = await stack.enter_async_context(request(server.urls[0], "/healthz"))
            assert await emit(server.urls[0]) == 202
            stopping.set()
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")


async def test_a_server_whose_routes_cannot_be_loaded_ends(
    settings: Settings, tmp_path: Path, loading: Loading
) -> None:
    loading.error, loading.may_end = ImportError("a broken installation"), True
    with pytest.RaisesGroup(ImportError, flatten_subgroups=True):
        async with open_server(settings, base=tmp_path):
            await trio.sleep_forever()


class Routes:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    @hookimpl
    def hookgw_routes(self, app: object) -> None:
        if self._error is not None:
            raise self._error


def hooks_with(folder: Path, **plugins: object) -> Hooks:
    return Hooks(load_plugins(PluginsSettings(folders=()), base=folder, extra=plugins))


async def test_routes_of_plugins_are_loaded_before_the_server_listens(
    settings: Settings, tmp_path: Path
) -> None:
    async with open_server(settings, base=tmp_path, hooks=hooks_with(tmp_path, crm=Routes())) as server:
        assert server.routed.is_set()
    with pytest.RaisesGroup(StartError, flatten_subgroups=True):
        async with open_server(
            settings, base=tmp_path, hooks=hooks_with(tmp_path, crm=Routes(KeyError("crm")))
        ):
            pytest.fail("it started")


async def test_a_bad_logo_stops_the_start(settings: Settings, tmp_path: Path) -> None:
    brand = msgspec.structs.replace(settings.dashboard.brand, logo=str(tmp_path / "none.svg"))
    dashboard = msgspec.structs.replace(settings.dashboard, brand=brand)
    with pytest.RaisesGroup(StartError, flatten_subgroups=True):
        async with open_server(msgspec.structs.replace(settings, dashboard=dashboard), base=tmp_path):
            pytest.fail("it started")


def test_the_plugins_of_hookgw_cannot_refuse_the_start_by_their_routes(tmp_path: Path) -> None:
    hooks = hooks_with(tmp_path)
    assert hooks.implements("hookgw_routes")
    assert not hooks.may_refuse_routes()
    assert hooks_with(tmp_path, alerts=Routes()).may_refuse_routes()
