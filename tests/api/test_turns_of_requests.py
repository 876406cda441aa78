"""Requests that arrive at once begin one after the other, in turn among keys."""

import httpx
import pytest
import trio
from quart import request

from hookgw import Gateway
from tests.api.conftest import KEY
from tests.public.concurrency import TurnLock
from tests.public.web import AppApplication as Application

OWN_KEY = "the-key-of-loja1"


async def test_a_burst_of_one_key_lets_others_in(
    app: Application, client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1", token=OWN_KEY)
    began: list[str] = []
    turns: list[str] = []
    lined_up, receive = trio.open_memory_channel[str](21)
    acquire = TurnLock.acquire

    async def line_up(lock: TurnLock, holder: str) -> None:
        lined_up.send_nowait(holder)
        await acquire(lock, holder)
        turns.append(holder)

    @app.routing.before_request
    def note() -> None:
        began.append(request.headers.get("apikey", ""))

    async def ask(key: str) -> None:
        assert (await client.get("/webhook/list/loja1", headers={"apikey": key})).status_code == 200

    await app.beginning.acquire("somebody")
    monkeypatch.setattr(TurnLock, "acquire", line_up)
    async with trio.open_nursery() as nursery:
        for key in (*[OWN_KEY] * 20, KEY):
            nursery.start_soon(ask, key)
            # Not wait_all_tasks_blocked: a request on its way through a socket blocks nobody.
            with trio.fail_after(10):
                assert await receive.receive() == key
        assert (turns, began) == ([], [])
        app.beginning.release("somebody")
    assert turns == [OWN_KEY, KEY, *[OWN_KEY] * 19]
    assert sorted(began) == sorted(turns)
