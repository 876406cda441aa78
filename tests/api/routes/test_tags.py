"""Tags of instances, over HTTP."""

from typing import Any

import httpx
import pytest
import trio

from hookgw import Gateway
from tests.api.conftest import open_client, open_whole_gateway
from tests.public.config import Settings
from tests.public.web import AppApplication as Application

TAGS = {"plan": "gold", "tenant": "acme"}


async def tags_of(client: httpx.AsyncClient, instance: str = "loja1") -> Any:
    [found] = (await client.get("/instance/fetchInstances", params={"instanceName": instance})).json()
    assert found["instance"]["tags"] == found["tags"]
    return found["tags"]


async def test_tags_are_set_at_create_and_shown(client: httpx.AsyncClient) -> None:
    created = await client.post("/instance/create", json={"instanceName": "loja1", "tags": TAGS})
    assert created.status_code == 201
    assert created.json()["instance"]["tags"] == TAGS
    assert await tags_of(client) == TAGS
    created = await client.post("/instance/create", json={"instanceName": "loja2", "tags": None})
    assert created.json()["instance"]["tags"] == {} == await tags_of(client, "loja2")


async def test_a_change_replaces_all_of_them(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", tags=TAGS)
    changed = await client.patch("/instance/tags/loja1", json={"tags": {"tenant": "bolt"}})
    assert (changed.status_code, changed.json()) == (
        200,
        {"instanceName": "loja1", "tags": {"tenant": "bolt"}},
    )
    assert await tags_of(client) == {"tenant": "bolt"}
    assert gateway.registry.tagged([("tenant", "acme")]) == []
    assert [one.name for one in gateway.registry.tagged([("tenant", "bolt")])] == ["loja1"]
    assert (await client.patch("/instance/tags/loja1", json={"tags": {}})).json()["tags"] == {}
    assert gateway.registry.tagged([("tenant", "bolt")]) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tags": None},
        {"tags": [1]},
        {"tags": {"tenant": ""}},
        {"tags": {"ação": "x"}},
        {"tags": {"tenant": "😀"}},
        {"tags": {f"n{n}": "x" for n in range(17)}},
        {"tags": {}, "tag": {}},
        [1],
    ],
)
async def test_a_wrong_body_changes_nothing(body: Any, client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", tags=TAGS)
    refused = await client.patch("/instance/tags/loja1", json=body)
    assert refused.status_code == 400
    assert refused.json()["response"]["message"]
    assert await tags_of(client) == TAGS
    if isinstance(body, dict) and body.get("tags"):
        refused = await client.post("/instance/create", json={"instanceName": "loja2"} | body)
        assert refused.status_code == 400
        assert gateway.instances.find("loja2") is None


async def test_an_instances_own_key_cannot_change_them(
    app: Application, nursery: trio.Nursery, gateway: Gateway
) -> None:
    created = await gateway.instances.create("loja1", tags=TAGS)
    async with open_client(app, nursery, apikey=created.key) as own:
        assert (await own.patch("/instance/tags/loja1", json={"tags": {}})).status_code == 403
        assert (await own.patch("/instance/tags/unknown", json={"tags": {}})).status_code == 403
        assert (await own.patch("/instance/options/loja1", json={"tags": {}})).status_code == 400
        assert await tags_of(own) == TAGS


async def test_of_two_changes_at_once_the_later_one_stays(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    sets = [{"tenant": f"t{number}", f"n{number}": "x"} for number in range(8)]
    answered: list[dict[str, str]] = []

    async def change(tags: dict[str, str]) -> None:
        response = await client.patch("/instance/tags/loja1", json={"tags": tags})
        assert response.status_code == 200
        answered.append(response.json()["tags"])

    async with trio.open_nursery() as nursery:
        for tags in sets:
            nursery.start_soon(change, tags)
    last = gateway.instances.get("loja1").tags
    assert last in sets
    assert all(tags in sets for tags in answered)  # one of them, never a mixture
    assert [one.name for tags in sets for one in gateway.registry.tagged(tags.items())] == ["loja1"]


async def test_a_later_instance_of_the_name_begins_without_them(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1", tags=TAGS)
    assert (await client.delete("/instance/delete/loja1")).status_code == 200
    assert gateway.registry.tagged([("tenant", "acme")]) == []
    await client.post("/instance/create", json={"instanceName": "loja1"})
    assert await tags_of(client) == {}


async def test_the_audit_shows_changes(client: httpx.AsyncClient) -> None:
    await client.post("/instance/create", json={"instanceName": "loja1", "tags": TAGS})
    await client.patch("/instance/tags/loja1", json={"tags": {"tenant": "bolt"}})
    await client.patch("/instance/tags/loja1", json={"tags": {"tenant": "bolt"}})  # no change, no entry
    entries = (await client.get("/audit/list", params={"action": "instance.change"})).json()["entries"]
    entries += (await client.get("/audit/list", params={"action": "instance.create"})).json()["entries"]
    changes = [one for entry in entries for one in entry["changes"] if one["field"] == "tags"]
    assert changes == [
        {"field": "tags", "before": "plan=gold tenant=acme", "after": "tenant=bolt"},
        {"field": "tags", "before": None, "after": "plan=gold tenant=acme"},
    ]


async def test_they_outlive_a_restart(settings: Settings, tmp_path: Any) -> None:
    async with open_whole_gateway(settings, base=tmp_path) as gateway:
        await gateway.instances.create("loja1", tags=TAGS)
        await gateway.instances.create("loja2")
        await gateway.instances.change_tags("loja2", {"tenant": "acme"})
    async with open_whole_gateway(settings, base=tmp_path) as gateway:
        assert gateway.instances.get("loja1").tags == TAGS
        assert [one.name for one in gateway.registry.tagged([("tenant", "acme")])] == ["loja1", "loja2"]
        assert [one.name for one in gateway.registry.tagged(TAGS.items())] == ["loja1"]


async def test_the_list_of_those_that_carry_all_of_some(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", tags=TAGS)
    await gateway.instances.create("loja2", tags={"tenant": "acme"})
    await gateway.instances.create("loja3")
    for query, names in {
        "tag=tenant=acme": ["loja1", "loja2"],
        "tag=tenant=acme&tag=plan=gold": ["loja1"],
        "tag=tenant=acme&instanceName=loja2": ["loja2"],
        "tag=tenant=bolt": [],
        "tag=": ["loja1", "loja2", "loja3"],
    }.items():
        found = (await client.get(f"/instance/fetchInstances?{query}")).json()
        assert [one["name"] for one in found] == names, query
    assert (await client.get("/instance/fetchInstances?tag=acme")).status_code == 400


async def test_a_text_finds_instances_by_what_they_are(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", tags=TAGS)
    await gateway.instances.create("Loja2")
    changed = {
        "event": "CONNECTION_UPDATE",
        "data": {
            "instance": "Loja2",
            "state": "open",
            "wuid": "5511988887777@s.whatsapp.net",
            "profileName": "Padaria Sol",
        },
    }
    await client.post("/event/emit/Loja2", json=changed)
    for text, names in {
        "LOJA": ["Loja2", "loja1"],
        "tenant=acme": ["loja1"],
        "Gold": ["loja1"],
        "5511": ["Loja2"],
        "padaria": ["Loja2"],
        "nobody": [],
        "": ["Loja2", "loja1"],
    }.items():
        found = (await client.get("/instance/fetchInstances", params={"search": text})).json()
        assert [one["name"] for one in found] == names, text
