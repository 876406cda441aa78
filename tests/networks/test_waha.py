"""WAHA: a real gateway in front of a stand-in for a WAHA server, with kills, repeats and wrong proofs."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from tests.delivery.http.raw_receiver import always_ok, serving
from tests.networks.gateway import Gateway, running_gateway
from tests.networks.waha.__main__ import post_over_http
from tests.networks.waha.server import FakeWaha, Fault

ANA, ANA_JID = "4915112345678@c.us", "4915112345678@s.whatsapp.net"
MESSAGES, SENDS = 150, 40
OTHER = {"url": "http://127.0.0.1:9/", "events": ["engine.event"]}

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


@asynccontextmanager
async def running(folder: Path, *servers: str) -> AsyncIterator[tuple[Gateway, FakeWaha]]:
    """Run a gateway and a WAHA server for the length of the block; ``servers`` are listed, too."""
    limits = httpx.Limits(max_connections=20)
    with trio.fail_after(250):
        async with (
            httpx.AsyncClient(trust_env=False, timeout=30, limits=limits) as http,
            trio.open_nursery() as nursery,
        ):
            waha = FakeWaha(partial(post_over_http, http), nursery)
            waha.pace = 0.01
            config = Config()
            config.bind = ["127.0.0.1:0"]
            [url] = await nursery.start(partial(serve, waha.app, config))
            options = {"waha": {"base_url": url, "api_key": "waha-key", "servers": [url, *servers]}}
            async with running_gateway(folder, options, events={"validate": "strict"}) as gateway:
                yield gateway, waha
            nursery.cancel_scope.cancel()


async def connect(gateway: Gateway, waha: FakeWaha) -> str:
    """Create an instance, scan its code, and return its ``ingestUrl``."""
    url = await gateway.create("shop", "waha")
    answer = await gateway.call("GET", "instance/connect/shop")
    assert answer["code"] == waha.sessions["default"].code
    waha.scan("default")
    await gateway.wait_for_state("shop", "open")
    return url


def texts(gateway: Gateway, kind: str) -> list[str]:
    return [event["message"]["conversation"] for event in gateway.events(kind, "shop")]


async def receive_all(waha: FakeWaha) -> None:
    for number in range(MESSAGES):
        waha.receive("default", ANA, f"in {number}")
        await trio.sleep(0.005)


async def send_all(gateway: Gateway) -> None:
    """Send messages, each with its key until it is taken."""
    for number in range(SENDS):
        body = {"number": ANA_JID, "text": f"out {number}"}
        status = 0
        while status != 201:
            try:
                answer = await gateway.try_call("POST", "message/sendText/shop", body, key=f"out-{number}")
            except httpx.HTTPError:
                await trio.sleep(0.05)
                continue
            status = answer.status_code
            # 409 and 503: the connection is not open again yet.
            assert status in (201, 409, 503), answer.text
            if status != 201:
                await trio.sleep(0.05)


async def test_nothing_is_lost_or_doubled_through_kills(tmp_path: Path) -> None:
    async with running(tmp_path) as (gateway, waha):
        await connect(gateway, waha)
        # One after the other: they stay in order.
        for number in range(20):
            waha.receive("default", ANA, f"{number}")
            await waha.all_delivered()
        await gateway.wait_for_event("MESSAGES_UPSERT", "shop", message={"conversation": "19"})
        assert texts(gateway, "MESSAGES_UPSERT") == [f"{number}" for number in range(20)]

        waha.repeat = 1
        waha.delay = lambda: random.random() / 20
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_all, waha)
            nursery.start_soon(send_all, gateway)
            for _ in range(2):
                await trio.sleep(random.random() / 2)
                await gateway.kill()
                await trio.sleep(0.1)  # some of it happens while nobody listens
                await gateway.start()
        await waha.all_delivered()
        while len(set(texts(gateway, "MESSAGES_UPSERT"))) < 20 + MESSAGES:
            await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
        while len(set(texts(gateway, "SEND_MESSAGE"))) < SENDS:
            await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
    assert sorted(texts(gateway, "MESSAGES_UPSERT")[20:]) == sorted(f"in {n}" for n in range(MESSAGES))
    assert texts(gateway, "SEND_MESSAGE") == [f"out {n}" for n in range(SENDS)]
    # A repeated send has the same id: WhatsApp shows it once.
    assert [message["body"] for message in waha.messages.values()] == [f"out {n}" for n in range(SENDS)]


async def test_from_the_code_to_the_deletion(tmp_path: Path) -> None:
    async with running(tmp_path) as (gateway, waha), httpx.AsyncClient(trust_env=False) as http:
        url = await connect(gateway, waha)
        opened = await gateway.wait_for_event("CONNECTION_UPDATE", "shop", state="open")
        assert opened["wuid"] == "5511999999999@s.whatsapp.net"

        # A file, by a link of hookgw.
        waha.files["default/A.jpg"] = ("image/jpeg", b"a picture" * 100_000)
        media = {"url": "http://localhost:3000/api/files/default/A.jpg", "mimetype": "image/jpeg"}
        waha.receive("default", ANA, "look", hasMedia=True, media=media)
        event = await gateway.wait_for_event("MESSAGES_UPSERT", "shop")
        answer = await http.get(event["message"]["imageMessage"]["url"])
        assert (answer.content, answer.headers["content-type"]) == (b"a picture" * 100_000, "image/jpeg")

        # Requests of strangers.
        for headers in ({}, {"x-webhook-hmac": "0" * 128}):
            assert (await http.post(url, json={"event": "message"}, headers=headers)).status_code == 401

        # A slow answer, a limit, and a broken answer.
        waha.faults.append(Fault("sendText", 429, b"{}", {"retry-after": "7"}))
        body = {"number": ANA, "text": "hi"}
        limited = await gateway.try_call("POST", "message/sendText/shop", body)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
        waha.faults.append(Fault("sendText", 201, b'{"id": "tr', seconds=0.2))
        await gateway.call("POST", "message/sendText/shop", body, status=502)

        # Edits, reactions and deletions are one event each, although WAHA reports them, too.
        sent = await gateway.call("POST", "message/sendText/shop", body, status=201)
        edit = {"number": ANA, "key": sent["key"], "text": "new"}
        await gateway.call("POST", "chat/updateMessage/shop", edit)
        await gateway.call(
            "POST", "message/sendReaction/shop", {"key": sent["key"], "reaction": "x"}, status=201
        )
        await gateway.call("DELETE", "chat/deleteMessageForEveryone/shop", sent["key"], status=201)
        await waha.all_delivered()
        await gateway.wait_for_event("MESSAGES_DELETE", "shop", id=sent["key"]["id"])
        assert (
            len(gateway.events("MESSAGES_EDITED", "shop"))
            == len(gateway.events("MESSAGES_DELETE", "shop"))
            == 1
        )
        # The send whose answer was broken was made: WAHA reported it.
        kinds = [event["messageType"] for event in gateway.events("SEND_MESSAGE", "shop")]
        assert kinds == ["conversation", "reactionMessage"]

        # The webhook leaves with the instance; that of others stays.
        waha.sessions["default"].config["webhooks"].append(OTHER)
        await gateway.call("DELETE", "instance/delete/shop")
        assert waha.sessions["default"].config["webhooks"] == [OTHER]
        assert waha.sessions["default"].is_paired


async def test_without_a_public_url_no_instance_is_created(tmp_path: Path) -> None:
    server = {"bind": ["127.0.0.1:0"]}
    options: dict[str, Any] = {"waha": {"base_url": "http://127.0.0.1:9", "api_key": "waha-key"}}
    with trio.fail_after(60):
        async with running_gateway(tmp_path, options, server=server) as gateway:
            answer = await gateway.try_call(
                "POST", "instance/create", {"instanceName": "shop", "integration": "waha"}
            )
            assert answer.status_code == 400
            assert "server.public_url" in answer.text


SPELLINGS = ("127.0.0.1", "2130706433", "127.1", "0x7f000001", "127.0.0.1.", "%31%32%37.0.0.1")


async def test_the_url_of_a_file_leads_to_no_server_of_the_operators(tmp_path: Path) -> None:
    """Neither to the instance's own WAHA, nor to another customer's server."""
    async with serving(always_ok) as another:
        others = f"http://127.0.0.1:{another.port}"
        async with running(tmp_path, others) as (gateway, waha):
            await connect(gateway, waha)
            schema = (await gateway.call("GET", "instance/options/shop"))["optionsSchema"]
            own = httpx.URL(schema["properties"]["base_url"]["default"])
            for port in (own.port, another.port):
                for host in SPELLINGS:
                    media = f"http://{host}:{port}/api/sessions"
                    body = {"number": ANA_JID, "mediatype": "image", "media": media}
                    answer = await gateway.try_call("POST", "message/sendMedia/shop", body)
                    assert answer.status_code == 400, answer.text
                    assert "is not dialled" in answer.text
            assert another.connections == 0
            assert "/api/sendImage" not in {path for _, path, _ in waha.calls}
