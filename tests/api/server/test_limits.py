"""429: too many wrong keys from an address, too many requests with a key, on both paths."""

from pathlib import Path

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from tests.api.conftest import KEY
from tests.api.routes.test_events import one
from tests.api.test_app import shape_of
from tests.public.config import AuthSettings, ServerSettings, Settings
from tests.public.web import AppApplication as Application
from tests.public.web import serve

OWN_KEY = "the-key-of-loja1"
EMIT = "/event/emit/loja1"


@pytest.fixture
def app(either_app: Application) -> Application:
    return either_app


@pytest.fixture
async def client(stranger: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    """Without a key."""
    await gateway.instances.create("loja1", token=OWN_KEY)
    await gateway.instances.create("loja2")
    return stranger


async def emit(client: httpx.AsyncClient, key: str | None, path: str = EMIT) -> httpx.Response:
    return await client.post(path, json=one(), headers={} if key is None else {"apikey": key})


def is_refused(response: httpx.Response, reason: str) -> bool:
    """Return whether it is a 429 for that reason; check its shape."""
    if response.status_code != 429:
        return False
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert "www-authenticate" not in response.headers
    assert reason in shape_of(response)[0]
    return True


class TestFailedAttempts:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=3))

    async def test_wrong_keys(self, client: httpx.AsyncClient) -> None:
        assert (await emit(client, OWN_KEY)).status_code == 202
        for path in (EMIT, "/webhook/find/loja1", "/nope"):
            assert (await client.request("GET", path, headers={"apikey": "wrong"})).status_code == 401
        for key in ("wrong", KEY):
            assert is_refused(await emit(client, key), "wrong keys")
            assert is_refused(await client.get("/event/kinds", headers={"apikey": key}), "wrong keys")
        assert (await emit(client, OWN_KEY)).status_code == 202
        assert (await emit(client, None)).status_code == 401
        assert (await client.get("/healthz")).status_code == 200

    async def test_for_an_instance_that_exists_or_not(self, client: httpx.AsyncClient) -> None:
        answers = [
            await emit(client, key, f"/event/emit/{name}")
            for _ in range(3)
            for key in ("wrong", "likewise")
            for name in ("loja2", "nobody")
        ]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 9
        assert len({answer.content for answer in answers[3:]}) == 1


class TestRates:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        auth = msgspec.structs.replace(settings.auth, instance_key_rate=1)
        return msgspec.structs.replace(settings, auth=auth)

    async def test_a_key_with_too_many_requests(self, client: httpx.AsyncClient, gateway: Gateway) -> None:
        drain(gateway, OWN_KEY)
        assert is_refused(await emit(client, OWN_KEY), "too many requests")
        assert is_refused(await client.get("/event/kinds", headers={"apikey": OWN_KEY}), "too many requests")
        assert (await emit(client, KEY)).status_code == 202
        metrics = (await client.get("/metrics", headers={"apikey": KEY})).text
        assert 'hookgw_http_requests_limited_total{limit="key_rate"} 2.0' in metrics

    async def test_it_is_refused_alike_on_every_route(
        self, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        drain(gateway, OWN_KEY)
        answers = [
            await emit(client, OWN_KEY, f"/event/emit/{name}") for name in ("loja1", "loja2", "nobody")
        ]
        assert {answer.status_code for answer in answers} == {429}
        assert len({answer.content for answer in answers}) == 1


def drain(gateway: Gateway, key: str) -> None:
    """Empty a key's token bucket, with enough debt that it stays empty."""
    holder = gateway.authenticator.authenticate(key, None)
    assert holder is not None
    assert holder.bucket is not None
    holder.bucket.tokens = -50.0


class TestOverAUnixSocket:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=1))

    async def test_failures_are_not_limited(
        self, app: Application, socket_folder: Path, nursery: trio.Nursery
    ) -> None:
        """A Unix socket has no address to count wrong keys by."""
        path = socket_folder / "s"
        await nursery.start(serve, app, ServerSettings(bind=(f"unix:{path}",)))
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(base_url="http://x", transport=transport) as client:
            wrong = [await emit(client, "wrong", "/event/emit/x") for _ in range(5)]
            assert {response.status_code for response in wrong} == {401}
            assert (await emit(client, KEY, "/event/emit/x")).status_code == 404
        nursery.cancel_scope.cancel()
