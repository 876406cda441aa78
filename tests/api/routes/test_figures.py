"""``/figures``: what became of events and deliveries over time."""

from typing import Any

import httpx
import pytest

from hookgw import Gateway
from hookgw.testing import Receiver
from tests.api.routes.test_events import one


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("shop", tags={"tenant": "acme"})
    await gateway.instances.create("lab", tags={"tenant": "acme"})
    await gateway.instances.create("other", tags={"tenant": "b"})
    return gateway


async def total(client: httpx.AsyncClient, path: str = "/figures/find", key: str | None = None) -> Any:
    response = await client.get(path, headers={} if key is None else {"apikey": key})
    assert response.status_code == 200, response.text
    return response.json()["total"]


async def limited(client: httpx.AsyncClient, **limits: Any) -> str:
    made = await client.post("/key/create", json={"name": f"k{len(str(limits))}", **limits})
    assert made.status_code == 201, made.text
    return str(made.json()["key"])


async def counts(client: httpx.AsyncClient, path: str, key: str | None = None) -> tuple[int, int]:
    found = await total(client, path, key)
    return found["accepted"], found["delivered"]


async def test_a_series_tells_what_happened(
    client: httpx.AsyncClient, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    await hookgw_receiver.wait_for(1)
    await gateway.store.flush()
    for query in ("/shop", "/shop?webhook=default&span=1h", "?tag=tenant=acme"):
        await gateway.figures.fold()
        response = await client.get(f"/figures/find{query}")
        series = response.json()
        assert response.status_code == 200, response.text
        found = series["total"]
        assert (found["accepted"], found["delivered"], found["dead"], found["failed"]) == (1, 1, 0, {})
        assert found["receiver"]["p50"] <= found["receiver"]["p99"]
        assert found["whole"]["p95"] > 0
        assert sum(step["accepted"] for step in series["steps"]) == 1
        assert series["oldestPending"] is None
    assert series["span"] == "24h"
    assert series["step"] == 1800


async def test_a_key_gets_the_sum_of_what_it_reaches(client: httpx.AsyncClient, gateway: Gateway) -> None:
    for number, name in enumerate(("shop", "lab", "lab", "other", "other", "other")):
        await client.post(f"/event/emit/{name}", json={**one(), "id": f"e{number}"})
    await gateway.figures.fold()
    acme = await limited(client, tags={"tenant": "acme"})
    two = await limited(client, instances=["shop", "other"])
    assert await counts(client, "/figures/find") == (6, 0)
    assert await counts(client, "/figures/find", acme) == (3, 0)
    assert await counts(client, "/figures/find?tag=tenant=b", acme) == (0, 0)
    assert await counts(client, "/figures/find", two) == (4, 0)
    assert await counts(client, "/figures/find?tag=tenant=acme", two) == (1, 0)
    for path in ("/figures/find/other", "/figures/find?webhook=x"):
        assert (await client.get(path, headers={"apikey": acme})).status_code == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/figures/find?span=2h", 400),
        ("/figures/find?tag=nonsense", 400),
        ("/figures/find/shop?webhook=missing", 404),
        ("/figures/find/nobody", 404),
        ("/figures/find?webhook=missing", 404),
    ],
)
async def test_what_is_refused(client: httpx.AsyncClient, path: str, status: int) -> None:
    response = await client.get(path)
    assert response.status_code == status, response.text


async def test_sparklines_have_every_part(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await client.post("/webhook/set/shop", json={"url": "https://receiver.example/", "enabled": False})
    found = await gateway.figures.sparklines(["reg_x"])
    assert [len(line) for line in found["reg_x"]] == [24, 24]
