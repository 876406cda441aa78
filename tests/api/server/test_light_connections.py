"""A client's connection in light steps: partial writes, ends, deadlines, cancellation."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.lowlevel import current_task
from trio.testing import wait_all_tasks_blocked

from tests.public.concurrency import Waiter
from tests.public.config import ServerSettings
from tests.public.kernel import sentence_of
from tests.public.web import ClientConnection, ClientStream, ClientTimeouts, Refused
from tests.support.hub import choice, running_hub

ASK = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
LARGE = b"x" * 8_000_000

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Client:
    """The other end.

    Attributes:
        steps: of each request, whether it was begun, and was answered, in a light step.
    """

    def __init__(self, sock: socket.socket, stream: ClientStream, settings: ServerSettings) -> None:
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self.connection = ClientConnection(stream, settings, ClientTimeouts(settings))
        self.scope = trio.CancelScope()
        self.steps: list[tuple[bool, bool]] = []
        self.ended = trio.Event()

    async def read(self, size: int) -> bytes:
        received = b""
        while len(received) < size and (more := await self.stream.receive_some(min(65_536, size))):
            received += more
        return received


def respond(body: bytes, waiter: Waiter | None = None) -> Application:
    """Return an application that makes one response to everything."""

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        if waiter is not None:
            await waiter
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": (length,)})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return application


@asynccontextmanager
async def served(application: Application) -> AsyncIterator[Client]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        own, _ = listener.accept()
    own.setblocking(False)
    async with running_hub() as hub, trio.open_nursery() as nursery:
        client = Client(other, ClientStream(own, hub), ServerSettings())

        async def run() -> None:
            task = current_task()

            async def noting(*arguments: Any) -> None:
                began = current_task() is not task
                await application(*arguments)
                client.steps.append((began, current_task() is not task))

            try:
                with client.scope:
                    await hub.steps.go(client.connection.run(noting, None, None))
            finally:
                client.connection.abort()
                client.ended.set()

        nursery.start_soon(run)
        async with client.stream:
            yield client
        client.scope.cancel()


async def test_a_request_is_read_and_answered_in_light_steps() -> None:
    async with served(respond(b"ok")) as client:
        for _ in range(3):
            await wait_all_tasks_blocked(0.01)
            await client.stream.send_all(ASK)
            received = b""
            while not received.endswith(b"\r\n\r\nok"):
                received += await client.stream.receive_some()
            assert received.startswith(b"HTTP/1.1 200 ")
    assert client.steps == [(choice.is_on, choice.is_on)] * 3


async def test_a_response_larger_than_the_buffers_arrives_whole_and_the_next_is_light_again() -> None:
    async with served(respond(LARGE)) as client:
        for _ in range(2):
            await wait_all_tasks_blocked(0.01)
            await client.stream.send_all(ASK)
            await wait_all_tasks_blocked(0.01)  # nothing more fits
            head = b""
            while b"\r\n\r\n" not in head:
                head += await client.stream.receive_some(1)
            assert await client.read(len(LARGE)) == LARGE
            await wait_all_tasks_blocked(0.01)
    assert client.steps == [(choice.is_on, False)] * 2


async def test_a_cancellation_leaves_no_half_of_a_response() -> None:
    async with served(respond(LARGE)) as client:
        await client.stream.send_all(ASK)
        await wait_all_tasks_blocked(0.01)
        client.scope.cancel()
        head = b""
        while b"\r\n\r\n" not in head:
            head += await client.stream.receive_some(1)
        assert await client.read(len(LARGE)) == LARGE
        assert await client.read(1) == b""


async def test_a_cancellation_while_a_light_step_waits_closes_the_connection() -> None:
    async with served(respond(b"ok", Waiter())) as client:
        await client.stream.send_all(ASK)
        await wait_all_tasks_blocked(0.01)
        client.scope.cancel()
        assert await client.read(1) == b""
    assert client.ended.is_set()
    assert client.steps == []


async def test_a_client_that_ends_its_side_with_its_request_gets_the_response() -> None:
    async with served(respond(b"ok")) as client:
        await wait_all_tasks_blocked(0.01)
        await client.stream.send_all(ASK)
        await client.stream.send_eof()
        assert (await client.read(10_000)).endswith(b"\r\n\r\nok")


async def test_pipelined_requests_are_all_answered() -> None:
    async with served(respond(b"ok")) as client:
        await client.stream.send_all(ASK * 50)
        received = b""
        while received.count(b"\r\n\r\nok") < 50:
            received += await client.stream.receive_some()
    assert received.count(b"HTTP/1.1 200 ") == 50


async def test_half_a_head_is_refused_at_its_deadline() -> None:
    async with served(respond(b"ok")) as client:
        await client.stream.send_all(ASK[:10])
        await wait_all_tasks_blocked(0.01)
        client.connection.time_out(Refused(408, sentence_of("Too slow.")))
        assert (await client.read(10_000)).startswith(b"HTTP/1.1 408 ")
    assert client.steps == []


async def test_a_reset_within_a_response_ends_the_connection() -> None:
    waiter = Waiter()
    async with served(respond(b"ok", waiter)) as client:
        await client.stream.send_all(ASK)
        await wait_all_tasks_blocked(0.01)
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await client.stream.aclose()
        await wait_all_tasks_blocked(0.01)
        waiter.wake()
        with trio.fail_after(10):
            await client.ended.wait()
