"""The transport under a real ``httpx.AsyncClient``."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from tests.delivery.http.raw_receiver import OK, Peer, Server, always_ok, answering, dialer, serving
from tests.public.delivery import (
    AddressGuard,
    DeliveryError,
    Dialer,
    LaneTransport,
    Phase,
    SendFailed,
    TimedOut,
)


@asynccontextmanager
async def client(
    server: Server, *, default_timeout: float | None = 5, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    lane = LaneTransport(dialer(), **options)
    base = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(transport=lane, base_url=base, timeout=default_timeout) as opened:
        yield opened


async def test_requests_and_responses() -> None:
    seen: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        while request := await peer.request():
            seen.append(request)
            await peer.send(b"HTTP/1.1 201 Created\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nhi")

    async with serving(behaviour) as server, client(server) as http:
        for _ in range(2):
            response = await http.post("/a?b=c", json={"x": 1}, headers={b"x-mine": "ü".encode()})
            assert (response.status_code, response.text) == (201, "hi")
            assert response.headers.get_list("x-a") == ["1", "2"]
        assert server.connections == 1
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a?b=c HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % server.port)
    assert b"\r\nx-mine: \xc3\xbc" in head
    assert head.lower().count(b"content-length") == 1
    assert body == b'{"x":1}'


async def test_a_streamed_body_is_sent_with_its_length() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    seen: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(OK)

    async with serving(behaviour) as server, client(server) as http:
        await http.post("/", content=pieces())
    assert b"chunked" not in seen[0]
    assert seen[0].endswith(b"content-length: 6\r\n\r\nonetwo")


async def test_a_head_request_has_no_body_to_wait_for() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"

    async def behaviour(peer: Peer) -> None:
        await peer.stream.receive_some(1000)
        await peer.send(head)
        await peer.closed_by_the_other_side()

    async with serving(behaviour) as server, client(server) as http:
        response = await http.head("/")
        assert (response.status_code, response.content) == (200, b"")


async def test_the_body_is_decoded_once() -> None:
    body = gzip.compress(b"hello")
    answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    async with serving(answering(answer)) as server, client(server) as http:
        assert (await http.post("/")).text == "hello"


async def test_an_incomplete_response_is_an_error() -> None:
    async with serving(answering(OK)) as server, client(server, max_answer=1) as http:
        with pytest.raises(httpx.RemoteProtocolError, match="exceeded 1 bytes, was cut off, or was too slow"):
            await http.post("/")


async def test_concurrent_requests_take_turns() -> None:
    async with serving(always_ok) as server, client(server) as http:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(http.post, "/")
        assert server.connections == 1


@pytest.mark.parametrize("timeouts", [httpx.Timeout(5), httpx.Timeout(5, connect=1)])
async def test_the_longest_timeout_is_the_deadline(
    timeouts: httpx.Timeout, mock_clock: trio.testing.MockClock
) -> None:
    hangs = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        hangs.set()
        await trio.sleep_forever()

    async def request() -> None:
        with pytest.raises(httpx.ReadTimeout, match="did not respond within"):
            await http.post("/", timeout=timeouts)

    async with serving(behaviour) as server, client(server) as http, trio.open_nursery() as nursery:
        nursery.start_soon(request)
        await hangs.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(5)


async def test_no_timeout_is_no_deadline(mock_clock: trio.testing.MockClock) -> None:
    go_on, hangs = trio.Event(), trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        hangs.set()
        await go_on.wait()
        await peer.send(OK)

    async def request() -> None:
        assert (await http.post("/")).status_code == 200

    async with (
        serving(behaviour) as server,
        client(server, default_timeout=None) as http,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(request)
        await hangs.wait()
        mock_clock.jump(1_000_000)
        go_on.set()


async def test_errors_are_converted_and_keep_their_cause() -> None:
    async def nothing(peer: Peer) -> None:
        await peer.request()

    async with serving(nothing) as server, client(server) as http:
        with pytest.raises(httpx.RemoteProtocolError, match="without responding") as caught:
            await http.post("/")
        assert isinstance(caught.value.__cause__, DeliveryError)
        assert caught.value.request.method == "POST"
    async with client(server) as http:
        with pytest.raises(httpx.ConnectError, match="Connection refused"):
            await http.post("/")
        with pytest.raises(httpx.ConnectError, match="blocked"):
            await http.post("http://10.0.0.1/")
        with pytest.raises(httpx.UnsupportedProtocol, match="must begin with http"):
            await http.post("ftp://127.0.0.1/")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (TimedOut(Phase.RESOLVE, "Too late."), httpx.ConnectTimeout),
        (TimedOut(Phase.CONNECT, "Too late."), httpx.ConnectTimeout),
        (TimedOut(Phase.TLS, "Too late."), httpx.ConnectTimeout),
        (TimedOut(Phase.SEND, "Too late."), httpx.WriteTimeout),
        (TimedOut(Phase.RESPONSE, "Too late."), httpx.ReadTimeout),
        (SendFailed("Too late."), httpx.WriteError),
    ],
)
async def test_each_error_has_its_counterpart(raised: DeliveryError, expected: type[Exception]) -> None:
    async def resolve(*_: Any, **__: Any) -> Any:
        raise raised

    lane = LaneTransport(Dialer(AddressGuard(), connect_timeout=5, resolve=resolve))
    async with httpx.AsyncClient(transport=lane) as http:
        with pytest.raises(expected, match="Too late"):
            await http.post("http://example.com/")


@pytest.mark.parametrize(
    ("method", "name", "value", "said"),
    [
        ("POST", b"x-a", b"1\r\nhost: 127.0.0.2", "x-a"),
        ("POST", b"x-a", b"1\n", "x-a"),
        ("POST", b"x-a", b"1\0", "x-a"),
        ("POST", b"x-a: 1\r\nx-b", b"1", "not a valid header name"),
        ("POST", b"x a", b"1", "not a valid header name"),
        ("POST", b"", b"1", "not a valid header name"),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\nPOST", b"x-a", b"1", "not a valid method"),
        ("GET /", b"x-a", b"1", "not a valid method"),
        ("É", b"x-a", b"1", "not a valid method"),
    ],
)
async def test_no_lines_can_be_put_into_a_request(method: str, name: bytes, value: bytes, said: str) -> None:
    """Plugins may pass on text from tenants. httpx's own transport refuses it too."""
    async with serving(always_ok) as server, client(server) as http:
        with pytest.raises(httpx.LocalProtocolError, match=said):
            await http.request(method, "/", headers={name: value})
        assert server.connections == 0
