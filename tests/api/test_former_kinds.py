"""Kinds of plugins that are gone: events, deliveries and webhooks still have them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

import hookgw
from hookgw import EventKind
from hookgw.testing import Receiver
from tests.api.conftest import KEY, open_client, open_whole_gateway
from tests.public.config import Settings
from tests.support.application import create_app

# Near a built-in kind, so that a suggestion would hide it.
GONE = "MESSAGES_UPSERTED"
WEBHOOK = {"events": [GONE], "headers": {"x-a": "1:2"}}


class WithKind:
    @hookgw.hookimpl
    def hookgw_event_kinds(self) -> list[EventKind]:
        return [EventKind(name=GONE, meaning="Something of mine.")]


@asynccontextmanager
async def opened(settings: Settings, base: Path, **extra: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with open_whole_gateway(settings, base, extra) as gateway, trio.open_nursery() as nursery:
        async with open_client(create_app(gateway), nursery, apikey=KEY) as client:
            yield client
        nursery.cancel_scope.cancel()


@pytest.fixture
async def client(
    settings: Settings, tmp_path: Path, hookgw_receiver: Receiver
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway without the plugin of an event, and of the only webhook."""
    async with opened(settings, tmp_path, mine=WithKind()) as client:
        body = {"url": hookgw_receiver.url, **WEBHOOK}
        assert (await client.post("/webhook/set/shop", json=body)).status_code == 201
        emitted = await client.post("/event/emit/shop", json={"event": GONE, "data": {}})
        assert emitted.status_code == 202
        await hookgw_receiver.wait_for(1)
    async with opened(settings, tmp_path) as client:
        yield client


@pytest.mark.parametrize("path", ["/event/list/shop", "/event/list", "/delivery/list/shop", "/delivery/list"])
async def test_lists_can_be_asked_for_them(client: httpx.AsyncClient, path: str) -> None:
    for query in {"kind": GONE}, {"kind": "messages.upserted"}:
        response = await client.get(path, params=query)
        assert response.status_code == 200, response.text
        (found,) = response.json()[path.split("/")[1].replace("y", "ie") + "s"]
        assert found.get("kind", found.get("event")) == GONE
    refused = await client.get(path, params={"kind": "MESSAGES_UPSERTE"})
    assert "Did you mean MESSAGES_UPSERT?" in refused.text


async def test_deliveries_of_them_can_be_sent_again_and_cancelled(client: httpx.AsyncClient) -> None:
    asked = {"since": "1h", "kinds": [GONE], "dryRun": True}
    replay = await client.post("/delivery/replay/shop", json={**asked, "state": "all"})
    assert (replay.status_code, replay.json()["matching"]) == (200, 1)
    cancelled = await client.post("/delivery/cancel/shop", json={"kinds": [GONE], "dryRun": True})
    assert (cancelled.status_code, cancelled.json()["matching"]) == (200, 0)
    missed = await client.post(
        "/webhook/backfill/shop", json={"since": "1h", "events": [GONE], "dryRun": True}
    )
    assert (missed.status_code, missed.json()["count"]) == (200, 0)


async def test_what_was_exported_changes_nothing(client: httpx.AsyncClient) -> None:
    exported = await client.get("/apply")
    document = exported.json()["document"]
    assert document["instances"]["shop"]["webhooks"]["default"]["events"] == [GONE]
    document["instances"]["shop"]["webhooks"]["default"]["headers"] = {}
    document["name"] = "mine"
    applied = await client.post("/apply", json=document, params={"dryRun": "true"})
    assert applied.status_code == 200, applied.text
    (change,) = [one for one in applied.json()["changes"] if one["kind"] == "webhook"]
    assert change["fields"] == ["headers"]


async def test_a_webhook_can_be_sent_back(client: httpx.AsyncClient) -> None:
    before = (await client.get("/webhook/find/shop")).json()
    stored = await client.post("/webhook/set/shop", json=before)
    assert stored.status_code == 201, stored.text
    changed = await client.patch("/webhook/set/shop", json={"events": [GONE, "CONNECTION_UPDATE"]})
    assert changed.json()["events"] == [GONE, "CONNECTION_UPDATE"]


async def test_the_test_of_a_webhook_sends_a_kind_that_it_wants(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    assert (await client.post("/webhook/test/shop")).json()["outcome"] == "delivered"
    assert hookgw_receiver.requests[-1].header("x-event-type") == GONE
    sent = await client.post("/webhook/test/shop", json={"event": GONE, "data": {"n": 1}})
    assert sent.json()["outcome"] == "delivered"
    assert hookgw_receiver.requests[-1].json["data"] == {"n": 1}


async def test_doctor_says_why_nothing_comes(client: httpx.AsyncClient) -> None:
    checks = (await client.get("/diagnosis/shop")).json()["checks"]
    (found,) = [one for one in checks if one["check"] == "webhook"]
    assert found["found"] == f"No plugin adds the kinds that it is for ({GONE}): nothing comes."


async def test_no_event_of_them_is_accepted(client: httpx.AsyncClient) -> None:
    refused = await client.post("/event/emit/shop", json={"event": GONE, "data": {}})
    assert refused.status_code == 400
    assert GONE not in [one["name"] for one in (await client.get("/event/kinds")).json()]
