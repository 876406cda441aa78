"""The generic way in, in a real gateway, driven over HTTP as a sender does it."""

import base64
import gzip
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import Receiver
from tests.api.conftest import KEY, open_client
from tests.first_party.webhook_schemes import BODY, FORM, SENDERS
from tests.public.app import open_gateway
from tests.public.config import (
    AuthSettings,
    DeliverySettings,
    EventsSettings,
    LimitsSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.delivery import sign
from tests.public.kernel import Size, signing_key
from tests.support.application import create_app

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SIGNED = {"kind": "/event", "secret": SECRET}
PAYLOADS = Path(__file__).parents[1] / "payloads"


@pytest.fixture
async def client(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway that knows a kind of its own, and refuses payloads that violate the schema of their kind."""
    settings = Settings(
        auth=AuthSettings(global_key=KEY),
        storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
        events=EventsSettings(validate="strict", max_data=Size(100_000)),
        plugins=PluginsSettings(options={"webhook": {"kinds": {"ORDER_PAID": "An order was paid."}}}),
    )
    async with (
        open_gateway(settings, base=tmp_path) as gateway,
        open_client(create_app(gateway), nursery, apikey=KEY) as client,
    ):
        yield client


async def connect(client: httpx.AsyncClient, receiver: Receiver, **options: Any) -> str:
    """Return the ``ingestUrl`` of a new instance, whose events the receiver gets."""
    body = {"instanceName": "shop", "integration": "webhook", **options}
    created = await client.post("/instance/create", json=body)
    assert created.status_code == 201, created.text
    assert "warnings" not in created.json()
    registered = await client.post(
        "/webhook/set/shop", json={"url": receiver.url, "events": ["ORDER_PAID", "MESSAGES_UPSERT"]}
    )
    assert registered.status_code == 201, registered.text
    connected = (await client.get("/instance/connect/shop")).json()
    assert connected["instance"]["state"] == "open"
    url: str = connected["ingestUrl"]
    return url


async def post(client: httpx.AsyncClient, url: str, raw: bytes, message_id: str = "evt_1") -> httpx.Response:
    now = int(time.time())
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign([signing_key(SECRET)], message_id, now, raw),
        "content-type": "application/json",
        "apikey": "",
    }
    return await client.post(url, content=raw, headers=headers)


async def test_the_receiver_gets_the_bytes_and_the_id(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    url = await connect(client, hookgw_receiver, **{**SIGNED, "kind": "ORDER_PAID"})
    raw = (PAYLOADS / "big-integers.json").read_bytes()
    for _ in range(2):
        answer = await post(client, url, raw)
        assert (answer.status_code, answer.content) == (200, b"")
    [request] = await hookgw_receiver.wait_for(1)
    assert raw.strip() in request.body
    assert request.event_id == "evt_1"
    envelope = request.json
    assert (envelope["event"], envelope["instance"]) == ("ORDER_PAID", "shop")
    # The whole body, with its own envelope.
    assert envelope["data"]["data"]["fileLength"] == 18446744073709551615


async def test_a_sender_that_only_takes_a_url_proves_itself_by_what_is_in_it(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    basic = base64.b64encode(b"gateway:a-long-secret").decode()
    proof = {"header": "authorization", "value": f"Basic {basic}"}
    url = await connect(client, hookgw_receiver, kind="ORDER_PAID", **proof)
    signed_in = httpx.BasicAuth("gateway", "a-long-secret")  # as a URL with both is sent
    for auth, status in ((httpx.BasicAuth("gateway", "wrong"), 401), (signed_in, 200)):
        answer = await client.post(url, json={"number": 17}, auth=auth, headers={"apikey": ""})
        assert answer.status_code == status
    [request] = await hookgw_receiver.wait_for(1)
    assert request.json["data"] == {"number": 17}


async def test_a_kind_of_the_configuration_takes_any_json(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    url = await connect(client, hookgw_receiver, **{**SIGNED, "kind": "order.paid"})
    bodies: list[Any] = [[1, 2.50], "text", None, {"b": 1, "a": 2}, 12345678901234567890123]
    for number, body in enumerate(bodies):
        assert (await post(client, url, json.dumps(body).encode(), f"evt_{number}")).status_code == 200
    requests = await hookgw_receiver.wait_for(len(bodies))
    assert [request.json["data"] for request in requests] == bodies
    assert {request.json["event"] for request in requests} == {"ORDER_PAID"}


async def test_refusals_are_final_and_say_why(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    url = await connect(client, hookgw_receiver, **SIGNED)
    for raw, said in (
        (b'{"event": "order.refunded"}', "'order.refunded' is not a known event kind"),
        (b'{"event": "PLUGIN_FAILING"}', "PLUGIN_FAILING is an operational event, which only hookgw raises"),
        (b'{"event": "MESSAGES_UPSERT"}', '\\"key\\" is a required property'),
        (b'{"event": "ORDER_PAID", "a": 1, "a": 2}', "has the name 'a' twice in one object"),
        (b'{"event": "ORDER_PAID", "t": "' + b"x" * 100_000 + b'"}', "the limit is 100000"),
        (b'{"event": "ORDER_PAID", "t": [' + b"0," * 49_000 + b"0]}", ""),
        (b'{"event": "ORDER_PAID", "t": [' + b"[[" * 150 + b"]]" * 150 + b"]}", "is nested too deeply"),
        (b"event=ORDER_PAID", "The body is not JSON"),
    ):
        answer = await post(client, url, raw)
        assert (answer.status_code, said in answer.text) == (400 if said else 200, True), answer.text


async def test_a_wrong_proof_is_401(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    url = await connect(client, hookgw_receiver, **SIGNED)
    answer = await client.post(url, content=b"{}", headers={"apikey": ""})
    assert (answer.status_code, "webhook-id is missing" in answer.text) == (401, True)


async def test_it_sends_nothing(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    await connect(client, hookgw_receiver, **SIGNED)
    answer = await client.post("/message/sendText/shop", json={"number": "5511988887777", "text": "hi"})
    assert answer.status_code == 501
    calls = (await client.get("/instance/capabilities/shop")).json()["calls"]
    assert calls == ["findChats", "findContacts", "findMessages", "restart"]


async def test_wrong_options_create_nothing(client: httpx.AsyncClient) -> None:
    for options, said in (
        ({"kind": "/event"}, "The sender must prove itself"),
        ({"secret": SECRET}, "kind is missing."),
        ({**SIGNED, "kind": "order.refunded"}, "kind: 'order.refunded' is not a known event kind"),
        ({**SIGNED, "kind": "event"}, "A JSON pointer begins with /."),
        ({**SIGNED, "kind": "plugin.failing"}, "kind: PLUGIN_FAILING is an operational event, which only"),
        ({**SIGNED, "secret": "planted-secret"}, "secret must be whsec_"),
        ({**SIGNED, "id": "planted"}, "id: "),
        ({"kind": "/event", "header": "x token", "value": "v"}, "header: "),
        ({"kind": "/event", "header": "x-token", "value": " planted"}, "value: "),
    ):
        body = {"instanceName": "shop", "integration": "webhook", **options}
        answer = await client.post("/instance/create", json=body)
        assert (answer.status_code, said in answer.text) == (400, True), answer.text
        assert "planted" not in answer.text
        assert "text" not in [error["id"] for error in answer.json()["response"]["errors"]]
    assert (await client.get("/instance/fetchInstances")).json() == []


async def test_changed_options_count_at_once(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    url = await connect(client, hookgw_receiver, **SIGNED)
    refused = await client.patch("/instance/options/shop", json={"secret": None})
    assert (refused.status_code, "must prove itself" in refused.text) == (400, True)
    changed = await client.patch(
        "/instance/options/shop", json={"secret": None, "header": "x-token", "value": "t0ken"}
    )
    assert changed.json()["options"] == {"kind": "/event", "header": "x-token", "value": "********"}
    answer = await client.post(url, json={"event": "ORDER_PAID"}, headers={"apikey": "", "X-Token": "t0ken"})
    assert answer.status_code == 200, answer.text
    await hookgw_receiver.wait_for(1)


BY_GITHUB = {
    "kind": "header:x-github-event",
    "otherwise": "ORDER_PAID",
    "scheme": "github",
    "secret": SENDERS["github"].secret,
}


async def test_the_first_of_two_signatures_counts(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    url = await connect(client, hookgw_receiver, **BY_GITHUB)
    genuine = SENDERS["github"].request(0)
    headers = [*{**genuine.headers, "x-github-event": "push", "apikey": ""}.items()]
    wrong = ("x-hub-signature-256", "sha256=" + "0" * 64)
    refused = await client.post(url, content=BODY, headers=[wrong, *headers])
    assert refused.status_code == 401
    accepted = await client.post(url, content=BODY, headers=[*headers, wrong])
    assert accepted.status_code == 200, accepted.text
    [request] = await hookgw_receiver.wait_for(1)
    assert (request.event_id, request.json["event"]) == (genuine.headers["x-github-delivery"], "ORDER_PAID")


async def test_a_signed_body_with_a_content_encoding_is_415(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    url = await connect(client, hookgw_receiver, **BY_GITHUB)
    raw = gzip.compress(BODY)
    genuine = SENDERS["github"].request(0, body=raw)
    headers = {**genuine.headers, "content-encoding": "gzip", "apikey": ""}
    assert (await client.post(url, content=raw, headers=headers)).status_code == 415


async def test_challenges_are_answered(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    url = await connect(client, hookgw_receiver, **BY_GITHUB, verify_token="t0ken")
    query = {"hub.mode": "subscribe", "hub.verify_token": "t0ken", "hub.challenge": "42"}
    answer = await client.get(url, params=query, headers={"apikey": ""})
    assert (answer.status_code, answer.text) == (200, "42")
    query["hub.verify_token"] = "other"
    assert (await client.get(url, params=query, headers={"apikey": ""})).status_code == 403
    options = (await client.get("/instance/fetchInstances")).text
    assert SENDERS["github"].secret not in options
    assert "t0ken" not in options


async def test_twilio_signs_the_url_that_it_calls(
    tmp_path: Path, nursery: trio.Nursery, hookgw_receiver: Receiver
) -> None:
    settings = Settings(
        auth=AuthSettings(global_key=KEY),
        server=ServerSettings(public_url="https://hooks.example/base"),
        storage=StorageSettings(path=str(tmp_path / "other.db"), min_free=Size(0)),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
        plugins=PluginsSettings(options={"webhook": {"kinds": {"ORDER_PAID": "An order was paid."}}}),
    )
    async with (
        open_gateway(settings, base=tmp_path) as gateway,
        open_client(create_app(gateway), nursery, apikey=KEY) as client,
    ):
        url = await connect(client, hookgw_receiver, kind="ORDER_PAID", scheme="twilio", secret="a token")
        assert url.startswith("https://hooks.example/base/ingest/shop/")
        query = "?x=a%2Fb+c&x=2"
        content = f"{url}/sms{query}Bodyhi theré".encode()
        signature = base64.b64encode(hmac.new(b"a token", content, "sha1").digest()).decode()
        headers = {**FORM, "x-twilio-signature": signature, "apikey": ""}
        at = url.removeprefix("https://hooks.example/base")
        answer = await client.post(f"{at}/sms{query}", content=b"Body=hi+ther%C3%A9", headers=headers)
        assert (answer.status_code, answer.text) == (200, "<Response/>"), answer.text
        refused = await client.post(f"{at}/sms?x=2", content=b"Body=hi+ther%C3%A9", headers=headers)
        assert refused.status_code == 401
        [request] = await hookgw_receiver.wait_for(1)
        assert request.json["data"] == {"Body": "hi theré"}


async def test_what_never_has_room_is_refused_for_good(
    tmp_path: Path, nursery: trio.Nursery, hookgw_receiver: Receiver
) -> None:
    """503 would make the sender repeat it, and the plugin would count as failing."""
    settings = Settings(
        auth=AuthSettings(global_key=KEY),
        storage=StorageSettings(path=str(tmp_path / "other.db"), min_free=Size(0)),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",)),
        limits=LimitsSettings(deliveries=1),
        plugins=PluginsSettings(options={"webhook": {"kinds": {"ORDER_PAID": "An order was paid."}}}),
    )
    async with (
        open_gateway(settings, base=tmp_path) as gateway,
        open_client(create_app(gateway), nursery, apikey=KEY) as client,
    ):
        url = await connect(client, hookgw_receiver, **SIGNED)
        second = await client.post("/webhook/set/shop/second", json={"url": hookgw_receiver.url})
        assert second.status_code == 201
        answer = await post(client, url, b'{"event": "ORDER_PAID", "data": 1}')
        assert answer.status_code == 413, answer.text
        assert "limits.deliveries" in answer.text


async def test_twilio_needs_the_public_url(client: httpx.AsyncClient) -> None:
    body = {"instanceName": "shop", "integration": "webhook", "kind": "ORDER_PAID", "scheme": "twilio"}
    answer = await client.post("/instance/create", json={**body, "secret": "a token"})
    assert (answer.status_code, "server.public_url" in answer.text) == (400, True)
