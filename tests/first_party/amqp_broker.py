"""A scripted broker: it speaks the frames of AMQP 0-9-1, and does what a test tells it to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio
from pamqp import base, body, commands, exceptions, frame, header, heartbeat


class Published(NamedTuple):
    """A message that arrived; ``tag`` is its number on the channel."""

    channel: int
    tag: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: commands.Basic.Properties
    content: bytes

    @property
    def id(self) -> str:
        return self.properties.message_id or ""


Answer = Callable[["Link", Published], Awaitable[None]]


async def confirm(link: Link, message: Published) -> None:
    await link.send(message.channel, commands.Basic.Ack(message.tag))


class Link:
    """One connection to the broker."""

    def __init__(self, broker: Broker, stream: trio.SocketStream) -> None:
        self.broker = broker
        self.stream = stream
        self.seen: list[str] = []
        self.heartbeats = 0
        self.start_ok: commands.Connection.StartOk | None = None
        self.virtual_host = ""
        self._buffer = b""
        self._tags: dict[int, int] = {}

    async def send(self, channel: int, *frames: base.Frame | frame.FrameTypes) -> None:
        await self.stream.send_all(b"".join(frame.marshal(one, channel) for one in frames))

    async def receive(self) -> tuple[int, frame.FrameTypes] | None:
        while True:
            try:
                size, channel, found = frame.unmarshal(self._buffer)
            except exceptions.UnmarshalingException:
                data = bytes(await self.stream.receive_some())
                if not data:
                    return None
                self._buffer += data
                continue
            self._buffer = self._buffer[size:]
            self.seen.append(type(found).__name__)
            return channel, found

    async def expect(self, kind: type[base.Frame]) -> base.Frame:
        while True:
            received = await self.receive()
            assert received is not None, f"the client closed before {kind.__name__}"
            if isinstance(received[1], kind):
                return received[1]

    async def serve(self) -> None:
        await self.expect_protocol()
        broker = self.broker
        await self.send(0, commands.Connection.Start(mechanisms=broker.mechanisms))
        start_ok = await self.expect(commands.Connection.StartOk)
        assert isinstance(start_ok, commands.Connection.StartOk)
        self.start_ok = start_ok
        if broker.refusal is not None:
            await self.send(0, broker.refusal)
            return
        await self.send(0, commands.Connection.Tune(*broker.tune))
        opened = await self.expect(commands.Connection.Open)
        assert isinstance(opened, commands.Connection.Open)
        self.virtual_host = opened.virtual_host
        await self.send(0, commands.Connection.OpenOk())
        await self.take()

    async def expect_protocol(self) -> None:
        received = await self.receive()
        assert received is not None
        assert isinstance(received[1], header.ProtocolHeader)

    async def take(self) -> None:
        """Take messages, and give each to the broker's answer."""
        publishing: commands.Basic.Publish | None = None
        head: header.ContentHeader | None = None
        content = b""
        while (received := await self.receive()) is not None:
            channel, found = received
            if isinstance(found, heartbeat.Heartbeat):
                self.heartbeats += 1
            elif isinstance(found, commands.Channel.Open):
                await self.send(channel, commands.Channel.OpenOk())
            elif isinstance(found, commands.Confirm.Select):
                self._tags[channel] = 0
                await self.send(channel, commands.Confirm.SelectOk())
            elif isinstance(found, commands.Basic.Publish):
                publishing, head, content = found, None, b""
            elif isinstance(found, header.ContentHeader):
                head = found
            elif isinstance(found, body.ContentBody):
                content += found.value
            elif isinstance(found, commands.Connection.Close):
                return
            if publishing is not None and head is not None and len(content) == head.body_size:
                self._tags[channel] += 1
                message = Published(
                    channel,
                    self._tags[channel],
                    publishing.exchange,
                    publishing.routing_key,
                    publishing.mandatory,
                    head.properties,
                    content,
                )
                publishing = None
                self.broker.messages.append(message)
                self.broker.arrived.set()
                self.broker.arrived = trio.Event()
                await self.broker.answer(self, message)


class Broker:
    """The broker.

    Attributes:
        answer: what it does with each message; by default it confirms it.
        refusal: sent instead of the limits, such as ``Connection.Close``.
        serve: what it does with a connection, instead of all this.
    """

    def __init__(self, listener: trio.SocketListener) -> None:
        self.port: int = listener.socket.getsockname()[1]
        self.messages: list[Published] = []
        self.links: list[Link] = []
        self.arrived = trio.Event()
        self.answer: Answer = confirm
        self.refusal: commands.Connection.Close | None = None
        self.serve: Callable[[Link], Awaitable[None]] = Link.serve
        self.mechanisms = "PLAIN AMQPLAIN"
        self.tune = (2047, 131_072, 60)

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.messages]

    def url(self, path: str = "", user: str = "user:s3cret%2Fword@") -> str:
        return f"amqp://{user}127.0.0.1:{self.port}{path}"

    async def handle(self, stream: trio.SocketStream) -> None:
        link = Link(self, stream)
        self.links.append(link)
        try:
            async with stream:
                await self.serve(link)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def open_broker() -> AsyncIterator[Broker]:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    broker = Broker(listeners[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, broker.handle, listeners)
        yield broker
        nursery.cancel_scope.cancel()
