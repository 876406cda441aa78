"""A real WAHA, as far as it goes without an account. tests/networks/README.md says how to prepare one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import httpx
import pytest
import trio

from tests.networks.gateway import running_gateway
from tests.support.ports import free_port

SOURCE = os.environ.get("WAHA_SOURCE", "")
KEY = "waha-key"

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


async def test_a_version_that_does_not_sign_is_named(tmp_path: Path) -> None:
    """WAHA Core before 2024.11.5 signs nothing, so hookgw takes none of its requests."""
    (folder := tmp_path / "waha").mkdir()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    block = {"base_url": url, "api_key": KEY, "servers": [url]}
    async with (
        running_gateway(tmp_path, {"waha": block}) as gateway,
        real_server(folder, port) as http,
    ):
        version = (await http.get("/api/server/version")).json()["version"]
        if tuple(map(int, re.findall("[0-9]+", version)[:3])) >= (2024, 11, 5):
            pytest.skip("this version signs its requests")
        await gateway.create("shop", "waha")
        await gateway.try_call("GET", "instance/connect/shop")
        state = await gateway.wait_for_state("shop", "close")
        assert "WAHA does not sign its requests" in state["reason"]
        assert f"this is {version}. Update it." in state["reason"]
