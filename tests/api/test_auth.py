"""Keys of requests: one key in a request, which must still be valid once the body has arrived."""

import json
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from tests.api.conftest import KEY, open_client, slow_request
from tests.public.auth import Authenticator
from tests.public.config import AuthSettings, Settings
from tests.public.core import Refresh as NoRefresh
from tests.public.core import run_in_slices
from tests.public.kernel import TooManyRequests
from tests.public.web import AppApplication as Application
from tests.public.web import learn_key

TWO_KEYS = "The request has more than one apikey header; send one."
TWO_TOKENS = "The request has more than one authorization header; send one."
DIFFERENT = "The apikey and authorization headers have different keys; send one of them."
TWO_X_KEYS = "The request has more than one x-api-key header; send one."
DIFFERENT_X = "The apikey and x-api-key headers have different keys; send one of them."
DIFFERENT_FROM_TOKEN = "The x-api-key and authorization headers have different keys; send one of them."
BEARER = ("Authorization", f"Bearer {KEY}")


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([("apikey", KEY), ("apikey", "other")], TWO_KEYS),
        ([("apikey", "other"), ("ApiKey", KEY)], TWO_KEYS),
        ([("apikey", KEY), ("apikey", KEY)], TWO_KEYS),
        ([("apikey", ""), ("apikey", KEY)], TWO_KEYS),
        ([BEARER, ("authorization", "Bearer other")], TWO_TOKENS),
        ([BEARER, BEARER], TWO_TOKENS),
        ([BEARER, ("authorization", "Basic eDp5")], TWO_TOKENS),
        ([("apikey", KEY), ("authorization", "Bearer other")], DIFFERENT),
        ([("apikey", "other"), BEARER], DIFFERENT),
        ([("apikey", ""), BEARER], DIFFERENT),
        ([("apikey", KEY), ("authorization", "Bearer")], DIFFERENT),
        ([("x-api-key", KEY), ("X-Api-Key", KEY)], TWO_X_KEYS),
        ([("apikey", KEY), ("X-Api-Key", "other")], DIFFERENT_X),
        ([("apikey", "other"), ("X-Api-Key", KEY)], DIFFERENT_X),
        ([("apikey", KEY), ("X-Api-Key", "")], DIFFERENT_X),
        ([("X-Api-Key", "other"), BEARER], DIFFERENT_FROM_TOKEN),
        ([("X-Api-Key", KEY), ("authorization", "Bearer other")], DIFFERENT_FROM_TOKEN),
    ],
)
async def test_a_request_with_two_keys_gets_401(
    headers: list[tuple[str, str]], error: str, app: Application, nursery: trio.Nursery
) -> None:
    async with open_client(app, nursery) as client:
        for path in ("/metrics", "/event/kinds", "/webhook/find/loja1", "/nothing"):
            response = await client.get(path, headers=headers)
            assert response.status_code == 401
            assert response.json()["response"]["message"] == [error]


@pytest.mark.parametrize(
    "headers",
    [
        [("apikey", KEY), BEARER],
        [("apikey", KEY), ("authorization", "Basic eDp5")],
        [("apikey", KEY), ("authorization", "")],
        [BEARER],
        [("X-Api-Key", KEY)],
        [("apikey", KEY), ("x-api-key", KEY)],
        [("apikey", KEY), ("x-api-key", KEY), BEARER],
    ],
)
async def test_one_key_in_several_headers_is_one_key(
    headers: list[tuple[str, str]], app: Application, nursery: trio.Nursery
) -> None:
    async with open_client(app, nursery) as client:
        assert (await client.get("/metrics", headers=headers)).status_code == 200


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=2))


async def test_two_keys_are_no_failed_attempt(app: Application, nursery: trio.Nursery) -> None:
    """A program that sends its key twice must not lock out its address."""
    async with open_client(app, nursery) as client:
        for _ in range(5):
            response = await client.get("/metrics", headers=[("apikey", "a"), ("apikey", "b")])
            assert response.status_code == 401
        assert (await client.get("/metrics", headers=[BEARER])).status_code == 200


async def create(client: httpx.AsyncClient) -> str:
    """Create the instance, and return its key."""
    response = await client.post("/instance/create", json={"instanceName": "loja1"})
    assert response.status_code == 201
    return str(response.json()["hash"])


EVENT = {"event": "CALL", "data": {"forged": True}}
LONG_EVENT = {"event": "CALL", "data": {"forged": "x" * 10_000}}
HOOK = {"url": "https://attacker.example/take"}
MEDIA = {"number": "5511988887777", "mediatype": "image", "media": "aGk="}
CALLS = [
    ("/webhook/set/loja1", HOOK),
    ("/event/emit/loja1", EVENT),
    ("/event/emit/loja1", LONG_EVENT),
    ("/event/emit/loja1", [EVENT, EVENT]),
    ("/event/emit/loja1/call", EVENT),
    ("/message/sendText/loja1", {"number": "5511988887777", "text": "Oi"}),
    ("/message/sendMedia/loja1", MEDIA),
]


@pytest.mark.parametrize(("path", "value"), CALLS)
async def test_a_former_tenant_cannot_finish_a_request_for_a_later_instance(
    path: str, value: object, app: Application, gateway: Gateway, nursery: trio.Nursery
) -> None:
    async with open_client(app, nursery, apikey=KEY) as client:
        key = await create(client)
        async with slow_request(client, path, json.dumps(value), apikey=key) as former:
            await client.delete("/instance/delete/loja1")
            await create(client)
            await client.post("/webhook/set/loja1", json={"url": "https://receiver.example/"})
            status, response = await former.finish()
        assert status == 401
        assert "www-authenticate" in response
        webhook = (await client.get("/webhook/find/loja1")).json()
        assert webhook["url"] == "https://receiver.example/"
        assert gateway.backlog.of_instance("loja1")[0] == 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/event/emit/loja1", EVENT),
        ("/webhook/set/loja1", HOOK),
        ("/message/sendMedia/loja1", MEDIA),
    ],
)
async def test_a_former_tenant_cannot_act_after_the_turn_of_a_long_body(
    path: str, value: object, app: Application, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(holder: str, steps: Generator[None, None, Any]) -> Any:
        parsed = await run_in_slices(holder, steps)
        await client.delete("/instance/delete/loja1")
        await create(client)
        return parsed

    async with open_client(app, nursery, apikey=KEY) as client:
        key = await create(client)
        monkeypatch.setattr("hookgw.web.body.run_in_slices", run)
        body = json.dumps(value) + " " * 10_000
        headers = {"apikey": key, "content-type": "application/json"}
        response = await client.post(path, content=body, headers=headers)
        assert response.status_code == 401
        assert (await client.get("/webhook/find/loja1")).json() is None


async def test_a_revoked_key_cannot_finish_a_request(app: Application, nursery: trio.Nursery) -> None:
    async with open_client(app, nursery, apikey=KEY) as client:
        key = await create(client)
        await client.post("/key/create/loja1", json={"name": "other"})
        async with slow_request(client, "/webhook/set/loja1", json.dumps(HOOK), apikey=key) as revoked:
            assert (await client.delete("/key/delete/loja1/default")).status_code == 200
            assert (await revoked.finish())[0] == 401


@pytest.mark.parametrize(("path", "status"), [("/webhook/set/loja1", 201), ("/event/emit/loja1", 202)])
async def test_a_global_key_can_finish_a_request_for_a_later_instance(
    path: str, status: int, app: Application, nursery: trio.Nursery
) -> None:
    value = HOOK if status == 201 else EVENT
    async with open_client(app, nursery, apikey=KEY) as client:
        await create(client)
        async with slow_request(client, path, json.dumps(value), apikey=KEY) as slow:
            await client.delete("/instance/delete/loja1")
            await create(client)
            assert (await slow.finish())[0] == status


class Refresh(NoRefresh):
    """Counts the reads of what other nodes have changed."""

    def __init__(self) -> None:
        self.reads = 0

    async def catch_up(self, version: int | None = None) -> None:
        self.reads += 1


async def test_nothing_is_read_for_an_address_with_too_many_wrong_keys(gateway: Gateway) -> None:
    settings = AuthSettings(failed_attempts=2)
    refresh = Refresh()
    authenticator = Authenticator(gateway.authenticator.keyring, settings, trio.current_time, lambda _: None)
    here: Any = SimpleNamespace(
        node=SimpleNamespace(is_shared=True), refresh=refresh, keys=gateway.keys, authenticator=authenticator
    )

    def request_from(address: str, *, is_forwarded: bool = False) -> Any:
        scope = {"headers": [(b"apikey", b"wrong")]}
        return SimpleNamespace(scope=scope, client_host=address, is_forwarded=is_forwarded)

    for _ in range(2):
        await learn_key(here, request_from("192.0.2.1"))
        assert authenticator.authenticate("wrong", "192.0.2.1") is None
    with pytest.raises(TooManyRequests):
        await learn_key(here, request_from("192.0.2.1"))
    assert refresh.reads == 2
    await learn_key(here, request_from("192.0.2.2"))
    await learn_key(here, request_from("192.0.2.1", is_forwarded=True))
    assert refresh.reads == 4
