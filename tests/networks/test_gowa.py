"""GOWA: a real gateway in front of a stand-in, with kills; and of the real binary, if it can be built."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import httpx
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from tests.networks.gateway import Gateway, running_gateway
from tests.networks.gowa.server import FakeGowa
from tests.networks.waha.__main__ import post_over_http
from tests.public.instances import recognise
from tests.support.ports import free_port

ANA = "4915112345678@s.whatsapp.net"
MESSAGES = 60
SOURCE = os.environ.get("GOWA_SOURCE", "")
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Gateway, FakeGowa]]:
    """Run a gateway and a GOWA server for the length of the block."""
    with trio.fail_after(250):
        async with httpx.AsyncClient(trust_env=False, timeout=10) as http, trio.open_nursery() as nursery:
            gowa = FakeGowa(partial(post_over_http, http), nursery)
            config = Config()
            config.bind = ["127.0.0.1:0"]
            [url] = await nursery.start(partial(serve, gowa.app, config))
            block = {"base_url": url, "user": "hookgw", "password": "gowa-password", "servers": [url]}
            async with running_gateway(folder, {"gowa": block}, events={"validate": "strict"}) as gateway:
                yield gateway, gowa
            nursery.cancel_scope.cancel()


async def connect(gateway: Gateway, gowa: FakeGowa) -> str:
    """Create an instance, scan its code, and return its ``ingestUrl``."""
    url = await gateway.create("shop", "gowa")
    answer = await gateway.call("GET", "instance/connect/shop")
    assert answer["code"] == gowa.devices["shop"].code
    gowa.scan("shop")
    await gateway.wait_for_state("shop", "open")
    return url


async def test_what_hookgw_takes_within_half_a_minute_arrives_through_kills(tmp_path: Path) -> None:
    async with running(tmp_path) as (gateway, gowa):
        await connect(gateway, gowa)

        async def receive_all() -> None:
            for number in range(MESSAGES):
                gowa.receive("shop", ANA, body=f"in {number}")
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_all)
            for _ in range(2):
                await trio.sleep(random.random() / 3)
                await gateway.kill()
                await trio.sleep(0.2)  # some of it happens while nobody listens
                await gateway.start()
        await gowa.all_delivered()
        assert gowa.lost == []

        def texts() -> list[str]:
            return [event["message"]["conversation"] for event in gateway.events("MESSAGES_UPSERT", "shop")]

        while len(texts()) < MESSAGES:
            await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
    # Each once; in which order, GOWA does not say.
    assert sorted(texts()) == sorted(f"in {number}" for number in range(MESSAGES))


async def test_from_the_code_to_the_deletion(tmp_path: Path) -> None:
    async with running(tmp_path) as (gateway, gowa), httpx.AsyncClient(trust_env=False) as http:
        url = await connect(gateway, gowa)
        opened = await gateway.wait_for_event("CONNECTION_UPDATE", "shop", state="open")
        assert opened["wuid"] == gowa.me

        # A file, by a link of hookgw.
        gowa.media[ANA, "A"], gowa.files["media/a.jpg"] = "media/a.jpg", b"a picture" * 100_000
        gowa.receive("shop", ANA, id="A", image="statics/media/other.jpg")
        event = await gateway.wait_for_event("MESSAGES_UPSERT", "shop")
        answer = await http.get(event["message"]["imageMessage"]["url"])
        assert (answer.content, answer.headers["content-type"]) == (b"a picture" * 100_000, "image/jpeg")

        # Requests of strangers.
        for headers in ({}, {"x-hub-signature-256": "sha256=" + "0" * 64}):
            assert (await http.post(url, json={"event": "message"}, headers=headers)).status_code == 401

        body = {"number": ANA, "text": "hi"}
        sent = await gateway.call("POST", "message/sendText/shop", body, status=201)
        assert sent["key"]["id"] in gowa.messages
        # The account is logged out on the phone: GOWA's 401 is no wrong key of the caller's.
        gowa.log_out("shop")
        await gateway.call("POST", "message/sendText/shop", body, status=409)
        await gateway.wait_for_event("CONNECTION_UPDATE", "shop", state="close", statusReason=401)

        await gateway.call("GET", "instance/connect/shop")
        gowa.scan("shop")
        await gateway.wait_for_state("shop", "open")
        await gateway.call("DELETE", "instance/delete/shop")
        assert gowa.devices["shop"].url == ""


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GOWA itself, built from the checkout that ``GOWA_SOURCE`` names; or the binary that it names."""
    source = Path(SOURCE)
    if not SOURCE:
        pytest.skip("GOWA_SOURCE names no checkout of go-whatsapp-web-multidevice")
    if source.is_file():
        return source
    if GO is None:
        pytest.skip("go is not installed")
    built = tmp_path_factory.mktemp("gowa") / "whatsapp"
    # Without cgo, which a C compiler would have to be there for.
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command = [GO, "build", "-tags", "purego", "-o", str(built), "."]
    subprocess.run(command, cwd=source / "src", env=environment, check=True, timeout=1800)
    return built


@asynccontextmanager
async def real_server(binary: Path, folder: Path) -> AsyncIterator[str]:
    """Run GOWA without a network to WhatsApp; return its URL."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {
        **os.environ,
        "APP_HOST": "127.0.0.1",
        "APP_PORT": str(port),
        "APP_BASIC_AUTH": "hookgw:gowa-password",
        "APP_UI_ENABLED": "false",
        "MCP_ENABLED": "false",
    }
    async with trio.open_nursery() as nursery, httpx.AsyncClient(trust_env=False) as http:
        run = partial(trio.run_process, cwd=folder, env=environment, check=False)
        await nursery.start(
            partial(run, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL), [str(binary), "rest"]
        )

        async def answers() -> bool:
            try:
                return (await http.get(f"{url}/health")).status_code > 0
            except httpx.HTTPError:
                return False

        await eventually(answers)
        yield url
        nursery.cancel_scope.cancel()


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Ask until something is so."""
    with trio.fail_after(60):
        while not await is_so():  # noqa: ASYNC110 (of another process)
            await trio.sleep(0.1)


@pytest.mark.timeout(1900)
async def test_the_real_server_takes_the_device_and_its_webhook(tmp_path: Path, binary: Path) -> None:
    """As far as it goes without an account of WhatsApp: what the stand-in says of all of this is so."""
    (folder := tmp_path / "gowa").mkdir()
    async with real_server(binary, folder) as url:
        block = {"base_url": url, "user": "hookgw", "password": "gowa-password", "servers": [url]}
        credentials = ("hookgw", "gowa-password")
        async with (
            running_gateway(tmp_path, {"gowa": block}) as gateway,
            httpx.AsyncClient(trust_env=False, base_url=url, auth=credentials) as http,
        ):

            async def results(path: str) -> Any:
                return json.loads((await http.get(path)).content)["results"]

            ingest_url = await gateway.create("shop", "gowa")
            await gateway.try_call("GET", "instance/connect/shop")

            async def is_set() -> bool:
                found = await http.get("/devices/shop/webhook")
                return found.is_success and found.json()["results"]["webhook_url"] == ingest_url

            await eventually(is_set)
            webhook = await results("/devices/shop/webhook")
            assert (webhook["webhook_url"], webhook["webhook_events"]) == (ingest_url, "")
            assert len(webhook["webhook_secret"]) >= 32
            assert await results("/devices/shop/status") == {
                "device_id": "shop",
                "is_connected": False,
                "is_logged_in": False,
            }

            # Somebody changes the webhook: hookgw sets it again at its next look.
            other = {"webhook_url": "http://127.0.0.1:9/", "webhook_secret": "theirs", "webhook_events": ""}
            await http.patch("/devices/shop/webhook", json=other)
            assert not await is_set()
            await eventually(is_set)

            # The call for a code to type is there; without a network, it brings none.
            asked = await http.post("/devices/shop/login/code", params={"phone": "5511999999999"})
            assert asked.status_code == 500, asked.text
            assert (await http.post("/devices/shop/login/nothing")).status_code == 404

            # Not logged in, and no network: GOWA says 401, and the caller gets 409.
            answer = await gateway.try_call("POST", "message/sendText/shop", {"number": ANA, "text": "hi"})
            assert answer.status_code == 409, answer.text
            state = await gateway.wait_for_state("shop", "close")
            assert state["reason"] == "The GOWA server cannot connect to WhatsApp."

            async with httpx.AsyncClient(trust_env=False, base_url=url) as stranger:
                for path in ("/app/info", "/devices/shop"):
                    refused = await stranger.get(path)
                    assert refused.status_code == 401
                    assert recognise("gowa", refused) == (True, None)
            assert recognise("gowa", await http.get("/app/info"))[0]

            await gateway.call("DELETE", "instance/delete/shop")
            webhook = await results("/devices/shop/webhook")
            assert webhook["webhook_url"] in ("", ingest_url)
