from __future__ import annotations

import httpx
import pytest
import trio

from hookgw.api import operation
from hookgw.errors import StorageUnavailable
from hookgw.gateway import Gateway
from tests.api.test_app import shape_of


@pytest.fixture(autouse=True)
def without_key(client: httpx.AsyncClient) -> None:
    del client.headers["apikey"]


async def test_the_process_lives(client: httpx.AsyncClient) -> None:
    response = await client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_it_is_ready(client: httpx.AsyncClient) -> None:
    response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


async def test_it_is_not_ready_where_the_disk_refuses(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise StorageUnavailable("The disk is full.")

    monkeypatch.setattr(gateway.store, "check", refuse)
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert shape_of(response) == ["The disk is full."]


async def test_it_is_not_ready_where_the_disk_hangs(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.store, "check", trio.sleep_forever)
    monkeypatch.setattr(operation, "READY_PATIENCE", 0)
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert shape_of(response)
