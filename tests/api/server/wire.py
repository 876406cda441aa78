"""A server under test, and HTTP over a plain socket."""

import contextlib
from collections.abc import AsyncIterator

import trio
from trio.testing import wait_all_tasks_blocked

from tests.public.web import AppApplication as Application

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


class Running:
    """A running server, its port, and the scope that ends it."""

    def __init__(self, url: str, scope: trio.CancelScope, done: trio.Event) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2].partition("/")[0])
        self.scope = scope
        self.done = done

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def stop(self) -> None:
        self.scope.cancel()
        await self.done.wait()


def waiting_route(app: Application, path: str = "/public/waits") -> trio.Event:
    """Add a route whose response waits for the event that is returned."""
    go = trio.Event()

    @app.routing.route(path, methods=["GET", "POST"])
    async def waits() -> str:
        await go.wait()
        return "done"

    return go


async def settle() -> None:
    """Wait until the server has read everything that was sent."""
    await wait_all_tasks_blocked(0.02)


@contextlib.asynccontextmanager
async def many(server: Running, count: int, sent: bytes) -> AsyncIterator[list[trio.SocketStream]]:
    """Open connections from one address that all send the same bytes, and wait until they are read."""
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for _ in range(count):
            stream = await stack.enter_async_context(await server.connect())
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.send_all(sent)
            streams.append(stream)
        await settle()
        yield streams


async def read_answer(stream: trio.abc.ReceiveStream) -> tuple[int, dict[str, str], bytes]:
    """Read one response: status, headers, body; further bytes stay unread."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = await stream.receive_some()
        assert more, f"closed after {received!r}"
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    while len(body) < int(headers.get("content-length", 0)):
        more = await stream.receive_some()
        assert more, "closed within the body"
        body += more
    return int(first.split()[1]), headers, body


async def read_to_end(stream: trio.abc.ReceiveStream) -> bytes:
    received = b""
    while more := await stream.receive_some():
        received += more
    return received


async def assert_answers(server: Running) -> None:
    """Check that the server still responds."""
    async with await server.connect() as stream:
        await stream.send_all(HEALTH)
        assert (await read_answer(stream))[0] == 200
