"""Little proxies on loopback: an HTTP one and a SOCKS5 one that work, and any that does not."""

import base64
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio


@dataclass
class LittleProxy:
    """A proxy that runs.

    Attributes:
        port: on 127.0.0.1.
        asked: each connection that was asked for, as ``address:port``, in order.
        reaches: the port on 127.0.0.1 to which every connection is made, whatever was asked for, so
            that tests can ask for addresses of the internet. ``None``: none is made, all are refused.
        credentials: the user and password that it wants, as ``user:password``; empty for none.
        connections: how many came.
    """

    port: int = 0
    asked: list[str] = field(default_factory=list)
    reaches: int | None = None
    credentials: str = ""
    connections: int = 0


Speak = Callable[[LittleProxy, trio.SocketStream], Awaitable[None]]
"""Serves one connection; it is closed afterwards."""


@asynccontextmanager
async def open_proxy(
    speak: Speak, *, reaches: int | None = None, credentials: str = ""
) -> AsyncIterator[LittleProxy]:
    """Run a proxy for the length of the block.

    Args:
        speak: :func:`http_proxy`, :func:`socks5_proxy`, or :func:`saying` something.
        reaches, credentials: see :class:`LittleProxy`.
    """
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = LittleProxy(listener.socket.getsockname()[1], reaches=reaches, credentials=credentials)

    async def handle(stream: trio.SocketStream) -> None:
        proxy.connections += 1
        try:
            await speak(proxy, stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, handle, [listener])
        yield proxy
        nursery.cancel_scope.cancel()


async def http_proxy(proxy: LittleProxy, stream: trio.SocketStream) -> None:
    """HTTP CONNECT, and nothing else."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = await stream.receive_some(1)
        if not data:
            return
        head += data
    first, *lines = head.decode("ascii").split("\r\n")
    method, place, version = first.split(" ")
    assert (method, version) == ("CONNECT", "HTTP/1.1")
    headers = dict(line.split(": ", 1) for line in lines if line)
    assert headers["host"] == place
    wanted = "Basic " + base64.b64encode(proxy.credentials.encode()).decode()
    if proxy.credentials and headers.get("proxy-authorization") != wanted:
        await stream.send_all(b"HTTP/1.1 407 No\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n")
        return
    proxy.asked.append(place)
    if proxy.reaches is None:
        await stream.send_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno")
        return
    await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await _relay(stream, proxy.reaches)


async def socks5_proxy(proxy: LittleProxy, stream: trio.SocketStream) -> None:
    """SOCKS5 with CONNECT to an address, with or without user and password."""
    _, count = await _read(stream, 2)
    methods = await _read(stream, count)
    method = 2 if proxy.credentials else 0
    if method not in methods:
        await stream.send_all(b"\x05\xff")
        return
    await stream.send_all(bytes([5, method]))
    if proxy.credentials and not await _is_known(proxy, stream):
        await stream.send_all(b"\x01\x01")
        return
    if proxy.credentials:
        await stream.send_all(b"\x01\x00")
    assert await _read(stream, 3) == b"\x05\x01\x00"
    is_ipv4 = await _read(stream, 1) == b"\x01"
    packed = await _read(stream, 4 if is_ipv4 else 16)
    address = socket.inet_ntop(socket.AF_INET if is_ipv4 else socket.AF_INET6, packed)
    proxy.asked.append(f"{address}:{int.from_bytes(await _read(stream, 2), 'big')}")
    if proxy.reaches is None:
        await stream.send_all(b"\x05\x05\x00\x01" + bytes(6))
        return
    await stream.send_all(b"\x05\x00\x00\x03\x05local\x04\x38")
    await _relay(stream, proxy.reaches)


def saying(*said: bytes, then_waits: bool = False) -> Speak:
    """A proxy that says these, each after something came, then closes, or keeps silent."""

    async def speak(_: LittleProxy, stream: trio.SocketStream) -> None:
        for words in said:
            if not await stream.receive_some(4096):
                return
            await stream.send_all(words)
        if then_waits:
            while await stream.receive_some(4096):
                pass

    return speak


async def _is_known(proxy: LittleProxy, stream: trio.SocketStream) -> bool:
    assert await _read(stream, 1) == b"\x01"
    user = await _read(stream, (await _read(stream, 1))[0])
    password = await _read(stream, (await _read(stream, 1))[0])
    return user + b":" + password == proxy.credentials.encode()


async def _read(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise trio.ClosedResourceError
        data += more
    return data


async def _relay(one: trio.SocketStream, port: int) -> None:
    other = await trio.open_tcp_stream("127.0.0.1", port)
    async with other, trio.open_nursery() as nursery:
        nursery.start_soon(_pump, one, other, nursery.cancel_scope)
        nursery.start_soon(_pump, other, one, nursery.cancel_scope)


async def _pump(source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
    try:
        async for data in source:
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()
