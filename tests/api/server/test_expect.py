"""``100 Continue``: sent if a route reads the body, before its response, and at no other time."""

from typing import Any

import pytest
import structlog
import trio
from quart import request
from trio.testing import wait_all_tasks_blocked

from tests.api.conftest import KEY
from tests.api.server.test_connection import POST, part, served, start
from tests.api.server.wire import Running, read_to_end
from tests.public.web import AppApplication as Application

LINES = b"host: x\r\nexpect: 100-continue\r\nconnection: close\r\n"
KEYED = LINES + b"apikey: %s\r\ncontent-type: application/json\r\n" % KEY.encode()
LENGTH = b"content-length: 26\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
BODY = b'{"event":"CALL","data":{}}'


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"POST /nowhere HTTP/1.1\r\n" + LINES, 401),
        (b"POST /nowhere HTTP/1.1\r\n" + KEYED, 404),
        (b"PATCH /event/emit/loja1 HTTP/1.1\r\n" + KEYED, 405),
        (b"POST /event/emit/loja1 HTTP/1.1\r\n" + LINES, 401),
        (b"POST /event/emit/loja1 HTTP/1.1\r\n" + KEYED.replace(b"application/json", b"text/x"), 415),
        (b"POST /event/emit/nobody HTTP/1.1\r\n" + KEYED, 404),
        (b"POST /webhook/set/loja1 HTTP/1.1\r\n" + KEYED.replace(b"application/json", b"text/x"), 415),
        (b"POST /ingest/loja1/wrong HTTP/1.1\r\n" + LINES, 404),
    ],
)
@pytest.mark.parametrize("framing", [LENGTH, CHUNKED])
async def test_an_error_that_needs_no_body_is_the_only_response(
    asked: bytes, status: int, framing: bytes, server: Running, instance: None
) -> None:
    for _ in range(12):  # the order of an application's two tasks is random
        async with await server.connect() as stream:
            await stream.send_all(asked + framing)
            received = await read_to_end(stream)
        assert received.startswith(b"HTTP/1.1 %d " % status)
        assert received.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "path", [b"/event/emit/loja1", b"/public/get_data", b"/public/body", b"/public/json"]
)
async def test_a_route_that_reads_the_body_gets_it(
    path: bytes, server: Running, app: Application, instance: None
) -> None:
    @app.routing.post("/public/<way>")
    async def reads(way: str) -> str:
        if way == "get_data":
            await request.get_data()
        elif way == "json":
            await request.get_json()
        else:
            async for _ in request.body:
                pass
        return "read"

    async with await server.connect() as stream:
        await stream.send_all(b"POST " + path + b" HTTP/1.1\r\n" + KEYED + LENGTH)
        assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(BODY)
        received = await read_to_end(stream)
    assert received.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 202 "))
    assert received.count(b"HTTP/1.1 ") == 1


async def test_no_interim_response_follows_the_start_of_a_response() -> None:
    """One task of the application receives, while another sends a large response."""

    async def answer(receive: Any, send: Any) -> None:
        async def receives() -> None:
            while (await receive())["type"] == "http.request":
                pass

        await send(start(200, (b"content-length", b"6000000")))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receives)
            for _ in range(6):
                await send(part(bytes(1_000_000), more=True))
            await send(part(b""))
            nursery.cancel_scope.cancel()

    with structlog.testing.capture_logs() as logs:
        async with served(answer) as client:
            await client.stream.send_all(POST[:-5].replace(b"host", b"expect: 100-continue\r\nhost"))
            received = await read_to_end(client.stream)
    assert received.count(b"HTTP/1.1 ") == 1
    assert len(received.partition(b"\r\n\r\n")[2]) == 6_000_000
    assert logs == []


async def test_a_response_waits_for_an_interim_response_that_is_being_written() -> None:
    """The client reads so slowly that a response fits nowhere, not even ``100 Continue``."""
    large = bytes(4_000_000)

    async def answer(receive: Any, send: Any) -> None:
        await send(start(200, (b"content-length", b"%d" % len(large))))
        await send(part(large))

    asked = POST[:-5].replace(b"host", b"expect: 100-continue\r\nhost")
    go = trio.Event()

    async def both(receive: Any, send: Any) -> None:
        if len(client.scopes) < 3:
            await answer(receive, send)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await go.wait()
            await answer(receive, send)
            nursery.cancel_scope.cancel()

    async with served(both) as client:
        plain_request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
        await client.stream.send_all(plain_request * 2 + asked)
        received = b""
        while received.count(b"HTTP/1.1 200") < 2 or len(received) < 2 * len(large):
            received += await client.stream.receive_some(1000 if len(received) > 2 * len(large) else 65536)
            if len(received) >= 2 * len(large) - 10_000:
                go.set()
        await wait_all_tasks_blocked()
        received += await read_to_end(client.stream)
    assert received.count(b"HTTP/1.1 200 ") == 3
    assert received.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").endswith(large)
