from __future__ import annotations

from typing import Any

import httpx
import pytest

from hookgw.gateway.gateway import Gateway
from tests.api.test_app import shape_of

URL = "https://example.com/hook"


async def test_create_answers_instance_and_key(client: httpx.AsyncClient) -> None:
    response = await client.post("/instance/create", json={"instanceName": "loja1"})
    assert response.status_code == 201
    answer = response.json()
    assert list(answer) == ["instance", "hash"]
    assert answer["instance"]["instanceName"] == "loja1"
    assert answer["instance"]["status"] == "close"
    found = await client.get("/webhook/find/loja1", headers={"apikey": answer["hash"]})
    assert found.status_code == 200


async def test_create_with_a_webhook_a_token_and_the_integration_of_known_clients(
    client: httpx.AsyncClient,
) -> None:
    body = {
        "instanceName": "loja1",
        "token": "a-token-of-the-caller",
        "integration": "WHATSAPP-BAILEYS",
        "qrcode": True,
        "webhook": {"url": URL, "byEvents": True, "events": ["QRCODE_UPDATED"]},
    }
    answer = (await client.post("/instance/create", json=body)).json()
    assert (answer["hash"], answer["instance"]["integration"]) == ("a-token-of-the-caller", None)
    assert (answer["webhook"]["url"], answer["webhook"]["events"]) == (URL, ["QRCODE_UPDATED"])
    assert len(answer["webhook"]["warnings"]) == 2
    found = (await client.get("/webhook/find/loja1", headers={"apikey": answer["hash"]})).json()
    assert found | {"warnings": []} == answer["webhook"] | {"warnings": []}


async def test_create_warns_without_a_webhook_too(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/instance/create", json={"instanceName": "loja1", "odd": 1})).json()
    assert answer["warnings"] == ["odd is an unknown field; it was ignored."]


async def test_a_name_can_be_taken_once(client: httpx.AsyncClient) -> None:
    assert (await client.post("/instance/create", json={"instanceName": "loja1"})).status_code == 201
    response = await client.post("/instance/create", json={"instanceName": "loja1", "webhook": URL})
    assert response.status_code == 403
    assert "'loja1'" in shape_of(response)[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"instanceName": "a b"},
        {"instanceName": "x" * 129},
        {"instanceName": None},
        {"integration": "no-such-connector"},
        {"webhook": "ftp://x"},
        {"webhook": {"url": URL, "plugins": {"no_such_plugin": {}}}},
    ],
)
async def test_a_bad_create_leaves_nothing(
    fields: dict[str, Any], client: httpx.AsyncClient, gateway: Gateway
) -> None:
    response = await client.post("/instance/create", json={"instanceName": "loja1"} | fields)
    assert response.status_code == 400
    assert shape_of(response)
    assert gateway.instances.all() == []


async def test_only_the_global_key_creates(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    response = await client.post("/instance/create", json={"instanceName": "b"}, headers={"apikey": key})
    assert response.status_code == 403


async def test_the_list_shows_what_the_key_may_see(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    await gateway.instances.create("loja2")

    async def names(query: str = "", **headers: str) -> list[str]:
        return [
            one["name"]
            for one in (await client.get(f"/instance/fetchInstances{query}", headers=headers)).json()
        ]

    assert await names() == ["loja1", "loja2"]
    assert await names("?instanceName=loja2") == ["loja2"]
    assert await names(apikey=key) == ["loja1"]
    assert await names("?instanceName=loja2", apikey=key) == []


async def test_the_list_has_what_older_and_newer_clients_read(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    instance, _, _ = await gateway.instances.create("loja1", integration="simulator")
    (shown,) = (await client.get("/instance/fetchInstances")).json()
    assert (shown["id"], shown["connectionStatus"]) == (instance.id, "close")
    assert shown["instance"]["instanceId"] == instance.id
    assert shown["instance"]["integration"] == "simulator"


async def test_an_instance_without_a_connector(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    state = (await client.get("/instance/connectionState/loja1")).json()
    assert state == {"instance": {"instanceName": "loja1", "state": "close"}}
    assert (await client.get("/instance/connect/loja1")).status_code == 409
    assert (await client.delete("/instance/logout/loja1")).status_code == 409
    sent = await client.post("/message/sendText/loja1", json={"number": "1", "text": "Oi"})
    assert sent.status_code == 409


async def test_a_connected_instance(client: httpx.AsyncClient) -> None:
    body = {"instanceName": "loja1", "integration": "simulator"}
    assert (await client.post("/instance/create", json=body)).status_code == 201
    connected = (await client.get("/instance/connect/loja1")).json()
    assert connected["instance"]["instanceName"] == "loja1"
    assert (await client.delete("/instance/logout/loja1")).json()["response"][
        "message"
    ] == "Instance logged out"
    assert (await client.get("/instance/connectionState/loja1")).json()["instance"]["state"] == "close"


async def test_a_closed_connection_has_a_reason(client: httpx.AsyncClient) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1", "integration": "simulator"})
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]
    assert state["reason"] == "It has not been connected since hookgw started."
    (listed,) = (await client.get("/instance/fetchInstances")).json()
    assert listed["disconnectionReason"] == state["reason"]
    await client.get("/instance/connect/loja1")
    await client.delete("/instance/logout/loja1")
    state = (await client.get("/instance/connectionState/loja1")).json()["instance"]
    assert state["reason"] == "The instance was logged out of its connector."


async def test_bad_messages_are_refused_first(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    response = await client.post("/message/sendText/loja1", json={"number": 5})
    assert response.status_code == 400
    assert shape_of(response) == ["text is missing."]


async def test_delete(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    await client.post("/webhook/set/loja1", json={"url": URL})
    response = await client.delete("/instance/delete/loja1")
    assert response.json()["response"] == {"message": "Instance deleted"}
    assert (await client.get("/webhook/find/loja1", headers={"apikey": key})).status_code == 401
    assert (await client.delete("/instance/delete/loja1")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/instance/connectionState/nobody"),
        ("GET", "/instance/connect/nobody"),
        ("DELETE", "/instance/logout/nobody"),
        ("DELETE", "/instance/delete/nobody"),
        ("POST", "/message/sendText/nobody"),
        ("POST", "/event/emit/nobody"),
        ("GET", "/delivery/list/nobody"),
        ("GET", "/delivery/find/nobody/dlv_1"),
    ],
)
async def test_unknown_instances(method: str, path: str, client: httpx.AsyncClient) -> None:
    response = await client.request(method, path)
    assert response.status_code == 404
    assert shape_of(response) == ["The instance 'nobody' does not exist."]
