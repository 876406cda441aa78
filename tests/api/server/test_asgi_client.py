"""Requests that another ASGI server has read, message by message."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
import trio
from trio.testing import wait_all_tasks_blocked

from tests.public.web import VERSION_HEADER, AsgiClient, client_of

Application = Callable[[Any, Any, Any], Awaitable[None]]
Fields = list[tuple[bytes, bytes]]

LEFT = {"type": "http.disconnect"}
OK: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def end(body: bytes = b"ok", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


class Server:
    """The other server: it passes on what the test says, and writes down what it gets."""

    def __init__(self, headers: Fields | None = None, version: str = "2", scheme: str = "https") -> None:
        self.scope = {
            "type": "http",
            "http_version": version,
            "method": "POST",
            "scheme": scheme,
            "path": "/x",
            "root_path": "/ignored",
            "headers": headers or [],
            "extensions": {"http.response.push": {}},
        }
        self.sent: list[dict[str, Any]] = []
        self.says, self._messages = trio.open_memory_channel[dict[str, Any]](100)

    async def run(self, application: Application, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.says.send(message)
        await AsgiClient(self.scope, self._messages.receive, self.keep).run(application)

    async def keep(self, message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def is_ended(self) -> bool:
        return not self.sent[-1].get("more_body", True)


@pytest.mark.parametrize(
    ("headers", "messages", "announced"),
    [
        ([(b"content-length", b"3")], (part(b"abc"), part(b"", more=False)), 3),
        ([(b"content-length", b"0")], (part(b"", more=False),), 0),
        ([(b"transfer-encoding", b"chunked")], (part(b"abc"), part(b"", more=False)), None),
        ([], (part(b"abc"), part(b"", more=False)), None),
        ([], (part(b"abc", more=False),), None),
        ([], (part(b"", more=False),), 0),
    ],
)
async def test_whether_a_request_has_a_body(
    headers: Fields, messages: tuple[dict[str, Any], ...], announced: int | None
) -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        client = client_of(scope, receive, send)
        body = b""
        while (message := await receive())["more_body"]:
            body += message["body"]
        names = {name for name, _ in scope["headers"]}
        seen.append((client.announced, body + message["body"]))
        assert bool(names & {b"content-length", b"transfer-encoding"}) is (bool(headers) or announced is None)
        assert (scope["root_path"], scope["extensions"]) == ("", {})
        await client.respond(200, (), b"ok")

    server = Server(headers)
    await server.run(application, *messages)
    assert seen == [(announced, b"".join(message["body"] for message in messages))]
    assert server.is_ended


async def test_a_client_that_leaves_before_its_body_calls_nothing() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it is called")

    server = Server()
    await server.run(application, LEFT)
    assert server.sent == []


@pytest.mark.parametrize("is_left", [False, True])
async def test_a_response_ends_after_the_body_of_its_request(is_left: bool, nursery: trio.Nursery) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(OK)
        await send(end())

    server = Server([(b"content-length", b"6")])
    nursery.start_soon(server.run, application, part(b"ab"))
    await wait_all_tasks_blocked()
    assert (server.body, server.is_ended) == (b"ok", False)
    if is_left:
        await server.says.send(LEFT)
    else:
        await server.says.send(part(b"cdef"))
        await wait_all_tasks_blocked()
        assert not server.is_ended
        await server.says.send(part(b"", more=False))
    await wait_all_tasks_blocked()
    assert (server.body, server.is_ended) == (b"ok", True)


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
async def test_a_task_that_receives_meanwhile_does_not_hold_up_the_end(
    delay: int, nursery: trio.Nursery
) -> None:
    """As Quart has one."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def listen() -> None:
            while (await receive())["type"] == "http.request":
                pass

        async with trio.open_nursery() as tasks:
            tasks.start_soon(listen)
            for _ in range(delay):
                await trio.lowlevel.checkpoint()
            await send(OK)
            await send(end())
            tasks.cancel_scope.cancel()

    server = Server([(b"content-length", b"4")])
    nursery.start_soon(server.run, application)
    for message in (part(b"ab"), part(b"cd"), part(b"", more=False)):
        await wait_all_tasks_blocked()
        await server.says.send(message)
    await wait_all_tasks_blocked()
    assert (server.body, server.is_ended) == (b"ok", True)


@pytest.mark.parametrize(
    ("version", "has_length", "is_ended"), [("2", True, True), ("2", False, False), ("1.1", True, False)]
)
async def test_a_response_that_breaks_off(version: str, has_length: bool, is_ended: bool) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**OK, "headers": [(b"content-length", b"100")] if has_length else []})
        await send(end(b"part", more=True))
        raise OSError("the source is gone")

    server = Server(version=version)
    with structlog.testing.capture_logs() as logs:
        await server.run(application, part(b"", more=False))
    assert [log["event"] for log in logs] == ["request failed"]
    assert (server.body, server.is_ended) == (b"part", is_ended)


async def test_a_bug_becomes_a_500() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise ExceptionGroup("of tasks", [OSError("a bug")])

    server = Server()
    with structlog.testing.capture_logs():
        await server.run(application, part(b"", more=False))
    assert server.sent[0]["status"] == 500
    assert b"An internal error occurred" in server.body
    assert server.is_ended


async def test_a_cancellation_is_no_bug() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(trio.sleep_forever)
            tasks.start_soon(trio.sleep_forever)

    server = Server()
    with trio.CancelScope() as scope:
        scope.cancel()
        await server.run(application, part(b"", more=False))
    assert scope.cancelled_caught
    assert server.sent == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_headers_of_every_response(scheme: str) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        client = client_of(scope, receive, send)
        assert client.receive_nowait() is None
        await client.respond(
            200, [(b"Content-Length", b"2"), (b"connection", b"close"), (b"transfer-encoding", b"x")], b"ok"
        )

    server = Server(scheme=scheme)
    await server.run(application, part(b"", more=False))
    assert server.sent[0]["headers"] == [
        (b"content-length", b"2"),
        (b"cache-control", b"no-store"),
        VERSION_HEADER,
        (b"x-content-type-options", b"nosniff"),
        *([(b"strict-transport-security", b"max-age=31536000")] if scheme == "https" else []),
    ]


async def test_a_header_with_a_line_break_is_refused() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**OK, "headers": [(b"cache-control", b"a\r\nset-cookie: b")]})

    server = Server()
    with structlog.testing.capture_logs():
        await server.run(application, part(b"", more=False))
    assert server.sent[0]["status"] == 500
