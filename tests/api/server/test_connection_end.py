"""How a connection ends: the client gets all of the last response, and costs little until then."""

import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from quart import Response, request
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Gateway
from tests.api.conftest import KEY
from tests.api.server.test_connection import ASK, POST, part, served, start
from tests.api.server.wire import HEALTH, Running, assert_answers, read_answer, read_to_end
from tests.public.config import ServerSettings
from tests.public.web import HALF_CLOSED, LINGER, LINGER_BODIES, MOST_UNWANTED
from tests.public.web import AppApplication as Application

LARGE = 3_000_000
KEYED = b"host: x\r\napikey: %s\r\ncontent-type: application/json\r\n" % KEY.encode()
CHUNKED = b"POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
def large(app: Application) -> None:
    @app.routing.route("/public/large", methods=["GET", "POST"])
    async def large() -> bytes:
        return bytes(LARGE)


async def connect_with_small_buffers(server: Running) -> trio.SocketStream:
    """Connect, as a client whose system takes few bytes before the client reads them."""
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await sock.connect(("127.0.0.1", server.port))
    return trio.SocketStream(sock)


async def assert_closed(stream: trio.SocketStream) -> None:
    """Check that the server has closed, though it sent all that the client has not read."""
    with contextlib.suppress(trio.BrokenResourceError):
        for _ in range(10):
            await stream.send_all(b"1\r\n \r\n")
            await wait_all_tasks_blocked(0.01)
        pytest.fail("The connection is still open.")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /public/large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" + b"surplus" * 10_000,
        b"GET /public/large HTTP/1.0\r\n\r\n" + HEALTH * 100,
        b"POST /public/large HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n" + b"x" * 150_000,
        CHUNKED.replace(b"nowhere", b"public/large") + b"1\r\nx\r\n" * 20_000,
    ],
    ids=["connection: close", "HTTP/1.0", "a body that is not read", "chunks that are not read"],
)
async def test_a_large_last_response_arrives_whole_after_surplus_bytes(
    sent: bytes, server: Running, large: None
) -> None:
    async with await connect_with_small_buffers(server) as stream:
        await stream.send_all(sent)
        await trio.sleep(LINGER + 0.2)  # hookgw has read what it reads, and waits
        received = await read_to_end(stream)
    assert len(received.partition(b"\r\n\r\n")[2]) == LARGE


async def test_surplus_bytes_that_come_late_cost_no_response(server: Running, large: None) -> None:
    async with await connect_with_small_buffers(server) as stream:
        await stream.send_all(b"GET /public/large HTTP/1.0\r\n\r\n")
        received = b""
        while len(received) < LARGE // 2:
            received += await stream.receive_some()
        await stream.send_all(b"surplus")
        received += await read_to_end(stream)
    assert len(received.partition(b"\r\n\r\n")[2]) == LARGE


async def test_a_client_that_does_not_read_its_last_response_is_cut_off(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    @app.routing.get("/public/held")
    async def held() -> bytes:
        return bytes(20_000)  # more than the client's system takes, and less than that of hookgw

    async with await connect_with_small_buffers(server) as stream:
        await stream.send_all(b"GET /public/held HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        for _ in range(70):
            await wait_all_tasks_blocked(0.002)
            mock_clock.jump(1)
        await wait_all_tasks_blocked(0.02)
        await assert_closed(stream)
    await assert_answers(server)


@pytest.mark.parametrize("framing", [b"content-length: 1000000000", b"transfer-encoding: chunked"])
async def test_a_refused_body_is_read_up_to_a_limit(
    framing: bytes, server: Running, mock_clock: MockClock
) -> None:
    async with await server.connect() as stream:
        await stream.send_all(b"POST /nowhere HTTP/1.1\r\nhost: x\r\n" + framing + b"\r\n\r\n")
        sent = 0
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"1\r\n \r\n" * 10_000)
                sent += 60_000
        limit = LINGER_BODIES * ServerSettings().max_batch_body
        assert limit < sent < 2 * limit  # with what two systems hold; the clock stands still
        status, headers, _ = await read_answer(stream)
        assert (status, headers["connection"]) == (401, "close")


async def test_a_client_that_reads_only_after_its_body_gets_a_refusal(
    server: Running, mock_clock: MockClock
) -> None:
    """Such as Apache and Varnish, which answer 502 and 503 if they cannot send all."""
    body = bytes(3 * ServerSettings().max_batch_body)
    async with await server.connect() as stream:
        await stream.send_all(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
        await stream.send_all(body)
        status, headers, _ = await read_answer(stream)
    assert (status, headers["connection"]) == (401, "close")


async def test_a_refused_body_is_read_for_a_short_time(server: Running, mock_clock: MockClock) -> None:
    async with await server.connect() as stream:
        await stream.send_all(CHUNKED)
        assert (await read_answer(stream))[0] == 401
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(LINGER + 0.1)
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(1)
        await assert_closed(stream)


async def test_a_short_body_that_nobody_wants_keeps_the_connection() -> None:
    async def refuse(receive: Any, send: Any) -> None:
        await send(start(401, (b"content-length", b"2")))
        await send(part(b"no"))

    async with served(refuse) as client:
        for size, connection in ((5, None), (MOST_UNWANTED, None), (MOST_UNWANTED + 1, "close")):
            body = b"x" * size
            await client.stream.send_all(POST.replace(b" 5", b" %d" % size).replace(b"hello", body))
            status, headers, _ = await read_answer(client.stream)
            assert (status, headers.get("connection")) == (401, connection)


# HEAD


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HEAD / HTTP/1.1\r\n\r\n", 400),
        (b"HEAD / HTTP/2.0\r\n\r\n", 505),
        (b"HEAD /" + b"x" * 20_000, 431),
        (b"\r\nHEAD / HTTP/1.1\r\nhost : x\r\n\r\n", 400),
        (b"HEAD /nowhere HTTP/1.1\r\nhost: x\r\n\r\n", 401),
        (b"HEAD /public/fails HTTP/1.1\r\nhost: x\r\n\r\n", 500),
        (
            HEALTH.replace(b"GET", b"HEAD").replace(
                b"\r\n\r\n", b"\r\nexpect: 1\r\ncontent-length: x\r\n\r\n"
            ),
            400,
        ),
        (b"HEAD /public/reads HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", 400),
    ],
)
async def test_a_refused_head_request_gets_no_body(
    sent: bytes, status: int, server: Running, app: Application
) -> None:
    @app.routing.get("/public/fails")
    async def fails() -> str:
        raise RuntimeError("a bug")

    @app.routing.get("/public/reads")
    async def reads() -> str:
        return str(await request.get_data())

    async with await server.connect() as stream:
        await stream.send_all(sent)
        await stream.send_eof()
        received = await read_to_end(stream)
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-length: " in received
    assert received.endswith(b"\r\n\r\n")


async def test_a_head_request_that_comes_too_slowly_gets_no_body(
    server: Running, mock_clock: MockClock
) -> None:
    async with await server.connect() as stream:
        await stream.send_all(b"HEAD /healthz HTTP/1.1\r\nho")
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(60)
        received = await read_to_end(stream)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert received.endswith(b"\r\n\r\n")


# Half-closed


EMIT = b"POST /event/emit/loja1 HTTP/1.1\r\n" + KEYED
BODY = b'{"event":"CALL","data":{}}'


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEALTH, 200),
        (b"GET /instance/fetchInstances HTTP/1.1\r\n" + KEYED + b"\r\n", 200),
        (b"GET /public/slow HTTP/1.1\r\n" + KEYED + b"\r\n", 200),
        (b"GET /public/stream HTTP/1.1\r\n" + KEYED + b"\r\n", 200),
        (b"GET /public/fails HTTP/1.1\r\n" + KEYED + b"\r\n", 500),
        (EMIT + b"content-length: %d\r\n\r\n" % len(BODY) + BODY, 202),
        (EMIT + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n", 202),
        (EMIT + b"content-length: 2\r\n\r\n{}", 400),
        (b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}", 401),
        (b"PUT /nowhere HTTP/1.1\r\n" + KEYED + b"content-length: 2\r\n\r\n{}", 404),
    ],
)
async def test_a_half_close_after_the_request_gets_the_response(
    sent: bytes, status: int, server: Running, app: Application, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")

    @app.routing.get("/public/slow")
    async def slow() -> bytes:
        await trio.sleep(0.1)
        return bytes(LARGE)

    @app.routing.get("/public/fails")
    async def fails() -> str:
        await trio.sleep(0.05)
        raise RuntimeError("a bug")

    @app.routing.get("/public/stream")
    async def stream_parts() -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x"
                await trio.sleep(0.03)

        return Response(parts(), content_type="application/x-ndjson")

    async with await server.connect() as stream:
        await stream.send_all(HEALTH + sent)
        await stream.send_eof()
        received = await read_to_end(stream)
    ok, _, rest = received.partition(b'{"status":"ok"}')
    assert ok.startswith(b"HTTP/1.1 200 ")
    assert rest.startswith(b"HTTP/1.1 %d " % status)
    if b"/slow" in sent:
        assert len(rest.partition(b"\r\n\r\n")[2]) == LARGE
    if b"/stream" in sent:
        assert rest.endswith(b"1\r\nx\r\n" * 3 + b"0\r\n\r\n")


@pytest.mark.parametrize("before", [True, False])
async def test_a_half_close_ends_a_stream_of_events(before: bool) -> None:
    left = trio.Event()

    async def events(receive: Any, send: Any) -> None:
        await receive()
        if before:
            await wait_all_tasks_blocked()
        await send(start(200, (b"content-type", b"text/event-stream")))
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async with served(events) as client:
        await client.stream.send_all(ASK)
        if not before:
            await read_answer(client.stream)
        await client.stream.send_eof()
        await left.wait()


async def test_a_half_closed_client_waits_for_a_bounded_time(mock_clock: MockClock) -> None:
    """It may as well be gone."""
    left = trio.Event()

    async def hangs(receive: Any, send: Any) -> None:
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async with served(hangs) as client:
        await client.stream.send_all(ASK)
        await client.stream.send_eof()
        await wait_all_tasks_blocked()
        assert not left.is_set()
        mock_clock.jump(HALF_CLOSED + 1)
        await left.wait()
        assert await read_to_end(client.stream) == b""


async def test_a_client_that_resets_its_connection_is_noticed_at_once(
    server: Running, app: Application
) -> None:
    begun, left = trio.Event(), trio.Event()

    @app.routing.get("/public/hangs")
    async def hangs() -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            left.set()

    stream = await server.connect()
    await stream.send_all(b"GET /public/hangs HTTP/1.1\r\nhost: x\r\n\r\n")
    await begun.wait()
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()
    await left.wait()


# Absolute-form


@pytest.mark.parametrize("target", [b"http://h:1/public/who?a=b", b"HTTPS://h:1/public/who?a=b"])
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_an_absolute_target_names_the_host(
    target: bytes, version: bytes, server: Running, app: Application
) -> None:
    @app.routing.get("/public/who")
    async def who() -> dict[str, Any]:
        return {"host": request.host, "path": request.path, "query": request.query_string.decode()}

    async with await server.connect() as stream:
        await stream.send_all(b"GET " + target + b" HTTP/" + version + b"\r\nhost: other\r\n\r\n")
        status, _, body = await read_answer(stream)
    assert status == 200
    assert json.loads(body) == {"host": "h:1", "path": "/public/who", "query": "a=b"}
