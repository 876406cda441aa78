"""A request whose body is needed after its response: it is counted until the work that has it ends."""

import gc
from functools import partial
from typing import Any

import pytest
import trio

from hookgw import Unavailable
from tests.public.auth import RequestQuota
from tests.public.kernel import TooManyRequests
from tests.public.web import (
    ActiveRequests,
    BodyMemory,
    RequestResponse,
    ResponseMemory,
    ServerLimits,
    client_of,
)

RESPONSES = ResponseMemory(2**20, lambda _: None)
BODY = b"x" * 10_000


@pytest.mark.parametrize("first", ["work", "request"])
async def test_the_body_is_counted_until_both_have_ended(first: str) -> None:
    quota, memory = RequestQuota(1, lambda _: None), BodyMemory(len(BODY), 2**20, lambda _: None)
    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(_: Any) -> None: ...

    exchange = RequestResponse(
        scope,
        None,
        client_of(scope, receive, send),
        ServerLimits(2**20, lambda *_: None, ActiveRequests(9), memory, RESPONSES, quota),
    )
    exchange.count_for("shop")
    release = exchange.hand_over()

    async def application() -> None:
        await exchange.receive()
        if first == "work":
            release()
        assert memory.is_full
        await exchange.respond(200, {}, b"{}")

    await exchange.run(application)
    if first == "request":
        assert memory.is_full
        with pytest.raises(TooManyRequests):
            quota.enter("shop")
        release()
    assert not memory.is_full
    assert not list(quota)


async def test_an_answer_for_the_application_comes_first_and_once() -> None:
    """The application waits for something that others say will not come."""
    sent: list[Any] = []
    scope: Any = {"type": "http", "method": "POST", "path": "/", "root_path": "", "headers": []}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    quota, memory = RequestQuota(1, lambda _: None), BodyMemory(2**20, 2**20, lambda _: None)
    counted: list[int] = []
    client = client_of(scope, receive, send)
    exchange = RequestResponse(
        scope,
        None,
        client,
        ServerLimits(
            2**20, lambda _, status: counted.append(status), ActiveRequests(9), memory, RESPONSES, quota
        ),
    )

    async def application() -> None:
        await exchange.answer_for(Unavailable("It takes long.", retry_after=1.0))
        await exchange.respond(200, {}, b"{}")
        await exchange.send({"type": "http.response.start", "status": 200, "headers": []})

    await exchange.run(application)
    assert counted == [503]
    assert [one["status"] for one in sent if one["type"] == "http.response.start"] == [503]
    await exchange.answer_for(Unavailable("Too late."))
    assert counted == [503]


async def _receive(exchange: RequestResponse) -> None:
    await exchange.receive()


async def test_a_refused_body_is_free_without_a_garbage_collection() -> None:
    """The traceback of a refusal leads to the body; refused bodies took 1.6 MiB each until the next one."""

    live = 0

    class Body(bytes):
        def __del__(self) -> None:
            nonlocal live
            live -= 1

    bodies, live = [Body(BODY)], 1
    scope: Any = {"type": "http", "method": "POST", "path": "/", "root_path": "", "headers": []}

    async def receive() -> Any:
        return {"type": "http.request", "body": bodies.pop(), "more_body": True}

    async def send(_: Any) -> None: ...

    quota, memory = RequestQuota(1, lambda _: None), BodyMemory(2**20, 2**20, lambda _: None)
    client, active = client_of(scope, receive, send), ActiveRequests(9)
    exchange: Any = RequestResponse(
        scope, None, client, ServerLimits(1, lambda *_: None, active, memory, RESPONSES, quota)
    )

    gc.disable()
    try:
        await exchange.run(partial(_receive, exchange))
        exchange = None
        await trio.lowlevel.checkpoint()
        assert live == 0
    finally:
        gc.enable()
