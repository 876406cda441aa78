"""An instance key learns nothing about another instance on its own paths."""

from collections.abc import AsyncIterator

import httpx
import pytest
import trio

from hookgw import Gateway
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one
from tests.public.core import NO_NEW_INSTANCE
from tests.public.web import AppApplication as Application

URL = "http://10.0.0.1/hook"
"""A URL that the address guard refuses."""


@pytest.fixture
async def client(
    app: Application, nursery: trio.Nursery, gateway: Gateway
) -> AsyncIterator[httpx.AsyncClient]:
    """With the nosy instance's key; the other instance has a delivery of the event ``order-1``."""
    for name in ("shop", "nosy"):
        await gateway.instances.create(name, token=f"the-key-of-{name}")
    async with open_client(app, nursery, apikey="the-key-of-nosy") as client:
        everything = {"apikey": KEY}
        await client.post("/webhook/set/shop/crm", json={"url": URL}, headers=everything)
        await client.post("/event/emit/shop", json=one(id="order-1"), headers=everything)
        yield client


async def their_delivery(client: httpx.AsyncClient) -> str:
    """Return the id of the other instance's delivery."""
    found = await client.get("/delivery/find/shop/order-1", headers={"apikey": KEY})
    name: str = found.json()["id"]
    return name


@pytest.mark.parametrize("method", ["find", "resend"])
@pytest.mark.parametrize(("theirs", "nobodys"), [("dlv_", "dlv_99"), ("order-1", "order-9")])
async def test_deliveries_of_another_instance_look_nonexistent(
    method: str, theirs: str, nobodys: str, client: httpx.AsyncClient
) -> None:
    if theirs == "dlv_":
        theirs = await their_delivery(client)
    verb = "GET" if method == "find" else "POST"
    seen, unknown = [
        await client.request(verb, f"/delivery/{method}/nosy/{name}") for name in (theirs, nobodys)
    ]
    assert seen.status_code == unknown.status_code == 404
    assert seen.text.replace(theirs, "…") == unknown.text.replace(nobodys, "…")


async def test_lists_and_replays_are_limited_to_the_own_instance(client: httpx.AsyncClient) -> None:
    for query in ("", "?state=dead", "?cursor=dlv_99", f"?cursor={await their_delivery(client)}"):
        answer = (await client.get(f"/delivery/list/nosy{query}")).json()
        assert answer == {"deliveries": [], "cursor": None}
    body = {"since": "1d", "state": "all"}
    assert (await client.post("/delivery/replay/nosy", json=body)).json() == {"replayed": 0}


async def test_event_ids_are_unique_per_instance(client: httpx.AsyncClient) -> None:
    by_header = await client.post("/event/emit/nosy", json=one(), headers={"idempotency-key": "order-1"})
    assert (by_header.json()["accepted"], by_header.json()["duplicates"]) == (1, 0)
    again = await client.post("/event/emit/nosy", json=one(id="order-1"))
    assert (again.json()["accepted"], again.json()["duplicates"]) == (0, 1)


async def test_labels_and_key_names_are_unique_per_instance(client: httpx.AsyncClient) -> None:
    assert (await client.get("/webhook/find/nosy/crm")).json() is None
    assert (await client.post("/webhook/set/nosy/crm", json={"url": URL})).status_code == 201
    assert (await client.post("/key/create/nosy", json={"name": "crm"})).status_code == 201
    assert [key["instance"] for key in (await client.get("/key/list/nosy")).json()] == ["nosy", "nosy"]


@pytest.mark.parametrize("name", ["shop", "nobody"])
async def test_other_instances_cannot_be_discovered(name: str, client: httpx.AsyncClient) -> None:
    assert (await client.get(f"/instance/fetchInstances?instanceName={name}")).json() == []
    created = await client.post("/instance/create", json={"instanceName": name, "token": "the-key-of-shop"})
    assert created.status_code == 403
    assert created.json()["response"]["message"] == [NO_NEW_INSTANCE]
