"""``/figures``: what became of events and deliveries over time."""

from typing import Any

import httpx
import msgspec
import pytest

from hookgw import Gateway
from hookgw.testing import Receiver
from tests.api.routes.test_events import one
from tests.public.config import OperationsSettings, Settings
from tests.support.waits import until


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
    await until(lambda: not gateway.backlog.count)
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


async def test_the_age_of_the_oldest_pending_is_noted_at_each_fold(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    for name in ("shop", "lab"):
        await client.post(f"/webhook/set/{name}", json={"url": "https://receiver.example/"})
        await client.post(f"/webhook/pause/{name}/default")
    emitted = gateway.clock.steady()
    await client.post("/event/emit/shop", json=one())
    await gateway.store.flush()
    ages = []
    for _ in range(2):
        await gateway.figures.fold()
        for query in ("", "?tag=tenant=acme", "/shop", "/shop?webhook=default"):
            series = (await client.get(f"/figures/find{query}")).json()
            age = series["total"]["oldestPending"]
            assert 0 < age <= gateway.clock.steady() - emitted + 0.001, query
            assert series["steps"][-1]["oldestPending"] == age
            assert series["oldestPending"] is not None
        ages.append(age)
    assert ages[0] <= ages[1]
    for query in ("/lab", "/lab?webhook=default", "?tag=tenant=b"):
        series = (await client.get(f"/figures/find{query}")).json()
        assert (series["steps"], series["total"]["oldestPending"]) == ([], None)


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


async def test_a_label_without_its_instance_says_what_is_missing(client: httpx.AsyncClient) -> None:
    response = await client.get("/figures/find?webhook=default")
    assert "name the instance" in response.text


async def test_a_label_of_an_unknown_instance_says_that_there_is_no_such_instance(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/figures/find/nobody?webhook=default")
    assert "The instance 'nobody' does not exist." in response.text


async def test_sparklines_have_every_part(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await client.post("/webhook/set/shop", json={"url": "https://receiver.example/", "enabled": False})
    found = await gateway.figures.sparklines(["reg_x"])
    assert [len(line) for line in found["reg_x"]] == [24, 24]


class TestOfAllInstances:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        refused = "http://127.0.0.1:9/"
        return msgspec.structs.replace(
            settings,
            global_webhooks=({"url": refused, "label": "audit"},),
            operations=OperationsSettings(url=refused),
        )

    async def test_what_waits_for_global_webhooks_is_no_instances(
        self, client: httpx.AsyncClient, gateway: Gateway
    ) -> None:
        async def pending(path: str) -> tuple[bool, bool]:
            series = (await client.get(f"/figures/find{path}")).json()
            return series["total"]["oldestPending"] is not None, series["oldestPending"] is not None

        gateway.operational.instance_quiet("shop", since=0.0, seconds=60.0, reason="none came")
        await gateway.operational.drain()
        await gateway.store.flush()
        assert gateway.backlog.of("operations")[0] == 1
        await gateway.figures.fold()
        assert await pending("") == (False, False)
        await client.post("/event/emit/shop", json=one())
        await gateway.store.flush()
        await gateway.figures.fold()
        for path in ("", "?webhook=audit"):
            assert await pending(path) == (True, True), path
        for path in ("/shop", "?tag=tenant=acme"):
            assert await pending(path) == (False, False), path
