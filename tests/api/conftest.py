import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import FakeConnector
from tests.api.server.wire import Running
from tests.public.app import open_gateway
from tests.public.config import (
    AuthSettings,
    DeliverySettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.kernel import Duration, Size
from tests.public.plugins import Hooks, load_plugins
from tests.public.web import AppApplication as Application
from tests.public.web import serve
from tests.support.application import create_app
from tests.support.contract import Contract
from tests.support.hub import running_hub
from tests.support.postgres import PostgresServer

KEY = "the-global-key"


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(bind=("127.0.0.1:0",))


ENGINE = os.environ.get("HOOKGW_TEST_ENGINE", "sqlite")

is_sqlite = pytest.mark.skipif(
    ENGINE != "sqlite", reason="hookgw makes backups of a data file; of a database its own tools do"
)


@asynccontextmanager
async def open_whole_gateway(
    settings: Settings, base: Path, plugins: Mapping[str, object] | None = None
) -> AsyncIterator[Gateway]:
    """Open a gateway, and wait until it holds all instances, which takes a moment in a database.

    Args:
        settings: the configuration.
        base: the folder that relative plugin folders are below.
        plugins: beside hookgw's own, by name.
    """
    hooks = None
    if plugins is not None:
        loaded = load_plugins(settings.plugins, base=base, extra=plugins)
        hooks = Hooks(loaded, hook_timeout=settings.plugins.hook_timeout)
    async with open_gateway(settings, base=base, hooks=hooks) as gateway:
        while gateway.fleet is not None and not gateway.fleet.is_whole:
            await trio.to_thread.run_sync(time.sleep, 0.005)  # a mock clock may stand still
        yield gateway


@pytest.fixture
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageSettings]:
    """A data file; with ``HOOKGW_TEST_ENGINE=postgresql``, a schema in a database."""
    if ENGINE != "postgresql":
        yield StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0))
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.new_schema() as schema:
        yield StorageSettings(engine="postgresql", url=postgres.url(), schema=schema, min_free=Size(0))


@pytest.fixture
def settings(server_settings: ServerSettings, storage: StorageSettings) -> Settings:
    return Settings(
        server=server_settings,
        auth=AuthSettings(global_key=KEY, failed_attempts=0),
        storage=storage,
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
        # A busy machine blocks the loop, and tests compare all warnings.
        plugins=PluginsSettings(block_warning=Duration(0)),
    )


@pytest.fixture
def connector() -> FakeConnector:
    return FakeConnector()


@pytest.fixture
def plugins() -> dict[str, object] | None:
    """The plugins of ``gateway``; files have theirs."""
    return None


@pytest.fixture
async def gateway(
    settings: Settings, plugins: dict[str, object] | None, tmp_path: Path
) -> AsyncIterator[Gateway]:
    async with open_whole_gateway(settings, tmp_path, plugins) as gateway:
        yield gateway


@pytest.fixture
async def instance(gateway: Gateway) -> None:
    await gateway.instances.create("loja1")


@pytest.fixture
def app(gateway: Gateway) -> Application:
    return create_app(gateway)


@pytest.fixture(params=["short", "long"])
def either_app(request: pytest.FixtureRequest, gateway: Gateway) -> Application:
    """With the fast paths, and without: an ``app`` for what both must do."""
    app = create_app(gateway)
    assert app.fast_paths
    if request.param == "long":
        app.use_fast_paths()
    return app


@pytest.fixture
async def client(app: Application, nursery: trio.Nursery) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the global key, over a socket."""
    async with open_client(app, nursery, apikey=KEY) as client:
        yield client


@pytest.fixture
async def stranger(app: Application, nursery: trio.Nursery) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key."""
    async with open_client(app, nursery) as client:
        yield client


@pytest.fixture
async def server(
    app: Application, server_settings: ServerSettings, nursery: trio.Nursery
) -> AsyncIterator[Running]:
    done = trio.Event()
    scope = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        with scope:
            async with running_hub() as hub:
                await serve(app, server_settings, hub=hub, task_status=task_status)
        done.set()

    (url,) = await nursery.start(run)
    running = Running(url, scope, done)
    yield running
    scope.cancel()


@asynccontextmanager
async def open_client(
    app: Application, nursery: trio.Nursery, **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an application for the length of the block. The client validates every response."""
    settings = ServerSettings(bind=("127.0.0.1:0",))
    serving = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        with serving:
            async with running_hub() as hub:
                await serve(app, settings, hub=hub, task_status=task_status)

    (url,) = await nursery.start(run)
    hooks = {"response": [Contract(app).check]}
    # The URL is plain http; without verify=False each client would read all certificate authorities (25 ms).
    async with httpx.AsyncClient(
        base_url=url, headers=headers, trust_env=False, verify=False, event_hooks=hooks
    ) as client:
        yield client
    serving.cancel()


class SlowRequest:
    """A request whose head has been read, and whose key was accepted; its body has yet to be sent."""

    def __init__(self, stream: trio.SocketStream, body: bytes) -> None:
        self.stream = stream
        self._body = body

    async def send_body(self) -> None:
        await self.stream.send_all(self._body)

    async def finish(self) -> tuple[int, str]:
        """Send the body; return the status and the whole response."""
        await self.send_body()
        received = b""
        while more := await self.stream.receive_some():
            received += more
        return int(received.split()[1]), received.decode()


@asynccontextmanager
async def slow_request(
    client: httpx.AsyncClient, path: str, body: str, **headers: str
) -> AsyncIterator[SlowRequest]:
    """Send the head of a POST to a client's server, and wait until the server asks for the body.

    The server does so only after it has checked the key.
    """
    assert client.base_url.port is not None
    headers = {
        "host": "x",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "expect": "100-continue",
        "connection": "close",
        **headers,
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    async with await trio.open_tcp_stream("127.0.0.1", client.base_url.port) as stream:
        await stream.send_all("\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode())
        received = b""
        while b"\r\n\r\n" not in received:
            more = await stream.receive_some()
            assert more, received
            received += more
        assert received.startswith(b"HTTP/1.1 100")
        yield SlowRequest(stream, body.encode())
