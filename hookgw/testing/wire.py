"""One connection of a receiver: the steps on its wire, and the reading of requests."""

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
_MAX_HEAD = 2**20
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Wire:
    """A connection that steps are performed on. It owns the stream; :meth:`aclose` closes it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._socket_stream = stream
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream

    async def start_tls(self, context: ssl.SSLContext | None) -> None:
        """Do the server's side of the TLS handshake; nothing without a context.

        Raises:
            trio.BrokenResourceError: the client went away or refused (its cause is an ``SSLError``).
        """
        if context is not None:
            self._stream = trio.SSLStream(
                self._socket_stream, context, server_side=True, https_compatible=True
            )
            await self._stream.do_handshake()

    async def receive(self) -> bytes:
        """The next bytes; empty at the end of the connection."""
        return bytes(await self._stream.receive_some(_READ_SIZE))

    async def perform(self, steps: Iterable[Step]) -> bool:
        """Do the steps in turn.

        Returns:
            whether the connection can serve a further request.

        Raises:
            trio.BrokenResourceError: the client went away.
        """
        for step in steps:
            if isinstance(step, Hang | HalfClose | Close | Reset):
                await self._end(step)
                return False
            await self._send(step)
        return True

    async def aclose(self) -> None:
        """Close it; a second time does nothing."""
        await self._stream.aclose()

    async def _send(self, step: Send | Drip | Stream | Pause) -> None:
        match step:
            case Send(data):
                await self._stream.send_all(data)
            case Drip():
                await self._drip(step)
            case Stream(pieces):
                for piece in pieces():
                    await self._stream.send_all(piece)
            case Pause(seconds):
                await trio.sleep(seconds)

    async def _end(self, step: Hang | HalfClose | Close | Reset) -> None:
        match step:
            case Hang():
                await self._read_to_end()
            case HalfClose():
                await self._socket_stream.send_eof()
                await self._read_to_end()
            case Reset():
                self._socket_stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
                self._socket_stream.socket.close()
            case Close():
                await self.aclose()

    async def _drip(self, drip: Drip) -> None:
        for start in range(0, len(drip.data), drip.size):
            if start:
                await trio.sleep(drip.every)
            await self._stream.send_all(drip.data[start : start + drip.size])

    async def _read_to_end(self) -> None:
        while await self.receive():
            pass


class BodyTooLarge(Exception):
    """A request has a longer body than is taken."""


class Peer:
    """Reads the requests of one connection, one after the other."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._parser = _new_parser(b"")

    @property
    def keeps_alive(self) -> bool:
        """Whether the request just read leaves the connection open."""
        return self._parser.their_state is h11.DONE

    async def read_head(self) -> h11.Request | None:
        """The head of the next request; ``None`` when the client closed instead.

        Raises:
            h11.RemoteProtocolError: what came is no HTTP.
        """
        self._parser = _new_parser(self._parser.trailing_data[0])
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def read_body(self, most: float = math.inf) -> bytes:
        """The body of the request whose head was read last.

        Raises:
            BodyTooLarge: it has more bytes than ``most``; the connection is of no more use.
            h11.RemoteProtocolError: it breaks off, or its coding is broken.
        """
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > most:
                raise BodyTooLarge(f"a request had a body of more than {most:,} bytes")
        return bytes(body)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(await self._wire.receive())
        return event


def _new_parser(rest: bytes) -> h11.Connection:
    """A parser for one request; a new one each time, as the answers bypass it."""
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    if rest:
        parser.receive_data(rest)
    return parser
