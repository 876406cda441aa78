"""``/audit``: who may see which changes; ``tests/gateway/test_audit.py`` tests what is recorded."""

from typing import Any

import httpx
import pytest

from hookgw import Gateway

OWN = {"apikey": "the-key-of-loja1"}


@pytest.fixture
async def client(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """With two instances, whose registrations their own keys set."""
    for name in ("loja1", "loja2"):
        created = await client.post(
            "/instance/create", json={"instanceName": name, "token": f"the-key-of-{name}"}
        )
        assert created.status_code == 201
        own = {"apikey": f"the-key-of-{name}"}
        body = {"url": "https://me:pw@crm.example/hook", "headers": {"authorization": "Bearer 8sK3"}}
        assert (await client.post(f"/webhook/set/{name}", json=body, headers=own)).status_code < 300
    return client


async def listed(client: httpx.AsyncClient, path: str = "", **more: Any) -> list[dict[str, Any]]:
    response = await client.get(f"/audit/list{path}", **more)
    assert response.status_code == 200, response.text
    entries: list[dict[str, Any]] = response.json()["entries"]
    return entries


def shown(entries: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(entry["action"], entry["instance"], entry["actor"]["name"]) for entry in entries]


async def test_a_global_key_sees_who_changed_what(client: httpx.AsyncClient) -> None:
    entries = await listed(client)
    assert shown(entries) == [
        ("registration.create", "loja2", "default"),
        ("instance.create", "loja2", "configuration"),
        ("registration.create", "loja1", "default"),
        ("instance.create", "loja1", "configuration"),
    ]
    assert entries[0].keys() == {"at", "action", "instance", "subject", "actor", "changes", "details"}
    assert entries[0]["subject"] == "default"
    assert entries[0]["actor"] == {
        "kind": "key",
        "name": "default",
        "instance": "loja2",
        "address": "127.0.0.1",
        "via": None,
        "person": None,
    }
    assert entries[0]["changes"] == [
        {"field": "url", "before": None, "after": "https://crm.example/hook"},
        {"field": "headers.authorization", "before": None, "after": None},
    ]


async def test_a_key_of_an_instance_sees_its_own_and_not_where_operators_are(
    client: httpx.AsyncClient,
) -> None:
    by_itself, by_the_operator = await listed(client, "/loja1", headers=OWN)
    assert by_itself["actor"]["address"] == "127.0.0.1"
    assert by_the_operator["actor"]["name"] == "configuration"
    assert by_the_operator["actor"]["address"] is None
    assert shown(await listed(client, "/loja1")) == shown([by_itself, by_the_operator])
    assert shown(await listed(client, headers=OWN)) == shown([by_itself, by_the_operator])
    assert (await client.get("/audit/list/loja2", headers=OWN)).status_code == 403


async def test_a_later_instance_of_the_name_sees_nothing_of_the_former(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await client.delete("/instance/delete/loja1")
    assert (await listed(client, "/loja1"))[0]["action"] == "instance.delete"
    await client.post("/instance/create", json={"instanceName": "loja1", "token": "another-key-of-loja1"})
    found = await listed(client, "/loja1", headers={"apikey": "another-key-of-loja1"})
    assert shown(found) == [("instance.create", "loja1", "configuration")]
    assert len(await listed(client, "/loja1")) > 3


async def test_no_secret_is_in_it(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/rotateSecret/loja1", headers=OWN)
    key = (await client.post("/key/create/loja1", json={"name": "n8n"}, headers=OWN)).json()["key"]
    text = (await client.get("/audit/list")).text
    secret = (await client.get("/webhook/secret/loja1", headers=OWN)).json()
    for value in ("8sK3", "pw", "the-key-of", key, *secret.values()):
        assert str(value) not in text


async def test_filters_and_pages(client: httpx.AsyncClient) -> None:
    assert len(await listed(client, params={"action": "registration"})) == 2
    assert await listed(client, params={"action": "registration.delete"}) == []
    for unknown in ("registration.", "registration.created", "Key", "é" * 100):
        response = await client.get("/audit/list", params={"action": unknown})
        assert response.status_code == 400
        (message,) = response.json()["response"]["message"]
        assert message.startswith("action must be one of instance, registration, key, ")
        assert message.endswith(f"problem.unmute, not {unknown[:64]!r}.")
    assert await listed(client, params={"until": "2001-01-01T00:00:00Z"}) == []
    for since in ("2001-01-01T00:00:00Z", "2001-01-01 00:00:00Z", "2001-01-01 00:00:00 01:00"):
        assert len(await listed(client, params={"since": since, "limit": ""})) == 4
    first = (await client.get("/audit/list", params={"limit": 3})).json()
    rest = (await client.get("/audit/list", params={"limit": 3, "cursor": first["cursor"]})).json()
    assert (len(first["entries"]), len(rest["entries"]), rest["cursor"]) == (3, 1, None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "since=yesterday", "cursor=x"])
async def test_a_wrong_query_is_refused(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/audit/list?{query}")).status_code == 400
