"""The sending side of HTTP/1.1 over Trio, as simple as a victim and an attacker need it.

A client library would cost more time than what is measured, and would refuse to send what an attacker sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType

import trio

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Closed(Exception):
    """The server closed the connection before its response was complete.

    Attributes:
        unused: nothing of a response had arrived, so a request on a reused connection may be repeated.
    """

    def __init__(self, *, unused: bool) -> None:
        super().__init__("the server closed the connection")
        self.unused = unused


def render(
    method: str, path: str, body: bytes = b"", *, key: str | None = None, headers: Mapping[str, str] = {}
) -> bytes:
    """Return the bytes of a request. A body is JSON unless the headers say otherwise."""
    lines = {"host": "127.0.0.1", **({"apikey": key} if key is not None else {})}
    if body:
        lines |= {"content-type": "application/json", "content-length": str(len(body))}
    text = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **headers}.items())
    return f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode() + body


class Connection:
    """A keep-alive connection; it connects with the first request, and again after an error.

    Args:
        port: of the server, on 127.0.0.1.
        address: from which it connects. Limits per address count attackers and victims apart.
    """

    def __init__(self, port: int, address: str) -> None:
        self._port = port
        self._address = address
        self._stream: trio.SocketStream | None = None

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection at once."""
        if self._stream is not None:
            self._stream.socket.close()
            self._stream = None

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return status and body of the response; see :meth:`exchange_whole`."""
        head, body = await self.exchange_whole(request)
        return int(head[9:12]), body

    async def exchange_whole(self, request: bytes) -> tuple[bytes, bytes]:
        """Send a request and return head and body of the response.

        A connection that the server closed while it was idle is replaced, as every client does.

        Raises:
            Closed: the server closed the connection.
            OSError: the server does not accept connections.
        """
        reused = self._stream is not None
        try:
            return await self._exchange(request)
        except Closed as error:
            if not (reused and error.unused):
                raise
        return await self._exchange(request)

    async def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        data = b""
        try:
            if self._stream is None:
                self._stream = await open_stream(self._port, self._address)
            await self._stream.send_all(request)
            while (end := data.find(b"\r\n\r\n") + 4) < 4:
                data += await self._more()
            length = _LENGTH.search(data, 0, end)
            assert length is not None, data[:end]
            while len(data) < end + int(length[1]):
                data += await self._more()
        except trio.BrokenResourceError:
            self.close()
            raise Closed(unused=not data) from None
        except EOFError:
            self.close()
            raise Closed(unused=not data) from None
        except BaseException:
            self.close()
            raise
        if b"connection: close" in data[:end].lower():
            self.close()
        return data[:end], data[end:]

    async def _more(self) -> bytes:
        assert self._stream is not None
        data = bytes(await self._stream.receive_some(65_536))
        if not data:
            raise EOFError
        return data


async def open_stream(port: int, address: str) -> trio.SocketStream:
    """Connect to a port of 127.0.0.1 from an address of this machine.

    Raises:
        OSError: nobody accepts the connection.
    """
    sock = trio.socket.socket()
    try:
        await sock.bind((address, 0))
        await sock.connect(("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return trio.SocketStream(sock)
