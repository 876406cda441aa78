"""A client's connection as the HTTP server sees it, with what the server leaves out."""

from __future__ import annotations

import contextlib
import socket

import trio

from hookgw.api.server.client_timeouts import ClientTimeouts, Wait
from hookgw.api.server.errors import JSON, VERSION_HEADER, error_body
from hookgw.api.server.request_framing import RequestFilter
from hookgw.api.server.request_head import Refused

_LINGER = 2.0
_RECEIVE = 65_536
_ERRORS = (b"HTTP/1.1 4", b"HTTP/1.1 5")
_HEADS = (b"HTTP/1.1 2", b"HTTP/1.1 3", *_ERRORS)
_LENGTH = b"content-length: "
_END_OF_HEAD = b"\r\n\r\n"
_CACHING = b"\r\ncache-control: "
_NO_CACHING = b"cache-control: no-store\r\n"
_NO_GUESSING = b"x-content-type-options: nosniff\r\n"
_OWN_ANSWERS = {
    400: "This is no valid HTTP request.",
    500: "Something went wrong inside hookgw; its log says what.",
}


class Connection(trio.abc.HalfCloseableStream):
    """A stream behind a gate. On it the server's own errors have the one shape; answers are written whole.

    The server's own answers (to what is no HTTP, say) have no body; they are known by lacking the
    version that every answer of the application carries.

    Args:
        stream: the client's; closed by :meth:`aclose`.
        sock: what is below the stream.
        gate: what lets requests pass, or says why not.
        waits: where it is counted how long the client takes; from now on, for its first request.
        headers: lines of further headers for every answer.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        sock: trio.socket.SocketType,
        gate: RequestFilter,
        waits: ClientTimeouts,
        headers: bytes = b"",
    ) -> None:
        self._stream = stream
        self._gate = gate
        self._waits = waits
        self._wait: Wait | None = None
        self._is_asked = False
        self._is_head_due = True
        self._is_given_up = False
        self._headers = headers + _NO_GUESSING
        self._headers_uncached = self._headers + _NO_CACHING
        self._head = b""
        self._refused = False
        self.socket = sock
        self._wait_in(waits.heads)

    def gather(self, data: bytes) -> bytes:
        """What is to be written now that the server writes ``data``.

        The head of an answer waits for the body that is announced in it: one packet in place of two.
        (The server writes once more at the end of each answer, if only nothing.)
        """
        if self._is_head_due and data.startswith(_HEADS):
            self._is_head_due = False
            data = self._with_headers(self._in_shape(data))
            if _LENGTH in data and data.endswith(_END_OF_HEAD):
                self._head = data
                return b""
        if self._head:
            data, self._head = self._head + data, b""
        return data

    def _with_headers(self, data: bytes) -> bytes:
        """Add the headers of every answer. Here they cost nothing; the server would check each anew."""
        end = data.find(_END_OF_HEAD) + 2
        headers = self._headers if _CACHING in data else self._headers_uncached
        return data[:end] + headers + data[end:]

    def _in_shape(self, data: bytes) -> bytes:
        if data.startswith(_ERRORS) and VERSION_HEADER[0] not in data:
            self._refused = True
            refusal = self._gate.refusal
            if refusal is not None:
                return server_response(refusal.status, refusal.message)
            status = int(data[9:12])
            return server_response(status, _OWN_ANSWERS.get(status, "The request cannot be answered."))
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write. Where the client does not read for too long, the connection is closed under it."""
        self._waits.writes.begin(self)
        try:
            await self._stream.send_all(data)
        finally:
            self._waits.writes.end(self)

    async def wait_send_all_might_not_block(self) -> None:
        """See :class:`trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Read what passes the gate."""
        while True:
            data = await self._stream.receive_some(max_bytes)
            if not data or self._is_given_up:  # who goes on sending does not keep it open
                return self._gate.end()
            passed = self._gate.feed(bytes(data))
            if not self._gate.is_between or self._wait is self._waits.bodies:
                self._wait_for_the_rest()
            if passed:
                return passed

    def _wait_for_the_rest(self) -> None:
        """Count how long it takes until what has begun is whole."""
        if self._gate.is_within_body:
            wanted = self._waits.bodies
        elif self._gate.is_within_head and not self._is_asked:
            wanted = self._waits.heads
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
        """The server has a request; it may still wait for the body."""
        self._is_asked = True
        if self._wait is not self._waits.bodies:
            self._wait_in(None)

    def end_request(self) -> None:
        """The server has answered and can take the next one."""
        self._is_asked = False
        self._is_head_due = True
        if self._waits.is_closing:
            self.abort()
        elif self._wait is None:
            self._wait_in(self._waits.heads if self._gate.is_within_head else self._waits.idles)

    def lag(self) -> tuple[int, float] | None:
        """How well it can be done without: the rank of what it waits for, and since when; ``None``: badly."""
        for wait in (self._wait, self._waits.writes):
            since = wait.since(self) if wait is not None else None
            if wait is not None and since is not None:
                return wait.rank, since
        return None

    def give_up(self, refusal: Refused) -> None:
        """Wait no longer for what has begun. It is refused, in its turn; where nothing has, just close."""
        if self._gate.is_within_head or self._gate.is_within_body:
            self._gate.refuse(refusal)
            self._is_given_up = True
            self.stop_reading()
        else:
            self.abort()

    def stop_reading(self) -> None:
        """Let whoever reads come to the end."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)

    def leave(self) -> None:
        """It ended: nothing is counted any more."""
        self._wait_in(None)
        self._waits.writes.end(self)

    async def send_eof(self) -> None:
        """Say that nothing more will be written, where the stream can."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close; after a refusal only once the client has read it, or for a while."""
        if self._refused:
            self._refused = False
            self._wait_in(self._waits.heads)
            await self._read_off()
        await self._stream.aclose()

    async def _read_off(self) -> None:
        """Drop what still comes: closing with bytes unread would reset the connection under the answer."""
        try:
            with trio.move_on_after(_LINGER):
                while await self._stream.receive_some(_RECEIVE):
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
            return

    def abort(self) -> None:
        """Close at once, whatever is under way on it. Who looks for a connection to close finds others."""
        self.leave()
        self.socket.close()


def server_response(status: int, message: str) -> bytes:
    """A whole answer, in the one shape, to what the application never saw."""
    body = error_body(status, [message])
    head = (
        f"HTTP/1.1 {status} \r\ncontent-type: {JSON}\r\ncontent-length: {len(body)}\r\n"
        f"{VERSION_HEADER[0].decode()}: {VERSION_HEADER[1].decode()}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
