"""A real WAHA, as far as it goes without an account. tests/networks/README.md says how to prepare one."""

import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import httpx
import pytest
import trio

from tests.networks.gateway import Gateway, running_gateway
from tests.support.ports import free_port

SOURCE = os.environ.get("WAHA_SOURCE", "")
KEY = "waha-key"
OTHER: dict[str, Any] = {"url": "http://127.0.0.1:9/", "events": ["message"]}

pytestmark = [
    pytest.mark.networks,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not SOURCE, reason="WAHA_SOURCE names no checkout of WAHA"),
]


def command() -> list[str]:
    """Return the command that runs WAHA: its build, or else its source."""
    if Path(SOURCE, "dist", "main.js").exists():
        parts = ["dist/main.js"]
    else:  # without a check of types, which the dependencies of another day may not pass
        parts = ["-r", "ts-node/register/transpile-only", "-r", "tsconfig-paths/register", "src/main.ts"]
    return [shutil.which("node") or "node", *parts]


@asynccontextmanager
async def real_server(folder: Path, port: int) -> AsyncIterator[httpx.AsyncClient]:
    """Run WAHA for the length of the block, without a network to WhatsApp; kill it at the end."""
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "WHATSAPP_DEFAULT_ENGINE": "NOWEB",
        "WHATSAPP_API_PORT": str(port),
        "WHATSAPP_API_KEY": KEY,
        "WAHA_LOCAL_STORE_BASE_DIR": str(folder / "sessions"),
    }
    async with (
        trio.open_nursery() as nursery,
        httpx.AsyncClient(trust_env=False, base_url=url, headers={"x-api-key": KEY}, timeout=30) as http,
    ):
        run = partial(trio.run_process, cwd=SOURCE, env=environment, check=False)
        await nursery.start(partial(run, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL), command())

        async def answers() -> bool:
            try:
                return (await http.get("/api/server/version")).is_success
            except httpx.HTTPError:
                return False

        await eventually(answers)
        yield http
        nursery.cancel_scope.cancel()


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Ask until something is so."""
    with trio.fail_after(120):
        while not await is_so():  # noqa: ASYNC110 (of another process)
            await trio.sleep(0.1)


async def signs(http: httpx.AsyncClient) -> bool:
    """Return whether this version of WAHA Core signs its requests."""
    version = (await http.get("/api/server/version")).json()["version"]
    return tuple(map(int, re.findall("[0-9]+", version)[:3])) >= (2024, 11, 5)


@asynccontextmanager
async def in_front(folder: Path) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """Run a gateway in front of WAHA for the length of the block."""
    (data := folder / "waha").mkdir()
    url = f"http://127.0.0.1:{(port := free_port())}"
    block = {"base_url": url, "api_key": KEY, "servers": [url]}
    async with running_gateway(folder, {"waha": block}) as gateway, real_server(data, port) as http:
        yield gateway, http


async def test_a_version_that_does_not_sign_is_named(tmp_path: Path) -> None:
    async with in_front(tmp_path) as (gateway, http):
        if await signs(http):
            pytest.skip("this version signs its requests")
        await gateway.create("shop", "waha")
        await gateway.try_call("GET", "instance/connect/shop")
        state = await gateway.wait_for_state("shop", "close")
        version = (await http.get("/api/server/version")).json()["version"]
        assert "WAHA does not sign its requests" in state["reason"]
        assert f"this is {version}. Update it." in state["reason"]


async def test_the_webhook_is_set_beside_another_one_and_removed(tmp_path: Path) -> None:
    """Without a network to WhatsApp, there is no code, and no account."""
    async with in_front(tmp_path) as (gateway, http):
        if not await signs(http):
            pytest.skip("this version does not sign its requests")
        # WAHA Core has this session alone, from the start.
        configured = await http.put("/api/sessions/default", json={"config": {"webhooks": [OTHER]}})
        assert configured.is_success, configured.text
        ingest_url = await gateway.create("shop", "waha")
        await gateway.try_call("GET", "instance/connect/shop")

        async def webhooks() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await http.get("/api/sessions/default")).json()["config"][
                "webhooks"
            ]
            return found

        async def has(*urls: str) -> bool:
            return [one["url"] for one in await webhooks()] == list(urls)

        await eventually(partial(has, OTHER["url"], ingest_url))
        former, ours = await webhooks()
        assert former == OTHER
        # Of an older server, what it knows: its refusal of the rest lists that.
        assert {"session.status", "message.any", "message.ack"} <= set(ours["events"])
        assert len(ours["hmac"]["key"]) >= 32
        await gateway.wait_for_state("shop", "connecting")
        await gateway.kill()
        await gateway.start()
        await gateway.wait_for_state("shop", "connecting")
        assert await has(OTHER["url"], ingest_url)
        await gateway.call("DELETE", "instance/delete/shop")
        await eventually(partial(has, OTHER["url"]))
