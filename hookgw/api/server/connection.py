"""A client's connection as hypercorn sees it: a stream that adds framing checks, timeouts and headers."""

from __future__ import annotations

import contextlib
import socket

import trio

from hookgw.api.server.client_timeouts import ClientTimeouts, Wait
from hookgw.api.server.errors import JSON, VERSION_HEADER, error_body
from hookgw.api.server.request_framing import RequestFilter
from hookgw.api.server.request_head import Refused

_LINGER = 2.0
"""Seconds to read on after an error response, before the connection is closed."""
_RECEIVE = 65_536
_ERRORS = (b"HTTP/1.1 4", b"HTTP/1.1 5")
_HEADS = (b"HTTP/1.1 2", b"HTTP/1.1 3", *_ERRORS)
_LENGTH = b"content-length: "
_END_OF_HEAD = b"\r\n\r\n"
_CACHING = b"\r\ncache-control: "
_NO_STORE = b"cache-control: no-store\r\n"
_NOSNIFF = b"x-content-type-options: nosniff\r\n"
_SERVER_ERRORS = {
    400: "This is not a valid HTTP request.",
    500: "An internal error occurred; see hookgw's log.",
}


class Connection(trio.abc.HalfCloseableStream):
    """A stream behind a request filter, with timeouts and with hookgw's shape of errors.

    hypercorn's own error responses (to malformed HTTP, for example) have no body. They lack the version
    header, which every response of the application has; they are recognized by that, and replaced.

    Args:
        stream: the client's stream; closed by :meth:`aclose`.
        sock: the socket below the stream.
        request_filter: checks the framing of requests.
        timeouts: the server's timeouts. The wait for the first request starts now.
        headers: lines of further headers for every response.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        sock: trio.socket.SocketType,
        request_filter: RequestFilter,
        timeouts: ClientTimeouts,
        headers: bytes = b"",
    ) -> None:
        self._stream = stream
        self._filter = request_filter
        self._timeouts = timeouts
        self._wait: Wait | None = None
        self._has_request = False
        self._is_response_due = True
        self._is_timed_out = False
        self._headers = headers + _NOSNIFF
        self._headers_no_store = self._headers + _NO_STORE
        self._head = b""
        self._refused = False
        self.socket = sock  # hypercorn takes the addresses from here
        self._wait_in(timeouts.heads)

    def coalesce(self, data: bytes) -> bytes:
        """Return the bytes to write now that hypercorn writes ``data``.

        The head of a response is held until its body arrives, so that both leave in one packet. (hypercorn
        always writes once more at the end of a response, even if the body is empty.)
        """
        if self._is_response_due and data.startswith(_HEADS):
            self._is_response_due = False
            data = self._with_headers(self._in_shape(data))
            if _LENGTH in data and data.endswith(_END_OF_HEAD):
                self._head = data
                return b""
        if self._head:
            data, self._head = self._head + data, b""
        return data

    def _with_headers(self, data: bytes) -> bytes:
        # Added here as bytes, because hypercorn would validate each header again for every response.
        end = data.find(_END_OF_HEAD) + 2
        headers = self._headers if _CACHING in data else self._headers_no_store
        return data[:end] + headers + data[end:]

    def _in_shape(self, data: bytes) -> bytes:
        if data.startswith(_ERRORS) and VERSION_HEADER[0] not in data:
            self._refused = True
            refusal = self._filter.refusal
            if refusal is not None:
                return server_response(refusal.status, refusal.message)
            status = int(data[9:12])
            return server_response(status, _SERVER_ERRORS.get(status, "The request cannot be processed."))
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of the data. If the client reads too slowly, the timeout closes the connection."""
        self._timeouts.writes.begin(self)
        try:
            await self._stream.send_all(data)
        finally:
            self._timeouts.writes.end(self)

    async def wait_send_all_might_not_block(self) -> None:
        """See :class:`trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return the next bytes that pass the request filter; ``b""`` at the end."""
        while True:
            data = await self._stream.receive_some(max_bytes)
            if not data or self._is_timed_out:  # a client that keeps sending does not keep it open
                return self._filter.end()
            passed = self._filter.feed(bytes(data))
            # The usual case, a whole request in one packet, touches no timeout here.
            if not self._filter.is_between or self._wait is self._timeouts.bodies:
                self._start_timeout()
            if passed:
                return passed

    def _start_timeout(self) -> None:
        """Start the timeout for the rest of a head or body that has begun."""
        if self._filter.is_within_body:
            wanted = self._timeouts.bodies
        elif self._filter.is_within_head and not self._has_request:
            wanted = self._timeouts.heads
        else:
            wanted = None
        if self._wait is not wanted:
            self._wait_in(wanted)

    def _wait_in(self, wait: Wait | None) -> None:
        if self._wait is not None:
            self._wait.end(self)
        self._wait = wait
        if wait is not None:
            wait.begin(self)

    def begin_request(self) -> None:
        """hypercorn has a request; its body may still be incomplete."""
        self._has_request = True
        if self._wait is not self._timeouts.bodies:
            self._wait_in(None)

    def end_request(self) -> None:
        """hypercorn has sent the response and can read the next request."""
        self._has_request = False
        self._is_response_due = True
        # After the shutdown began, keep-alive ends with the current response.
        if self._timeouts.is_closing:
            self.abort()
        elif self._wait is None:
            self._wait_in(self._timeouts.heads if self._filter.is_within_head else self._timeouts.idles)

    def eviction_rank(self) -> tuple[int, float] | None:
        """Return the rank of the current wait and its start; ``None`` while hookgw works on a request."""
        for wait in (self._wait, self._timeouts.writes):
            since = wait.since(self) if wait is not None else None
            if wait is not None and since is not None:
                return wait.rank, since
        return None

    def time_out(self, refusal: Refused) -> None:
        """Refuse a request that did not arrive in time, after earlier responses; if none has begun, close."""
        if self._filter.is_within_head or self._filter.is_within_body:
            # Not written here: responses to earlier, pipelined requests come first.
            self._filter.refuse(refusal)
            self._is_timed_out = True
            self.stop_reading()
        else:
            self.abort()

    def stop_reading(self) -> None:
        """Make the pending read return the end of the stream."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)

    def leave(self) -> None:
        """Stop all timeouts of the connection, because it ended."""
        self._wait_in(None)
        self._timeouts.writes.end(self)

    async def send_eof(self) -> None:
        """Half-close the stream if it can be half-closed."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the stream; after an error response only once the client has read it, or after 2 s."""
        if self._refused:
            self._refused = False
            self._wait_in(self._timeouts.heads)
            await self._drain()
        await self._stream.aclose()

    async def _drain(self) -> None:
        # Closing a socket with unread bytes sends a reset, which can overtake the response (RFC 9112,
        # section 9.6).
        try:
            with trio.move_on_after(_LINGER):
                while await self._stream.receive_some(_RECEIVE):
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
            return

    def abort(self) -> None:
        """Close at once, even during a request. It is no longer a candidate for making room."""
        self.leave()
        self.socket.close()


def server_response(status: int, message: str) -> bytes:
    """Return a complete error response to a request that the application never saw."""
    body = error_body(status, [message])
    # The reason phrase is empty, as in hypercorn's own responses (RFC 9112, section 4 allows that).
    head = (
        f"HTTP/1.1 {status} \r\ncontent-type: {JSON}\r\ncontent-length: {len(body)}\r\n"
        f"{VERSION_HEADER[0].decode()}: {VERSION_HEADER[1].decode()}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
