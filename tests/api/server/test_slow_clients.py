"""Slow clients, over real sockets: each has a deadline, and many do not delay others."""

import json
import os

import pytest
import trio
from quart import request
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.api.conftest import KEY
from tests.api.server.wire import (
    HEALTH,
    Running,
    assert_answers,
    many,
    read_answer,
    read_to_end,
    settle,
    waiting_route,
)
from tests.public.config import ServerSettings
from tests.public.kernel import Duration
from tests.public.web import AppApplication as Application

KEYED = b"host: x\r\napikey: %s\r\ncontent-type: application/json\r\n" % KEY.encode()
BODY = b'{"event":"CALL","data":{}}'
EMIT = b"POST /event/emit/loja1 HTTP/1.1\r\n" + KEYED + b"content-length: %d\r\n\r\n" % len(BODY)
CHUNKED = b"POST /event/emit/loja1 HTTP/1.1\r\n" + KEYED + b"transfer-encoding: chunked\r\n\r\n"
WAITS = b"GET /public/waits HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(
        bind=("127.0.0.1:0",),
        header_timeout=Duration(10),
        body_timeout=Duration(20),
        write_timeout=Duration(15),
        keep_alive_timeout=Duration(40),
        max_connections=100,
        max_connections_per_address=50,
        max_requests=2,
        trusted_proxies=("127.0.0.7/32",),
    )


# Deadlines


async def test_a_silent_client_is_closed_without_a_response(server: Running, mock_clock: MockClock) -> None:
    async with await server.connect() as stream:
        await settle()
        mock_clock.jump(9.9)
        await settle()
        await stream.send_all(HEALTH)
        assert (await read_answer(stream))[0] == 200
    async with await server.connect() as stream:
        await settle()
        mock_clock.jump(10.1)
        assert await read_to_end(stream) == b""


@pytest.mark.parametrize("before", [b"", HEALTH])
async def test_half_a_head_has_a_deadline_from_its_first_byte(
    before: bytes, server: Running, mock_clock: MockClock
) -> None:
    async with await server.connect() as stream:
        if before:
            await stream.send_all(before)
            await read_answer(stream)
            await settle()
            mock_clock.jump(30)
        for byte in HEALTH[:3]:
            await stream.send_all(bytes([byte]))
            await settle()
            mock_clock.jump(3.4)
        status, headers, body = await read_answer(stream)
        assert (status, headers["connection"]) == (408, "close")
        assert json.loads(body)["response"]["message"] == [
            "The head did not arrive within 10s (server.header_timeout)."
        ]
        assert await read_to_end(stream) == b""


async def test_half_a_head_waits_for_the_response_before_it(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    go = waiting_route(app)
    async with await server.connect() as stream:
        await stream.send_all(WAITS + HEALTH[:-2])
        await settle()
        mock_clock.jump(30)
        await settle()
        go.set()
        assert (await read_answer(stream))[2] == b"done"
        await stream.send_all(HEALTH[-2:])
        assert (await read_answer(stream))[0] == 200
        await stream.send_all(HEALTH[:-2])
        await settle()
        mock_clock.jump(11)
        assert (await read_answer(stream))[0] == 408


@pytest.mark.parametrize(
    ("begun", "rest", "seconds"),
    [
        (HEALTH[:-2], HEALTH[-2:], 9.0),
        (EMIT + BODY[:-1], BODY[-1:], 19.0),
        (HEALTH, HEALTH, 39.0),
    ],
)
async def test_what_arrives_in_time_on_a_frozen_machine_counts(
    begun: bytes, rest: bytes, seconds: float, server: Running, instance: None, mock_clock: MockClock
) -> None:
    async with await server.connect() as stream:
        await stream.send_all(begun)
        if begun == HEALTH:
            await read_answer(stream)
        await settle()
        mock_clock.jump(seconds)
        await settle()
        os.write(stream.socket.fileno(), rest)  # while nothing runs
        mock_clock.jump(4)
        assert (await read_answer(stream))[0] in (200, 202)


@pytest.mark.parametrize("begun", [EMIT, EMIT + BODY[:-1], CHUNKED, CHUNKED + b"5\r\n{", CHUNKED + b"0\r\n"])
async def test_a_body_has_a_deadline_from_its_head(
    begun: bytes, server: Running, instance: None, mock_clock: MockClock
) -> None:
    async with await server.connect() as stream:
        await stream.send_all(begun)
        await settle()
        mock_clock.jump(19)
        await settle()
        mock_clock.jump(2)
        status, headers, body = await read_answer(stream)
        assert (status, headers["connection"]) == (408, "close")
        assert "server.body_timeout" in json.loads(body)["response"]["message"][0]
        assert await read_to_end(stream) == b""


async def test_a_body_that_arrives_in_time_has_no_timeout_left(
    server: Running, instance: None, mock_clock: MockClock
) -> None:
    async with await server.connect() as stream:
        for _ in range(3):
            await stream.send_all(EMIT + BODY[:5])
            await settle()
            mock_clock.jump(19)
            await stream.send_all(BODY[5:])
            assert (await read_answer(stream))[0] == 202
            await settle()
            mock_clock.jump(30)
            await settle()


async def test_the_body_of_a_plugin_route_has_the_same_deadline(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    @app.routing.post("/public/crm")
    async def crm() -> str:
        return str(await request.get_data())

    async with await server.connect() as stream:
        await stream.send_all(b"POST /public/crm HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n1234")
        await settle()
        mock_clock.jump(21)
        assert (await read_answer(stream))[0] == 408


async def test_a_client_that_does_not_read_is_cut_off(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    @app.routing.get("/public/long")
    async def long() -> bytes:
        return bytes(50_000_000)

    async with await server.connect() as stream:
        await stream.send_all(b"GET /public/long HTTP/1.1\r\nhost: x\r\n\r\n")
        await wait_all_tasks_blocked(0.05)
        mock_clock.jump(16)
        with pytest.raises((trio.BrokenResourceError, AssertionError)):
            await read_answer(stream)
    await assert_answers(server)


async def test_a_slow_response_of_hookgw_is_not_the_clients_timeout(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    go = waiting_route(app)
    async with await server.connect() as stream:
        await stream.send_all(WAITS)
        await settle()
        mock_clock.jump(1000)
        await settle()
        go.set()
        assert (await read_answer(stream))[2] == b"done"


# Many of them


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", HEALTH[:-2], EMIT, EMIT + BODY[:-1], CHUNKED + b"1\r\n{\r\n", HEALTH, HEALTH * 3],
    ids=[
        "nothing",
        "a byte",
        "half a head",
        "no body",
        "half a body",
        "half the chunks",
        "idle",
        "unread answers",
    ],
)
async def test_hundreds_of_slow_clients_do_not_delay_others(
    sent: bytes, server: Running, instance: None, mock_clock: MockClock
) -> None:
    async with many(server, 45, sent):
        mock_clock.jump(2)
        async with many(server, 255, sent):
            mock_clock.jump(2)
            for _ in range(60):
                await assert_answers(server)
            async with await server.connect() as stream:
                await stream.send_all(EMIT + BODY)
                assert (await read_answer(stream))[0] == 202


async def test_clients_that_never_read_do_not_delay_others(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    @app.routing.get("/public/long")
    async def long() -> bytes:
        return bytes(20_000_000)

    asked = b"GET /public/long HTTP/1.1\r\nhost: x\r\n\r\n"
    async with await server.connect() as greedy:
        await greedy.send_all(asked)
        await settle()
        mock_clock.jump(2)
        async with many(server, 49, WAITS[:-2]):
            await assert_answers(server)
        for _ in range(60):
            await assert_answers(server)


async def test_an_idle_connection_is_closed_for_a_new_one(server: Running, mock_clock: MockClock) -> None:
    async with many(server, 50, HEALTH) as streams:
        mock_clock.jump(1)
        for stream in streams[1:]:
            await read_answer(stream)
            await stream.send_all(HEALTH)
            await read_answer(stream)
        async with await server.connect() as new:
            await new.send_all(HEALTH)
            assert (await read_answer(new))[0] == 200
        await read_answer(streams[0])
        assert await read_to_end(streams[0]) == b""
        for stream in streams[1:]:
            await stream.send_all(HEALTH)
            assert (await read_answer(stream))[0] == 200


async def test_a_connection_with_a_request_in_progress_is_not_closed_for_a_new_one(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    go = waiting_route(app)
    async with many(server, 2, WAITS) as asking, many(server, 200, b"G"):
        await assert_answers(server)
        go.set()
        for stream in asking:
            assert (await read_answer(stream))[2] == b"done"


# Requests at a time


async def test_requests_beyond_the_limit_get_503(server: Running, app: Application) -> None:
    go = waiting_route(app)
    post = b"POST /public/waits HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
    async with many(server, 1, WAITS) as one, many(server, 1, post) as two, await server.connect() as third:
        for sent in (EMIT + BODY, WAITS, post):
            await third.send_all(sent)
            status, headers, body = await read_answer(third)
            assert (status, headers["retry-after"], headers.get("connection")) == (503, "1", None)
            assert "server.max_requests" in json.loads(body)["response"]["message"][0]
        await third.send_all(HEALTH)
        assert (await read_answer(third))[0] == 200
        go.set()
        for stream in one + two:
            assert (await read_answer(stream))[2] == b"done"
        await third.send_all(WAITS)
        assert (await read_answer(third))[2] == b"done"


async def test_an_incomplete_body_does_not_count(
    server: Running, instance: None, mock_clock: MockClock
) -> None:
    async with many(server, 10, EMIT + BODY[:-1]) as slow:
        async with await server.connect() as stream:
            await stream.send_all(EMIT + BODY)
            assert (await read_answer(stream))[0] == 202
        for stream in slow:
            await stream.send_all(BODY[-1:])
            assert (await read_answer(stream))[0] == 202


# Whom a proxy speaks for


@pytest.mark.parametrize(
    ("source", "forwarded", "client"),
    [
        ("127.0.0.7", b"x-forwarded-for: 192.0.2.1\r\n", "192.0.2.1:0"),
        ("127.0.0.7", b"X-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\n", "192.0.2.2:0"),
        ("127.0.0.7", b"", "127.0.0.7:port"),
        ("127.0.0.7", b"x-forwarded-for: junk\r\n", "127.0.0.7:port"),
        ("127.0.0.1", b"x-forwarded-for: 192.0.2.1\r\n", "127.0.0.1:port"),
    ],
)
async def test_the_client_address_from_a_trusted_proxy(
    source: str, forwarded: bytes, client: str, server: Running, app: Application
) -> None:
    @app.routing.get("/public/who")
    async def who() -> str:
        host, port = request.scope["client"] or ("", 0)
        return f"{host}:{port}"

    sock = trio.socket.socket()
    await sock.bind((source, 0))
    await sock.connect(("127.0.0.1", server.port))
    port = sock.getsockname()[1]
    async with trio.SocketStream(sock) as stream:
        await stream.send_all(b"GET /public/who HTTP/1.1\r\nhost: x\r\n" + forwarded + b"\r\n")
        assert (await read_answer(stream))[2].decode() == client.replace("port", str(port))
