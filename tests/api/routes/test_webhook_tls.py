"""The field ``tls`` from ``set`` to the receiver: who is let in, what is shown, and what is refused."""

import datetime
import ssl

import httpx
import pytest
import trio
import trustme

from hookgw import Gateway
from hookgw.testing import open_receiver
from tests.api.routes.test_webhooks import set_webhook
from tests.public.kernel import MASK
from tests.public.records import NO_IDENTITY
from tests.support.certificates import certificate_of, judging, pem_of, requiring

AUTHORITY, CLIENTS = trustme.CA(), trustme.CA()
CERTIFICATE, KEY = certificate_of(CLIENTS)
TLS = {"ca": pem_of(AUTHORITY), "clientCertificate": CERTIFICATE, "clientKey": KEY, "serverName": "127.0.0.1"}
SHOWN = TLS | {"clientKey": MASK}
URL = "https://example.com/hook"
EVENT = {"event": "CALL", "data": {}}


async def test_the_key_is_masked_and_can_be_sent_back(client: httpx.AsyncClient, gateway: Gateway) -> None:
    answer = await set_webhook(client, tls=TLS)
    assert (answer["tls"], answer["warnings"]) == (SHOWN, [])
    assert (await client.get("/webhook/find/loja1")).json()["tls"] == SHOWN
    (listed,) = (await client.get("/webhook/list/loja1")).json()["registrations"]
    assert listed["tls"] == SHOWN
    again = await set_webhook(client, tls=answer["tls"] | {"serverName": None})
    assert again["tls"] == {name: value for name, value in SHOWN.items() if name != "serverName"}
    stored = gateway.registrations.get("loja1", "default").tls
    assert (stored.client_key, stored.server_name) == (KEY, None)
    assert (await set_webhook(client))["tls"] == again["tls"]
    for response in (await client.get("/audit/list"), await client.get("/webhook/list")):
        assert "PRIVATE KEY" not in response.text


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_an_empty_object_removes_it(client: httpx.AsyncClient, gateway: Gateway, method: str) -> None:
    assert (await set_webhook(client))["tls"] == {}
    await set_webhook(client, tls=TLS)
    body = {"url": URL, "tls": {}}
    assert (await client.request(method, "/webhook/set/loja1", json=body)).json()["tls"] == {}
    assert gateway.registrations.get("loja1", "default").tls == NO_IDENTITY
    entry = (await client.get("/audit/list")).json()["entries"][0]
    assert {change["field"] for change in entry["changes"]} == {f"tls.{name}" for name in TLS}
    assert not any(change.get("before") or change.get("after") for change in entry["changes"])


async def test_it_is_refused_with_the_reason(client: httpx.AsyncClient) -> None:
    old, old_key = certificate_of(CLIENTS, not_after=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    _, other_key = certificate_of(CLIENTS)
    for tls, reason in (
        ({"ca": "no"}, "tls.ca contains no PEM certificate"),
        ({"clientCertificate": CERTIFICATE}, "tls.clientCertificate needs its key"),
        ({"clientCertificate": CERTIFICATE, "clientKey": other_key}, "tls.clientKey does not fit"),
        ({"clientCertificate": old, "clientKey": old_key}, "tls.clientCertificate expired on 2020-01-01"),
        (SHOWN, "tls.clientKey is masked, but no key is stored"),
    ):
        for path, body in (
            ("/webhook/set/loja1", {"url": URL, "tls": tls}),
            ("/instance/create", {"instanceName": "new", "webhook": {"url": URL, "tls": tls}}),
        ):
            refused = await client.post(path, json=body)
            assert refused.status_code == 400, refused.text
            assert reason in refused.json()["response"]["message"][0]


async def test_it_has_no_effect_on_http(client: httpx.AsyncClient) -> None:
    answer = await set_webhook(client, url="http://example.com/hook", tls=TLS)
    assert answer["warnings"] == ["tls has no effect: the URL begins with http://."]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_deliveries_and_tests_present_the_certificate(
    client: httpx.AsyncClient, version: ssl.TLSVersion
) -> None:
    context = requiring(AUTHORITY, CLIENTS, version=version)
    async with open_receiver(ssl_context=context) as receiver:
        await set_webhook(client, url=receiver.url, tls=TLS)
        assert (await client.post("/webhook/test/loja1")).json()["outcome"] == "delivered"
        await client.post("/event/emit/loja1", json=EVENT)
        await receiver.wait_for(2)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_attempt_says_that_the_receiver_wants_a_certificate(
    client: httpx.AsyncClient, version: ssl.TLSVersion
) -> None:
    with judging(requiring(AUTHORITY, CLIENTS, version=version)) as port:
        await set_webhook(client, url=f"https://127.0.0.1:{port}/", tls={"ca": pem_of(AUTHORITY)})
        attempt = (await client.post("/webhook/test/loja1")).json()
    assert attempt["outcome"] == "unreachable"
    assert "requires a client certificate" in attempt["error"]


async def test_a_changed_identity_is_used_from_the_next_attempt_on(client: httpx.AsyncClient) -> None:
    context = requiring(AUTHORITY, CLIENTS)
    async with open_receiver(ssl_context=context) as receiver:
        await set_webhook(client, url=receiver.url, tls=TLS)
        await client.post("/event/emit/loja1", json=EVENT)
        await receiver.wait_for(1)
        await set_webhook(client, url=receiver.url, tls={"ca": pem_of(CLIENTS)})
        await client.post("/event/emit/loja1", json=EVENT)
        with trio.fail_after(10):
            while (lane := (await client.get("/lane/list")).json()[0])["lastError"] is None:  # noqa: ASYNC110 (a client)
                await trio.sleep(0.01)
        assert "certificate" in lane["lastError"]
        await set_webhook(client, url=receiver.url, tls=TLS)
        await receiver.wait_for(2)
