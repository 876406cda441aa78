"""The simulator in a real gateway, driven over HTTP as a client does it."""

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.api.conftest import KEY, open_client
from tests.public.app import open_gateway
from tests.public.config import AuthSettings, DeliverySettings, PluginsSettings, Settings, StorageSettings
from tests.public.instances import CALLS as ALL_CALLS
from tests.public.kernel import Size
from tests.public.plugins import Hooks, load_plugins
from tests.support.application import create_app
from tests.support.observer import Observer

ANA = "5511988887777"
ANA_JID = f"{ANA}@s.whatsapp.net"
QUIET = {"rate": 0, "qr_code": False, "connect_delay": 0, "status_delay": "10ms"}
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("sendText", {"number": ANA, "text": "Oi"}, "conversation"),
    ("sendMedia", {"number": ANA, "mediatype": "image", "media": "https://x.example/a.png"}, "imageMessage"),
    ("sendWhatsAppAudio", {"number": ANA, "audio": base64.b64encode(b"abc").decode()}, "audioMessage"),
    ("sendLocation", {"number": ANA, "latitude": -23.5, "longitude": -46.6}, "locationMessage"),
    ("sendContact", {"number": ANA, "contact": [{"fullName": "Ben", "phoneNumber": "1"}]}, "contactMessage"),
    (
        "sendReaction",
        {"key": {"remoteJid": ANA_JID, "fromMe": False, "id": "A1"}, "reaction": "👍"},
        "reactionMessage",
    ),
    ("sendTemplate", {"number": ANA, "name": "hello", "language": "pt_BR"}, "templateMessage"),
]


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def opened(tmp_path: Path, observer: Observer, nursery: trio.Nursery) -> Callable[[], Any]:
    """Return a function that runs a gateway on the same data, and gives a client for it."""
    settings = Settings(
        auth=AuthSettings(global_key=KEY),
        storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
    )

    @asynccontextmanager
    async def run() -> AsyncIterator[httpx.AsyncClient]:
        hooks = Hooks(load_plugins(PluginsSettings(), base=tmp_path, extra={"observer": observer}))
        async with (
            open_gateway(settings, base=tmp_path, hooks=hooks) as gateway,
            open_client(create_app(gateway), nursery, apikey=KEY) as client,
        ):
            yield client

    return run


@pytest.fixture
async def client(opened: Callable[[], Any]) -> AsyncIterator[httpx.AsyncClient]:
    async with opened() as client:
        yield client


async def connect(client: httpx.AsyncClient, **options: Any) -> dict[str, Any]:
    body = {"instanceName": "shop", "integration": "simulator", **QUIET, **options}
    created = await client.post("/instance/create", json=body)
    assert created.status_code == 201, created.text
    connected = await client.get("/instance/connect/shop")
    assert connected.status_code == 200, connected.text
    answer: dict[str, Any] = created.json()
    return answer


async def test_every_call_raises_its_events(client: httpx.AsyncClient, observer: Observer) -> None:
    await connect(client)
    for path, body, kind in CALLS:
        answer = await client.post(f"/message/{path}/shop", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["messageType"] == kind
    sent = await observer.wait_for("SEND_MESSAGE", len(CALLS))
    assert [data["messageType"] for data in sent] == [kind for _, _, kind in CALLS]
    await observer.wait_for("MESSAGES_UPDATE", 3 * len(CALLS))
    key = sent[0]["key"]
    edited = await client.post("/chat/updateMessage/shop", json={"key": key, "text": "new"})
    deleted = await client.request("DELETE", "/chat/deleteMessageForEveryone/shop", json=key)
    read = await client.post(
        "/chat/markMessageAsRead/shop", json={"readMessages": [{**key, "fromMe": False}]}
    )
    shown = await client.post(
        "/chat/sendPresence/shop", json={"number": ANA, "presence": "composing", "delay": 10}
    )
    assert [answer.status_code for answer in (edited, deleted, read, shown)] == [200, 201, 201, 201]
    assert (await observer.wait_for("MESSAGES_EDITED"))[0]["message"] == {"conversation": "new"}
    assert (await observer.wait_for("MESSAGES_DELETE"))[0]["id"] == key["id"]
    assert len(await observer.wait_for("MESSAGES_UPDATE", 3 * len(CALLS) + 1)) == 3 * len(CALLS) + 1
    await observer.wait_for("PRESENCE_UPDATE", 2)
    numbers = await client.post("/chat/whatsappNumbers/shop", json={"numbers": [ANA, "nobody"]})
    assert [found["exists"] for found in numbers.json()] == [True, False]


async def test_a_repeated_key_sends_once_even_after_a_restart(
    opened: Callable[[], Any], observer: Observer
) -> None:
    headers, ids = {"idempotency-key": "order-17"}, []
    for run in range(2):
        async with opened() as client:
            if run == 0:
                await connect(client)
            await observer.wait_for("CONNECTION_UPDATE", 2 * (run + 1))
            body = {"number": ANA, "text": "Oi"}
            answer = await client.post("/message/sendText/shop", json=body, headers=headers)
            ids.append(answer.json()["key"]["id"])
            await observer.wait_for("MESSAGES_UPDATE", 3)
    assert ids[0] == ids[1]
    assert len(await observer.wait_for("MESSAGES_UPDATE", 3)) == 3


async def test_after_a_restart_the_messages_continue(opened: Callable[[], Any], observer: Observer) -> None:
    for run in range(3):
        async with opened() as client:
            if run == 0:
                await connect(client, rate=200, messages=60, seed=1)
            await observer.wait_for("MESSAGES_UPSERT", 20 * (run + 1))
    ids = [data["key"]["id"] for data in await observer.wait_for("MESSAGES_UPSERT", 60)]
    assert len(ids) == len(set(ids)) == 60


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [({"fail_send": 1}, 502, "SIMULATED_FAILURE"), ({"limit_rate": 0.001}, 429, "RATE_LIMIT")],
)
async def test_refusals_reach_the_caller(
    client: httpx.AsyncClient, options: dict[str, Any], status: int, code: str
) -> None:
    await connect(client, **options)
    for text in ("one", "two"):
        answer = await client.post("/message/sendText/shop", json={"number": ANA, "text": text})
    assert (answer.status_code, answer.json()["response"]["code"]) == (status, code)
    if status == 429:
        assert 990 <= int(answer.headers["retry-after"]) <= 1000


async def test_the_network_logs_the_account_out(client: httpx.AsyncClient, observer: Observer) -> None:
    await connect(client, log_out_after="50ms")
    updates = await observer.wait_for("CONNECTION_UPDATE", 3)
    assert [(data["state"], data["statusReason"]) for data in updates][-1] == ("close", 401)
    answer = await client.post("/message/sendText/shop", json={"number": ANA, "text": "Oi"})
    assert answer.status_code == 409


async def test_a_request_of_the_network_becomes_an_event_once(
    client: httpx.AsyncClient, observer: Observer
) -> None:
    url = (await connect(client, app_secret="s3cret", verify_token="v3rify"))["ingestUrl"]
    query = {"hub.mode": "subscribe", "hub.verify_token": "v3rify", "hub.challenge": "42"}
    body = json.dumps({"messages": [{"id": "A1", "from": ANA, "text": "hi"}]}).encode()
    # The network has no key.
    async with httpx.AsyncClient(base_url=client.base_url, trust_env=False, verify=False) as network:
        challenge = await network.get(url, params=query)
        assert (challenge.status_code, challenge.text) == (200, "42")
        for secret, status in (("wrong", 401), ("s3cret", 200), ("s3cret", 200)):
            signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            headers = {"x-hub-signature-256": f"sha256={signature}"}
            answer = await network.post(url, content=body, headers=headers)
            assert answer.status_code == status, answer.text
    assert [data["key"]["id"] for data in await observer.wait_for("MESSAGES_UPSERT")] == ["A1"]


async def test_pictures_can_be_fetched_until_the_network_loses_them(
    client: httpx.AsyncClient, observer: Observer
) -> None:
    await connect(client, rate=1000, messages=20, seed=1)
    messages = await observer.wait_for("MESSAGES_UPSERT", 20)
    image = next(data["message"]["imageMessage"] for data in messages if "imageMessage" in data["message"])
    file = await client.get(image["url"])
    assert (file.status_code, file.headers["content-type"]) == (200, "image/png")
    assert len(file.content) == int(image["fileLength"])
    assert (await client.patch("/instance/options/shop", json={"lose_media": True})).status_code == 200
    await observer.wait_for("CONNECTION_UPDATE", 5)
    assert (await client.get(image["url"])).status_code == 404


async def test_options_are_described_checked_and_masked(client: httpx.AsyncClient) -> None:
    await connect(client, app_secret="s3cret-of-the-app")
    shown = (await client.get("/instance/options/shop")).json()
    assert shown["options"]["app_secret"] == "*" * 8
    assert shown["optionsSchema"]["properties"]["app_secret"]["writeOnly"] is True
    for wrong in ({"rate": -1}, {"slow_send": 5}, {"lose_media": "yes"}):
        answer = await client.patch("/instance/options/shop", json=wrong)
        assert answer.status_code == 400, answer.text
    refused = {"instanceName": "other", "integration": "simulator", "fail_send": 2}
    assert (await client.post("/instance/create", json=refused)).status_code == 400


async def test_settings_and_a_restart(client: httpx.AsyncClient, observer: Observer) -> None:
    await connect(client, qr_code=True, rate=200, chats=5)
    await observer.wait_for("MESSAGES_UPSERT", 20)
    await client.post("/settings/set/shop", json={"groupsIgnore": True, "readMessages": True})
    await observer.wait_for("MESSAGES_UPDATE", 5)
    before = len(await observer.wait_for("MESSAGES_UPSERT"))
    restarted = await client.post("/instance/restart/shop")
    assert restarted.status_code == 200, restarted.text
    await observer.wait_for("CONNECTION_UPDATE", 5)
    later = (await observer.wait_for("MESSAGES_UPSERT", before + 20))[before:]
    assert not any("participant" in data["key"] for data in later)
    assert len(await observer.wait_for("QRCODE_UPDATED")) == 1  # the account stays logged in


async def test_it_answers_every_call(client: httpx.AsyncClient) -> None:
    await connect(client)
    calls = (await client.get("/instance/capabilities/shop")).json()["calls"]
    assert {path for path, _, _ in CALLS} < set(calls)
    assert calls == list(ALL_CALLS)
