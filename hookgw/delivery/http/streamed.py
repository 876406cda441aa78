"""Passes the bodies of responses on as they arrive, one request on one connection."""

from __future__ import annotations

import sys

import trio

from hookgw.delivery.http.connection import OutgoingConnection
from hookgw.delivery.http.errors import ResponseFailed
from hookgw.delivery.http.response import Response, ResponseParser
from hookgw.delivery.http.stream import Stream, StreamBroken
from hookgw.delivery.http.transport import LaneTransport
from hookgw.kernel.target_url import Origin, Target


class StreamParser(ResponseParser):
    """A parser whose :meth:`feed` returns true as soon as the head is complete; :meth:`take` returns the
    body.
    """

    __slots__ = ("broken",)

    def __init__(self) -> None:
        super().__init__(sys.maxsize)
        self.broken = False

    @property
    def complete(self) -> bool:
        return self._complete

    def feed(self, data: bytes) -> bool:
        is_over = super().feed(data)
        self.broken = is_over and not self._complete
        return is_over or self.status != 0

    def finish(self) -> Response:
        """Return the head; the body is empty."""
        return Response(self.status, self._headers, b"", complete=False)

    def take(self) -> bytes:
        """Return the part of the body that arrived since the last call."""
        body = b"".join(self._body)
        self._body.clear()
        return body


class StreamConnection(OutgoingConnection):
    """A connection for one exchange. ``exchange`` returns at the end of the response's head."""

    __slots__ = ("_parser",)

    def __init__(self, stream: Stream, origin: Origin) -> None:
        super().__init__(stream, origin, 0)
        self.parser = self._parser = StreamParser()

    async def receive(self) -> bytes:
        """Return the next piece of the body, as large as one read of the socket; empty at the end.

        Raises:
            ResponseFailed: the body was cut off, or is malformed.
        """
        parser = self._parser
        while not (data := parser.take()):
            if parser.complete:
                await trio.lowlevel.checkpoint()
                return b""
            if parser.broken:
                raise ResponseFailed("The body of the response is not valid HTTP/1.")
            try:
                received = await self.stream.receive()
            except StreamBroken as error:
                raise ResponseFailed(f"The server broke the connection in its response: {error}.") from error
            if received:
                parser.feed(received)
                continue
            parser.end_of_stream()
            if not parser.complete:
                raise ResponseFailed("The server closed the connection in the middle of its response.")
        return data


class StreamTransport(LaneTransport):
    """One request, and the body of its response in pieces. Close it with :meth:`close_nowait`."""

    async def begin(
        self, target: Target, request: bytes, *, deadline: float
    ) -> tuple[Response, StreamConnection]:
        """Send a request, and return the response without its body, and what has the body.

        The deadline covers everything up to the end of the response's head.

        Raises:
            DeliveryError: see :meth:`LaneTransport.exchange`. The connection is closed.
        """
        started_at = trio.current_time()
        stream = await self._open(target, deadline, tls=target.scheme == "https")
        connection = StreamConnection(stream, (target.scheme, target.host, target.port))
        self._connection = connection
        try:
            await connection.exchange_until(deadline, request)
            return connection.response(started_at), connection
        except BaseException:
            self.close_nowait()
            raise
