"""One connection of a receiver: perform steps on it, and read requests from it."""

from __future__ import annotations

import math
import socket
import ssl
import struct
from collections.abc import Iterable

import h11
import trio

from hookgw.testing.answers import Close, Drip, HalfClose, Hang, Pause, Reset, Send, Step, Stream

_READ_SIZE = 65536
# Larger than any request head that hookgw sends: a receiver must not fail where a real one might not.
_MAX_HEAD = 2**20
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Wire:
    """A connection to perform steps on. It owns the stream; :meth:`aclose` closes it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._socket_stream = stream
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream

    async def start_tls(self, context: ssl.SSLContext | None) -> None:
        """Do the server's side of the TLS handshake, if there is a context.

        Raises:
            trio.BrokenResourceError: the client left or refused (the cause is an ``SSLError``).
        """
        if context is not None:
            # Most HTTP clients close without close_notify; with https_compatible that is no error.
            self._stream = trio.SSLStream(
                self._socket_stream, context, server_side=True, https_compatible=True
            )
            await self._stream.do_handshake()

    async def receive(self) -> bytes:
        """Return the next bytes, or ``b""`` at the end of the connection."""
        return bytes(await self._stream.receive_some(_READ_SIZE))

    async def perform(self, steps: Iterable[Step]) -> bool:  # noqa: C901
        """Perform the steps in order. Return whether the connection can serve another request.

        Raises:
            trio.BrokenResourceError: the client left.
        """
        for step in steps:
            match step:
                case Send(data):
                    await self._stream.send_all(data)
                case Drip(data, every, size):
                    for start in range(0, len(data), size):
                        if start:
                            await trio.sleep(every)
                        await self._stream.send_all(data[start : start + size])
                case Stream(pieces):
                    for piece in pieces():
                        await self._stream.send_all(piece)
                case Pause(seconds):
                    await trio.sleep(seconds)
                case Hang():
                    await self._receive_until_end()
                    return False
                case HalfClose():
                    # On the socket itself: Trio's TLS streams cannot be half-closed.
                    await self._socket_stream.send_eof()
                    await self._receive_until_end()
                    return False
                case Reset():
                    # With a linger time of zero, close() sends RST instead of FIN (socket(7), SO_LINGER).
                    self._socket_stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
                    self._socket_stream.socket.close()
                    return False
                case Close():
                    await self.aclose()
                    return False
        return True

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _receive_until_end(self) -> None:
        # Reading is the only way to notice that the client closed the connection.
        while await self.receive():
            pass


class BodyTooLarge(Exception):
    pass


class Peer:
    """Reads the requests of one connection, one after another."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._parser = h11.Connection(h11.SERVER)

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection stays open after the request just read."""
        return self._parser.their_state is h11.DONE

    async def read_head(self) -> h11.Request | None:
        """Return the head of the next request, or ``None`` if the client closed the connection.

        Raises:
            h11.RemoteProtocolError: the bytes are not HTTP.
        """
        # A new parser for each request: h11 starts the next cycle only after it has seen the response, and
        # answers bypass it, because they may be invalid HTTP.
        pipelined, _ = self._parser.trailing_data
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        # To h11, empty data is the end of the connection.
        if pipelined:
            self._parser.receive_data(pipelined)
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def read_body(self, most: float = math.inf) -> bytes:
        """Return the body that follows the head read last.

        Raises:
            BodyTooLarge: it has more than ``most`` bytes; the connection cannot be used any more.
            h11.RemoteProtocolError: it is incomplete, or its transfer coding is invalid.
        """
        body = bytearray()
        # Counted while reading: a chunked body does not declare its length.
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > most:
                raise BodyTooLarge(f"a request had a body of more than {most:,} bytes")
        return bytes(body)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(await self._wire.receive())
        return event
