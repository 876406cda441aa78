"""Requests that arrive at once begin one after the other, in turn among keys."""

from __future__ import annotations

import httpx
import trio
from quart import request
from trio.testing import wait_all_tasks_blocked

from hookgw import Gateway
from hookgw.web import AppApplication as Application
from tests.api.conftest import KEY

OWN_KEY = "the-key-of-loja1"


async def test_a_burst_of_one_key_lets_others_in(
    app: Application, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1", token=OWN_KEY)
    began: list[str] = []

    @app.before_request
    def note() -> None:
        began.append(request.headers.get("apikey", ""))

    async def ask(key: str) -> None:
        assert (await client.get("/webhook/list/loja1", headers={"apikey": key})).status_code == 200

    await app.beginning.acquire("somebody")
    async with trio.open_nursery() as nursery:
        for key in (*[OWN_KEY] * 20, KEY):
            nursery.start_soon(ask, key)
            await wait_all_tasks_blocked()
        assert began == []
        app.beginning.release("somebody")
    assert began.index(KEY) <= 1
    assert len(began) == 21
