"""What every client gets, whatever the application does."""

import gc
import socket
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
import trio
from quart import Response
from trio.testing import wait_all_tasks_blocked

from hookgw import Gateway
from tests.api.conftest import KEY
from tests.api.server.wire import HEALTH, Running, read_answer, read_to_end
from tests.public.config import ServerSettings
from tests.public.kernel import sentence_of
from tests.public.web import AppApplication as Application
from tests.public.web import ClientConnection, ClientStream, ClientTimeouts, Refused

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
    @app.routing.get("/public/fails")
    async def fails() -> str:
        raise RuntimeError("a bug")

    await gateway.instances.create("loja1")
    async with await server.connect() as stream:
        await stream.send_all(sent)
        answered, headers, _ = await read_answer(stream)
        assert answered == status
        assert headers["x-content-type-options"] == "nosniff"
        # The manual is the same for everybody, and has a version.
        assert headers["cache-control"] == ("no-cache" if b"/docs" in sent else "no-store")
        assert "strict-transport-security" not in headers


async def test_a_route_may_set_its_own_cache_control(server: Running, app: Application) -> None:
    @app.routing.get("/public/kept")
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
    @app.routing.get("/public/like")
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
        own.setblocking(False)
        connection = ClientConnection(ClientStream(own), ServerSettings(), timeouts)
        timeouts.writes.begin(connection)
        assert timeouts.heads.first() is connection
        connection.abort()
        assert [wait.first() for wait in timeouts.all] == [None] * 4
        assert connection.eviction_rank() is None
        assert other.recv(1) == b""


async def test_a_connection_that_ended_leaves_no_garbage() -> None:
    """A thousand clients that come and go must not fill the memory until the garbage collector runs."""
    own, other = socket.socketpair()
    own.setblocking(False)
    with other:
        connection = ClientConnection(ClientStream(own), ServerSettings(), ClientTimeouts(ServerSettings()))
        other.send(ASK + ASK)
        other.shutdown(socket.SHUT_WR)
        gc.disable()
        try:
            await connection.run(lambda _, receive, send: plain(receive, send), None, None)
            connection.abort()
            ended = weakref.ref(connection)
            del connection
            assert ended() is None
        finally:
            gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no TCP_QUICKACK")
async def test_a_part_of_a_request_is_acknowledged_at_once() -> None:
    """A client without ``TCP_NODELAY``, such as Perl's HTTP::Tiny, sends the rest 40 ms later otherwise."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        own = listener.accept()[0]
    own.setblocking(False)

    async def read(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await plain(receive, send)

    with other:
        connection = ClientConnection(ClientStream(own), ServerSettings(), ClientTimeouts(ServerSettings()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run, read, None, None)
            for _ in range(5):  # the kernel delays its acknowledgements once a connection goes back and forth
                for part in (POST[:10], POST[10:-5]):
                    other.send(part)
                    await wait_all_tasks_blocked()
                    assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
                other.send(POST[-5:])
                await wait_all_tasks_blocked()
                assert other.recv(1000).startswith(b"HTTP/1.1 200 ")
            other.shutdown(socket.SHUT_WR)
        connection.abort()


# What the server owes to a client, whatever the application does


class Client:
    """A client, and the application that its connection calls."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.scopes: list[Any] = []

    async def ask(self, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        await self.stream.send_all(sent)
        return await read_answer(self.stream)

    async def all_ok(self, count: int) -> None:
        """Read the responses of :func:`plain`, which may arrive together."""
        received = b""
        while received.count(b"\r\n\r\nok") < count:
            received += await self.stream.receive_some()
        assert received.count(b"HTTP/1.1 200 ") == count


Answer = Callable[[Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
ASK = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"


@asynccontextmanager
async def served(answer: Answer, settings: ServerSettings | None = None) -> AsyncIterator[Client]:
    """Serve one connection with an application."""
    own, other = socket.socketpair()
    own.setblocking(False)
    client = Client(trio.SocketStream(trio.socket.from_stdlib_socket(other)))
    connection = ClientConnection(
        ClientStream(own), settings or ServerSettings(), ClientTimeouts(settings or ServerSettings())
    )

    async def application(scope: Any, receive: Any, send: Any) -> None:
        client.scopes.append(scope)
        await answer(receive, send)

    async def run() -> None:
        try:
            await connection.run(application, ("192.0.2.1", 1), ("192.0.2.2", 80))
        finally:
            connection.abort()

    async with trio.open_nursery() as nursery, client.stream:
        nursery.start_soon(run)
        yield client
        nursery.cancel_scope.cancel()


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> Any:
    return {"type": "http.response.start", "status": status, "headers": headers}


def part(body: bytes, more: bool = False) -> Any:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def plain(receive: Any, send: Any) -> None:
    await send(start(200, (b"content-length", b"2")))
    await send(part(b"ok"))


async def test_what_the_application_learns() -> None:
    async with served(plain) as client:
        await client.ask(b"GET /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX-Y:  z \r\n\r\n")
    (scope,) = client.scopes
    assert (scope["method"], scope["path"], scope["raw_path"]) == ("GET", "/a b", b"/a%20b")
    assert (scope["query_string"], scope["http_version"], scope["scheme"]) == (b"c=d", "1.1", "http")
    assert (scope["client"], scope["server"]) == (("192.0.2.1", 1), ("192.0.2.2", 80))
    assert list(scope["headers"]) == [(b"host", b"x"), (b"x-y", b"z")]


async def test_a_connection_serves_more_than_a_thousand_requests() -> None:
    async with served(plain) as client:
        for _ in range(1100):
            status, headers, body = await client.ask(ASK)
            assert (status, headers.get("connection"), body) == (200, None, b"ok")


async def test_a_stream_is_chunked_and_its_head_leaves_at_once() -> None:
    go = trio.Event()

    async def streams(receive: Any, send: Any) -> None:
        await send(start())
        await go.wait()
        for body in (b"one", b"", b"twelve bytes"):
            await send(part(body, more=True))
        await send(part(b""))

    async with served(streams) as client:
        status, headers, _ = await client.ask(ASK)
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        go.set()
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += await client.stream.receive_some()
        assert received == b"3\r\none\r\nc\r\ntwelve bytes\r\n0\r\n\r\n"
        assert (await client.ask(ASK))[0] == 200


async def test_a_stream_for_http_1_0_ends_with_the_connection() -> None:
    async def streams(receive: Any, send: Any) -> None:
        await send(start())
        await send(part(b"one", more=True))
        await send(part(b"two"))

    async with served(streams) as client:
        await client.stream.send_all(ASK.replace(b"1.1", b"1.0"))
        head, _, body = (await read_to_end(client.stream)).partition(b"\r\n\r\n")
    assert (b"transfer-encoding" in head, b"connection: close" in head, body) == (False, True, b"onetwo")


@pytest.mark.parametrize(
    ("status", "phrase"),
    [(202, b"Accepted"), (204, b"No Content"), (413, b"Content Too Large"), (299, b"Unknown")],
)
async def test_a_status_has_its_phrase(status: int, phrase: bytes) -> None:
    """Without one, h2load 1.52 takes every response for a failure."""

    async def answer(receive: Any, send: Any) -> None:
        await send(start(status, (b"content-length", b"0")))
        await send(part(b""))

    async with served(answer) as client:
        await client.stream.send_all(ASK)
        received = await client.stream.receive_some()
    assert received.startswith(b"HTTP/1.1 %d %b\r\n" % (status, phrase))


@pytest.mark.parametrize(("status", "sent"), [(204, ASK), (304, ASK), (200, ASK.replace(b"GET", b"HEAD"))])
async def test_responses_without_a_body(status: int, sent: bytes) -> None:
    async def answer(receive: Any, send: Any) -> None:
        await send(start(status))
        await send(part(b"not sent"))

    async with served(answer) as client:
        for _ in range(2):
            await client.stream.send_all(sent)
            received = await client.stream.receive_some()
            assert received.startswith(b"HTTP/1.1 %d " % status)
            assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("body", [b"x", b"xxx"])
async def test_a_body_of_another_length_than_announced_closes_the_connection(body: bytes) -> None:
    async def answer(receive: Any, send: Any) -> None:
        await send(start(200, (b"content-length", b"2")))
        await send(part(body))

    with structlog.testing.capture_logs() as logs:
        async with served(answer) as client:
            await client.stream.send_all(ASK + ASK)
            assert await read_to_end(client.stream) == b""
    assert [log["event"] for log in logs] == ["request failed"]
    assert len(client.scopes) == 1


async def test_a_response_that_breaks_off_closes_the_connection() -> None:
    async def answer(receive: Any, send: Any) -> None:
        await send(start())
        await send(part(b"one", more=True))

    async with served(answer) as client:
        await client.stream.send_all(ASK + ASK)
        assert (await read_to_end(client.stream)).endswith(b"\r\n\r\n3\r\none\r\n")


@pytest.mark.parametrize("header", [(b"a", b"b\r\nc: d"), (b"a\r\nb", b"c"), (b"a", b"b\0"), (b"a b", b"c")])
async def test_a_header_that_would_split_the_response_is_a_failure(header: tuple[bytes, bytes]) -> None:
    async def answer(receive: Any, send: Any) -> None:
        await send(start(200, header))

    with structlog.testing.capture_logs() as logs:
        async with served(answer) as client:
            status, headers, body = await client.ask(ASK)
            assert (status, headers["connection"], b"c: d" in body) == (500, "close", False)
    assert [log["event"] for log in logs] == ["request failed"]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [part(b"x")],
        [start(), start()],
        [start(200, (b"content-length", b"0")), part(b""), part(b"")],
        [{"type": "http.response.push"}],
    ],
)
async def test_an_application_that_breaks_the_rules(messages: list[Any]) -> None:
    async def answer(receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    with structlog.testing.capture_logs():
        async with served(answer) as client:
            await client.stream.send_all(ASK)
            received = await read_to_end(client.stream) if len(messages) < 3 else b"HTTP/1.1 200"
    assert received.startswith(b"HTTP/1.1 500" if len(messages) < 2 else b"HTTP/1.1 200")


async def test_a_failing_application_gets_500_in_its_place() -> None:
    async def answer(receive: Any, send: Any) -> None:
        raise BaseExceptionGroup("", [SystemExit()])

    with structlog.testing.capture_logs() as logs:
        async with served(answer) as client:
            assert (await client.ask(ASK))[0] == 500
    assert [log["event"] for log in logs] == ["request failed"]


async def test_the_parts_of_a_body() -> None:
    seen: list[Any] = []

    async def answer(receive: Any, send: Any) -> None:
        while (message := await receive())["more_body"]:
            seen.append(message["body"])
        seen.append(message["body"])
        await plain(receive, send)
        assert (await receive())["type"] == "http.disconnect"

    async with served(answer) as client:
        await client.stream.send_all(POST + ASK)
        await client.all_ok(2)
        await client.stream.send_all(POST[:-3])
        await wait_all_tasks_blocked()
        assert (await client.ask(POST[-3:]))[0] == 200
    assert seen == [b"hello", b"", b"he", b"llo"]


async def test_the_body_is_asked_for_when_it_is_wanted() -> None:
    async def answer(receive: Any, send: Any) -> None:
        if client.scopes[-1]["path"] == "/a":
            assert (await receive())["body"] == b"hello"
        await plain(receive, send)

    awaits = POST.replace(b"host", b"expect: 100-continue\r\nhost")
    async with served(answer) as client:
        await client.stream.send_all(awaits[:-5])
        assert await client.stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await client.ask(b"hello"))[0] == 200
        assert (await client.ask(awaits))[0] == 200  # it did not wait
        status, headers, _ = await client.ask(awaits[:-5].replace(b"/a", b"/b"))
        assert (status, headers["connection"]) == (200, "close")


async def test_the_next_request_waits_for_the_response() -> None:
    go = trio.Event()

    async def answer(receive: Any, send: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            if len(client.scopes) == 1:
                await go.wait()
            await plain(receive, send)
            nursery.cancel_scope.cancel()

    async with served(answer) as client:
        await client.stream.send_all(ASK)
        await wait_all_tasks_blocked()
        await client.stream.send_all(ASK * 3)
        await wait_all_tasks_blocked()
        assert len(client.scopes) == 1
        go.set()
        await client.all_ok(4)


async def test_a_client_that_leaves_behind_another_request_is_noticed_by_a_write() -> None:
    left = trio.Event()

    async def answer(receive: Any, send: Any) -> None:
        async def leave() -> None:
            await receive()
            assert (await receive())["type"] == "http.disconnect"
            left.set()
            nursery.cancel_scope.cancel()

        await send(start())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            while True:
                await send(part(bytes(100_000), more=True))
                await trio.lowlevel.checkpoint()

    async with served(answer) as client:
        await client.stream.send_all(ASK * 2)
        await client.stream.receive_some()
        await client.stream.aclose()
        await left.wait()


async def test_requests_of_a_client_that_is_gone_are_not_served() -> None:
    async def answer(receive: Any, send: Any) -> None:
        await send(start(200, (b"content-length", b"10000000")))
        await send(part(bytes(10_000_000)))

    async with served(answer) as client:
        await client.stream.send_all(ASK * 3)
        await client.stream.receive_some()
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert len(client.scopes) == 1


async def test_two_tasks_of_an_application_read_a_body() -> None:
    """One receives, while the response of the other first reads the rest of the body."""

    async def answer(receive: Any, send: Any) -> None:
        async def receives() -> None:
            while (await receive())["type"] == "http.request":
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receives)
            await plain(receive, send)

    async with served(answer) as client:
        for _ in range(10):
            await client.stream.send_all(POST[:-3])
            await wait_all_tasks_blocked()
            status, headers, _ = await client.ask(POST[-3:])
            assert (status, headers.get("connection")) == (200, None)


async def test_a_body_that_is_refused_after_the_response_has_started() -> None:
    chunked = POST.replace(b"content-length: 5", b"transfer-encoding: chunked").replace(
        b"hello", b"5\r\nhell"
    )

    async with served(plain) as client:
        status, headers, _ = await client.ask(chunked)
        assert (status, headers["connection"]) == (200, "close")
        await client.stream.send_all(b"o!!" + ASK)
        assert await read_to_end(client.stream) == b""
    assert len(client.scopes) == 1


async def test_a_body_that_is_cut_off_is_refused() -> None:
    async def answer(receive: Any, send: Any) -> None:
        while (await receive())["type"] == "http.request":
            pass

    async with served(answer) as client:
        await client.stream.send_all(POST[:-1])
        await client.stream.send_eof()
        status, headers, body = await read_answer(client.stream)
        assert (status, headers["connection"], b"RFC 9112, section 8" in body) == (400, "close", True)


async def test_nothing_is_read_after_the_deadline() -> None:
    """A client that never stops sending does not keep the connection."""
    settings = ServerSettings()
    own, other = socket.socketpair()
    own.setblocking(False)
    timeouts = ClientTimeouts(settings)
    connection = ClientConnection(ClientStream(own), settings, timeouts)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nothing may reach the application")

    with other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run, run, None, None)
            await wait_all_tasks_blocked()
            other.send(b"GET /")
            await wait_all_tasks_blocked()
            other.send(b"more" * 1000)
            connection.time_out(Refused(408, sentence_of("Too late.")))
            other.shutdown(socket.SHUT_WR)
        connection.abort()
        assert other.recv(9999).startswith(b"HTTP/1.1 408 ")
        assert timeouts.heads.first() is None
