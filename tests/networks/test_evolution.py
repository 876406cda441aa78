"""In front of an Evolution API: a real server, killed at random moments; and switching over and back."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.networks.evolution import KEY, Evolution, serving
from tests.networks.gateway import Gateway, running_gateway

MESSAGES = 50
"""Of each sender."""

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


@asynccontextmanager
async def in_front(folder: Path) -> AsyncIterator[tuple[Gateway, Evolution, dict[str, str]]]:
    """Run a gateway, and a server with the instance ``shop``; give the options that lead there."""
    evolution = Evolution(retry_delay=0.05, longest_delay=0.2)
    evolution.attempts = 1_000  # Evolution API repeats for 20 minutes, and a test is over in seconds
    evolution.add("shop")
    async with (
        serving(evolution) as url,
        running_gateway(folder, {"evolution": {"servers": [url]}}) as gateway,
    ):
        yield gateway, evolution, {"base_url": url, "api_key": evolution.accounts["shop"].token}


def texts(envelopes: list[dict[str, Any]]) -> list[str]:
    return [one["message"]["conversation"] for one in envelopes]


async def test_nothing_is_lost_or_doubled_through_kills(tmp_path: Path) -> None:
    async with in_front(tmp_path) as (gateway, evolution, options):
        await gateway.connect("shop", "evolution", **options)
        shop = evolution.accounts["shop"]
        progress = dict.fromkeys(("ana", "bob"), 0)

        async def write(sender: str) -> None:
            for number in range(MESSAGES):
                posted = evolution.receive("shop", f"{sender} {number}")
                assert posted is not None
                await posted.is_done.wait()
                progress[sender] += 1
                if random.random() < 0.2:  # the answer was lost on its way: the same object comes again
                    assert shop.webhook is not None
                    await evolution.repeat(posted, shop.webhook["headers"])

        async with trio.open_nursery() as nursery:
            for sender in progress:
                nursery.start_soon(write, sender)
            for part in (1, 2):
                while min(progress.values()) < part * MESSAGES // 3 + random.randrange(10):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                await gateway.kill()
                if part == 2:
                    assert shop.webhook is not None
                    shop.webhook["webhookBase64"] = True  # somebody changes it
                await gateway.start()
        body = {"number": "5511988887777", "text": "bye"}
        sent = await gateway.call("POST", "message/sendText/shop", body, status=201)
        await gateway.wait_for_event("SEND_MESSAGE", "shop", key=sent["key"])
        await evolution.settled()
        upserts = [one for one in evolution.posted if one.body["event"] == "messages.upsert"]
        while len(gateway.events("MESSAGES_UPSERT", "shop")) < len(upserts):
            await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
    assert shop.webhook is not None
    assert shop.webhook["webhookBase64"] is False
    found = texts(gateway.events("MESSAGES_UPSERT", "shop"))
    for sender in progress:
        wanted = [text for text in texts([one.body["data"] for one in upserts]) if text.startswith(sender)]
        assert [text for text in found if text.startswith(sender)] == wanted
    assert len(gateway.events("SEND_MESSAGE", "shop")) == 1
    # Nothing was answered in such a way that Evolution API would have dropped it.
    assert {status for posted in evolution.posted for status in posted.statuses} <= {0, 200, 503}


async def test_switching_over_and_back_loses_nothing(tmp_path: Path) -> None:
    """The commands of docs/migrating.md, while messages arrive."""
    async with in_front(tmp_path) as (gateway, evolution, options):
        crm = gateway.receiver
        former = {"enabled": True, "url": crm.url, "events": ["MESSAGES_UPSERT"], "byEvents": False}
        async with httpx.AsyncClient(headers={"apikey": KEY}, trust_env=False) as http:
            await http.post(f"{options['base_url']}/webhook/set/shop", json={"webhook": former})
        received = 0
        stop = trio.Event()

        async def write() -> None:
            nonlocal received
            while not stop.is_set():
                evolution.receive("shop", str(received))
                received += 1
                await trio.sleep(0.005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await crm.wait_for(20)
            webhook = {"url": crm.url, "events": ["MESSAGES_UPSERT"]}
            body = {"instanceName": "shop", "integration": "evolution", "webhook": webhook, **options}
            await gateway.call("POST", "instance/create", body, status=201)
            await gateway.call("GET", "instance/connect/shop")
            await gateway.wait_for_state("shop", "open")
            count = received
            while received < count + 50:  # noqa: ASYNC110
                await trio.sleep(0.01)
            assert any(request.event_id for request in crm.requests)
            await gateway.call("PATCH", "instance/options/shop", {"set_webhook": False})
            await gateway.wait_for_state("shop", "open")
            restored = evolution.accounts["shop"].webhook
            assert restored is not None
            assert restored["url"] == crm.url
            count = received
            while received < count + 20:  # noqa: ASYNC110
                await trio.sleep(0.01)
            stop.set()
        await evolution.settled()
        while len(crm.requests) < received:
            await crm.wait_for(len(crm.requests) + 1)
        await gateway.call("DELETE", "instance/delete/shop")
        # hookgw repeats a body with the same id if it must; Evolution API's own have none.
        bodies = {
            request.event_id or f"direct {index}": request.json for index, request in enumerate(crm.requests)
        }
        numbers = sorted(int(body["data"]["message"]["conversation"]) for body in bodies.values())
        assert numbers == list(range(received))
        direct = [request for request in crm.requests if not request.event_id]
        assert 40 <= len(direct) < received
