"""The headers of every response, from the application or the server."""

from __future__ import annotations

import socket

import pytest
import trio
from quart import Response

from hookgw.api.app import Application
from hookgw.api.server.client_timeouts import ClientTimeouts
from hookgw.api.server.connection import Connection
from hookgw.api.server.request_framing import POISON, RequestFilter
from hookgw.api.server.request_head import Refused
from hookgw.config.settings import ServerSettings
from hookgw.gateway.gateway import Gateway
from tests.api.conftest import KEY
from tests.api.server.wire import HEALTH, Running, read_answer, read_to_end

EMIT = (
    b"POST /event/emit/loja1 HTTP/1.1\r\nhost: x\r\napikey: %s\r\ncontent-type: application/json\r\n"
    b'content-length: 26\r\n\r\n{"event":"CALL","data":{}}' % KEY.encode()
)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (EMIT, 202),
        (EMIT.replace(b"CALL", b"NONE"), 400),
        (EMIT.replace(KEY.encode(), b"wrong-key"), 401),
        (HEALTH, 200),
        (HEALTH.replace(b"/healthz", b"/docs"), 200),
        (HEALTH.replace(b"/healthz", b"/nothing"), 401),
        (HEALTH.replace(b"GET", b"POST"), 405),
        (HEALTH.replace(b"host", b"host "), 400),
        (HEALTH.replace(b"1.1", b"1.0"), 200),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
        (b"GET /public/fails HTTP/1.1\r\nhost: x\r\n\r\n", 500),
    ],
)
async def test_responses_are_not_sniffed_or_cached(
    sent: bytes, status: int, server: Running, app: Application, gateway: Gateway
) -> None:
    @app.get("/public/fails")
    async def fails() -> str:
        raise RuntimeError("a bug")

    await gateway.instances.create("loja1")
    async with await server.connect() as stream:
        await stream.send_all(sent)
        answered, headers, _ = await read_answer(stream)
        assert answered == status
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in headers


async def test_a_route_may_set_its_own_cache_control(server: Running, app: Application) -> None:
    @app.get("/public/kept")
    async def kept() -> Response:
        return Response("x", headers={"Cache-Control": "max-age=60"})

    async with await server.connect() as stream:
        await stream.send_all(b"GET /public/kept HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        received = await read_to_end(stream)
    assert received.lower().count(b"\r\ncache-control: ") == 1
    assert b"max-age=60" in received


@pytest.mark.parametrize("body", [b"HTTP/1.1 404 \r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"])
async def test_a_body_that_looks_like_a_response_is_unchanged(
    body: bytes, server: Running, app: Application
) -> None:
    @app.get("/public/like")
    async def like() -> bytes:
        return body

    async with await server.connect() as stream:
        for _ in range(2):
            await stream.send_all(b"GET /public/like HTTP/1.1\r\nhost: x\r\n\r\n")
            status, _, received = await read_answer(stream)
            assert (status, received) == (200, body)


async def test_a_closed_connection_has_no_timeout() -> None:
    """Its task ends later; until then it must not be a candidate for making room."""
    timeouts = ClientTimeouts(ServerSettings())
    own, other = socket.socketpair()
    with other:
        sock = trio.socket.from_stdlib_socket(own)
        connection = Connection(trio.SocketStream(sock), sock, RequestFilter(1000), timeouts)
        timeouts.writes.begin(connection)
        assert timeouts.heads.first() is connection
        connection.abort()
        assert [wait.first() for wait in timeouts.all] == [None] * 4
        assert connection.eviction_rank() is None
        assert other.recv(1) == b""


class Flood(trio.abc.ReceiveStream):
    """A client that never stops sending."""

    def __init__(self) -> None:
        self.reads = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        assert self.reads < 5
        return b"GET /"

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_client_that_sends_after_the_deadline_is_not_read() -> None:
    own, other = socket.socketpair()
    with other:
        sock = trio.socket.from_stdlib_socket(own)
        flood = Flood()
        stream = trio.StapledStream(trio.SocketStream(sock), flood)
        request_filter = RequestFilter(1000)
        connection = Connection(stream, sock, request_filter, ClientTimeouts(ServerSettings()))
        request_filter.feed(b"GET /")
        connection.time_out(Refused(408, "Too late."))
        assert await connection.receive_some() == POISON
        assert await connection.receive_some() == b""
        sock.close()
