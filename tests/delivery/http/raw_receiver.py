"""A receiver that sends the bytes that a test chooses: a function per connection, on a real socket."""

import select
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakKeyDictionary

import trio
from trio.testing import MockClock

from tests.public.concurrency import NO_HUB, Hub
from tests.public.delivery import USUAL_TLS_CONTEXTS as USUAL_CONTEXTS
from tests.public.delivery import (
    AddressGuard,
    ClientContexts,
    Deadlines,
    Dialer,
    LaneTransport,
    Response,
    render_head,
)
from tests.public.kernel import Target, parse_target
from tests.public.records import TlsIdentity
from tests.simulation.trio_internals import see_nothing_once
from tests.support.hub import running_hub

BODY = b'{"event":"MESSAGES_UPSERT"}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """The receiver's side of one connection."""

    def __init__(
        self, stream: trio.abc.HalfCloseableStream, sock: trio.socket.SocketType, number: int
    ) -> None:
        self.stream = stream
        self.number = number
        self._sock = sock
        self._unread = b""

    async def request(self) -> bytes:
        """Return the next request, head and body; empty if the other side closed."""
        while b"\r\n\r\n" not in self._unread:
            data = await self.stream.receive_some(65536)
            if not data:
                return b""
            self._unread += data
        head, _, rest = self._unread.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(rest) < length:
            rest += await self.stream.receive_some(65536)
        self._unread = rest[length:]
        return head + b"\r\n\r\n" + rest[:length]

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def closed_by_the_other_side(self) -> None:
        """Read until the transport has closed."""
        try:
            while await self.stream.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            pass

    def reset(self) -> None:
        """Close with a RST."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    @contextmanager
    def one_segment(self) -> Iterator[None]:
        """Send everything in the block as one segment at its end."""
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        yield
        if self._sock.fileno() >= 0:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


Behaviour = Callable[[Peer], Awaitable[None]]


class Server:
    """The address of the receiver, and what it got."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.scheme = scheme
        self.connections = 0
        self.requests: list[bytes] = []

    def target(self, path: str = "/hook", host: str = "127.0.0.1") -> Target:
        return parse_target(f"{self.scheme}://{host}:{self.port}{path}")


@asynccontextmanager
async def serving(
    behaviour: Behaviour, *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Server]:
    """Run ``behaviour`` for each connection; the connection is closed when it returns."""
    (listener,) = await trio.open_tcp_listeners(port, host=host)
    listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    server = Server(listener.socket.getsockname()[1], "https" if context else "http")

    async def handle(plain: trio.SocketStream) -> None:
        server.connections += 1
        stream: trio.abc.HalfCloseableStream = plain
        if context is not None:
            stream = trio.SSLStream(plain, context, server_side=True, https_compatible=True)  # type: ignore[assignment]
        try:
            await behaviour(Peer(stream, plain.socket, server.connections))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            plain.socket.close()

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, handle, [listener])
        yield server
        nursery.cancel_scope.cancel()


def answering(*answers: bytes) -> Behaviour:
    """Response the requests of a connection with these bytes, one after the other, then close it."""

    async def behaviour(peer: Peer) -> None:
        for answer in answers:
            if not await peer.request():
                return
            await peer.send(answer)

    return behaviour


async def always_ok(peer: Peer) -> None:
    while await peer.request():
        await peer.send(OK)


def dialer(*, connect_timeout: float = 5) -> Dialer:
    return Dialer(AddressGuard(["127.0.0.0/8", "::1"]), connect_timeout=connect_timeout)


_hubs = WeakKeyDictionary[LaneTransport, Hub]()


def hub_of(lane: LaneTransport) -> Hub:
    """Return the hub of a transport that :func:`transport` made; of any other, one that does not run."""
    return _hubs.get(lane, NO_HUB)


@asynccontextmanager
async def transport(
    *,
    max_answer: int = 65536,
    connect_timeout: float = 5,
    trust: ssl.SSLContext | ClientContexts = USUAL_CONTEXTS,
    tls: TlsIdentity | None = None,
    watched: bool = False,
    make: type[LaneTransport] = LaneTransport,
) -> AsyncIterator[LaneTransport]:
    """A transport that may reach this machine; ``watched`` uses one timer for all deadlines."""
    deadlines = Deadlines() if watched else None
    async with running_hub() as hub, trio.open_nursery() as nursery:
        lane = make(
            dialer(connect_timeout=connect_timeout),
            max_answer=max_answer,
            ssl_context=trust,
            tls=tls,
            deadlines=deadlines,
            hub=hub,
        )
        _hubs[lane] = hub
        if deadlines is not None:
            await nursery.start(deadlines.run)
        yield lane
        lane.close_nowait()
        nursery.cancel_scope.cancel()


@contextmanager
def frozen_at_responses(lane: LaneTransport, clock: MockClock, seconds: float) -> Iterator[None]:
    """Let time pass when something has arrived for a transport, before anything can read it.

    Every other time, the first look at the sockets finds nothing: see :func:`see_nothing_once`.
    """

    class Freeze(trio.abc.Instrument):
        is_armed = is_blind = True

        def before_io_wait(self, timeout: float) -> None:
            if lane.fileno is None or not select.select([lane.fileno], [], [], 0)[0]:
                self.is_armed = True
            elif self.is_armed:
                self.is_armed = False
                clock.jump(seconds)
                self.is_blind = not self.is_blind
                if self.is_blind:
                    see_nothing_once()

    freeze = Freeze()
    trio.lowlevel.add_instrument(freeze)
    yield
    trio.lowlevel.remove_instrument(freeze)


async def post(lane: LaneTransport, server: Server, body: bytes = BODY, *, seconds: float = 10) -> Response:
    target = server.target()
    head = render_head(target, {"content-type": "application/json"}, len(body))
    exchange = lane.exchange(target, head, body, deadline=trio.current_time() + seconds)
    return await hub_of(lane).steps.go(exchange)
