"""One client's connection: HTTP/1.1 between its stream and the application.

One task serves a connection: it takes a head from the request reader, calls the application (ASGI), and goes
on to the next head. No other task reads ahead. The application's own ``receive`` reads the socket, so that a
body arrives no faster than the application takes it, and a request that needs no part of Quart (an emit)
costs no task, no queue and no cancel scope. While the application works on a complete request, only its call
of ``receive`` notices that the client leaves, as ASGI has it.

What the server owes to every client, whatever the application does, is here:

- Deadlines: the state of the reader says which one counts; writing has its own.
- A response starts only after the responses to all requests before it, refusals included.
- A response whose request was not read to its end closes the connection: the next request cannot follow
  bytes that nobody reads. If the rest is short, it is read first, and the connection stays open.
- A connection is closed only after the client's last bytes were read, or after :data:`LINGER`: closed at
  once, the client could lose the response to a reset (RFC 9112, section 9.6).
- An application that breaks off in the middle of a response, or misses its announced length, closes the
  connection, which tells the client.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog
import trio

from hookgw.api.server.client import CONNECTION, HEAD_NOTES
from hookgw.api.server.client_timeouts import ClientTimeouts, Wait
from hookgw.api.server.errors import BUG, JSON, error_body
from hookgw.api.server.request_head import CHUNKED, Head, Refused
from hookgw.api.server.request_reader import RequestReader, State
from hookgw.api.server.response_head import BODILESS, FIXED, response_head
from hookgw.api.server.streams import ClientStream
from hookgw.config.settings import ServerSettings

logger = structlog.get_logger("hookgw.api")

Application = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
Address = tuple[str, int] | None

LINGER = 5.0
"""Seconds for which the rest of a body is read and dropped."""

_LINGER_AFTER_REFUSAL = 2.0
_CONTINUE = b"HTTP/1.1 100 \r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_NO_CLEAR_TEXT = b"strict-transport-security: max-age=31536000\r\n"
_ASGI = {"spec_version": "2.1", "version": "3.0"}
_LEFT = {"type": "http.disconnect"}


class Connection:
    """One client's connection.

    Args:
        stream: the client's bytes. The caller closes it.
        settings: the limits.
        timeouts: the server's timeouts. The wait for the first request starts now.
    """

    def __init__(self, stream: ClientStream, settings: ServerSettings, timeouts: ClientTimeouts) -> None:
        self._stream = stream
        self._timeouts = timeouts
        self._reader = RequestReader(settings.max_header)
        self._longest_body = max(settings.max_body, settings.max_batch_body, settings.max_upload)
        self._fixed = FIXED + _NO_CLEAR_TEXT if stream.scheme == "https" else FIXED
        self._wait: Wait | None = None
        self._is_reading = False
        self._others = trio.lowlevel.ParkingLot()
        self._broken = trio.Event()
        self._is_leaving = False
        # Of the current request:
        self._head: Head
        self._scope: dict[str, Any] | None = None  # what all requests with its head share
        self._has_all = False  # whether the application has all of the body
        self._must_continue = False
        # Of its response:
        self._is_started = self._is_finished = False
        self._held = b""  # its head, which leaves together with the first part of its body
        self._left: int | None = None  # bytes of its body that were announced and not sent
        self._is_chunked = False
        self._has_body = True
        self._closes = False
        self._wait_in(timeouts.heads)

    async def run(self, application: Application, client: Address, server: Address) -> None:
        """Serve requests until the connection must be closed.

        Args:
            application: ASGI.
            client, server: the addresses, for the application.
        """
        fixed = {
            "type": "http",
            "asgi": _ASGI,
            "scheme": self._stream.scheme,
            "root_path": "",
            "client": client,
            "server": server,
            "extensions": {},
        }
        while (head := await self._next_head()) is not None:
            await self._serve(head, application, fixed)
            if self._closes or not self._is_finished or self._timeouts.is_closing:
                break
            self._reader.next_request()
            if self._reader.has_unread:
                await trio.lowlevel.checkpoint()  # a thousand pipelined requests must not delay other clients
        await self._linger()

    async def _next_head(self) -> Head | None:
        reader = self._reader
        while True:
            try:
                if reader.state is State.REFUSED and reader.refusal is not None:
                    raise reader.refusal
                if reader.state is State.ENDED:
                    return None
                head = reader.head()
            except Refused as refusal:
                await self._refuse(refusal)
                return None
            if head is not None:
                return head
            if reader.state is State.HEAD:
                self._wait_in(self._timeouts.heads)
            elif self._wait is None:
                self._wait_in(self._timeouts.idles)
            await self._read()

    async def _serve(self, head: Head, application: Application, fixed: Mapping[str, Any]) -> None:
        if self._scope is None or head is not self._head:
            self._head = head
            self._scope = {
                **fixed,
                "method": head.method,
                "path": head.path,
                "raw_path": head.raw_path,
                "query_string": head.query,
                "http_version": head.version,
                "headers": head.fields,
                CONNECTION: self,
                HEAD_NOTES: (head.fields, {}),
            }
        self._has_all = self._is_started = self._is_finished = False
        self._must_continue = head.awaits_continue
        self._closes = head.is_last
        self._held = b""
        if self._reader.has_whole_body:
            self._wait_in(None)
        else:
            self._wait_in(self._timeouts.bodies)
        try:
            await application({**self._scope, "state": {}}, self.receive, self.send)
        except (Exception, BaseExceptionGroup) as error:
            ends = (trio.Cancelled, KeyboardInterrupt)
            if isinstance(error, BaseExceptionGroup) and error.split(ends)[1] is None:
                raise
            logger.exception("request failed", method=head.method)
        if self._is_started:
            return
        if self._reader.refusal is not None:
            await self._refuse(self._reader.refusal)
        elif self._reader.state is not State.ENDED:
            await self._answer(500, BUG)

    # Reading

    @property
    def announced(self) -> int | None:
        """The announced bytes of the current request's body; ``None`` for a chunked body."""
        return None if self._head.length == CHUNKED else self._head.length

    async def receive(self) -> Mapping[str, Any]:
        """Return the next part of the body, or ``http.disconnect`` (ASGI)."""
        reader = self._reader
        while not self._is_finished:
            if self._has_all:
                await self._wait_left()
                break
            try:
                part = reader.part() if reader.is_within_body else b""
            except Refused:
                break
            if reader.state is State.COMPLETE:
                self._has_all = True
                self._wait_in(None)
                return {"type": "http.request", "body": part, "more_body": False}
            if not reader.is_within_body:
                break
            if part:
                self._must_continue = False
                return {"type": "http.request", "body": part, "more_body": True}
            if self._must_continue:
                self._must_continue = False
                await self._write(_CONTINUE)
            await self._read()
        return _LEFT

    def receive_nowait(self) -> bytes | None:
        """Return the rest of the body if all of it has arrived; ``None`` if not, or if it was taken."""
        reader = self._reader
        if self._has_all or not reader.has_whole_body:
            return None
        self._has_all = True
        return reader.part() if reader.is_within_body else b""

    async def _wait_left(self) -> None:
        """Wait until the client leaves. Its next request may arrive; it waits."""
        while not self._reader.has_unread:
            await self._read()
            if self._reader.state is State.ENDED:
                return
        await self._broken.wait()

    async def _read(self) -> None:
        """Read once, and pass the bytes, or the end, to the reader."""
        if self._is_reading:  # another task of the application does it, for both
            await self._others.park()
            return
        self._is_reading = True
        try:
            data = b"" if self._reader.state is State.REFUSED else await self._stream.receive()
        finally:
            self._is_reading = False
            self._others.unpark_all()
        if data:
            self._reader.feed(data)
        else:
            self._reader.end()

    async def _discard_body(self) -> None:
        """Read the rest of the body, for a while."""
        reader = self._reader
        with trio.move_on_after(LINGER), contextlib.suppress(Refused):
            while reader.is_within_body:
                if not reader.part() and reader.is_within_body:
                    await self._read()
            if reader.state is State.COMPLETE:
                self._wait_in(None)

    # Writing

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send the start, or the next part, of the response (ASGI). To a client that is gone, send nothing.

        Raises:
            RuntimeError, ValueError: the response is not valid.
        """
        if message["type"] == "http.response.start":
            if self._is_started:
                raise RuntimeError("The response has started already.")
            await self._start(message["status"], message["headers"])
        elif message["type"] == "http.response.body":
            if not self._is_started or self._is_finished:
                raise RuntimeError("The response has not started, or has ended.")
            await self._send_part(message.get("body", b""), is_last=not message.get("more_body", False))

    async def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response: what two calls of :meth:`send` do."""
        await self._start(status, headers)
        await self._send_part(body, is_last=True)

    async def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self._reader.is_within_body:
            # A short rest is read, and the connection stays open. If the client still waits for "100
            # Continue", it sends nothing now.
            waits = self._must_continue and not self._reader.has_unread
            if not waits and 0 < self._head.length <= self._longest_body:
                await self._discard_body()
            if self._reader.state is not State.COMPLETE:
                self._closes = True
        self._closes = self._closes or self._timeouts.is_closing
        is_http_1_1 = self._head.version == "1.1"
        head = response_head(status, headers, self._fixed, is_http_1_1=is_http_1_1, closes=self._closes)
        self._is_started = True
        self._held, self._left, self._is_chunked = head
        self._has_body = self._head.method != "HEAD" and status not in BODILESS
        if self._left is None:  # a stream, whose first part may take long
            held, self._held = self._held, b""
            await self._write(held)

    async def _send_part(self, body: bytes, *, is_last: bool) -> None:
        if not self._has_body:
            body = b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (is_last and self._left):
                self._closes = True
                raise RuntimeError("The body of the response does not have the announced length.")
        elif self._is_chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if is_last:
                body += _LAST_CHUNK
        if self._held:
            body, self._held = self._held + body, b""
        # Before the write: receive() then ends quietly, however long the client takes to read.
        self._is_finished = is_last
        if body:
            await self._write(body)
        if not is_last:
            # The client may read as fast as the application writes. Shielded: a cancellation ends the
            # application's generator cleanly where it waits, and would leave it unclosed here.
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def _write(self, data: bytes) -> None:
        try:
            sent = self._stream.send_nowait(data)
            if sent == len(data):
                return
            self._timeouts.writes.begin(self)
            # Shielded, so that a cancelled application leaves no half-written part. It has a deadline.
            with trio.CancelScope(shield=True):
                await self._stream.send_all(memoryview(data)[sent:])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The application learns it from receive(), which now ends.
            self.abort()
        finally:
            self._timeouts.writes.end(self)

    async def _refuse(self, refusal: Refused) -> None:
        await self._answer(refusal.status, refusal.message)

    async def _answer(self, status: int, message: str) -> None:
        """Send an error response in the application's place, and close."""
        self._closes = True
        body = error_body(status, [message])
        headers = ((b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body)))
        head = response_head(status, headers, self._fixed, is_http_1_1=True, closes=True).data
        await self._write(head + body)

    async def _linger(self) -> None:
        """End the connection so that the client gets all of the last response."""
        self._is_leaving = True
        self._wait_in(self._timeouts.heads)
        if self._reader.state is not State.ENDED:
            await self._stream.send_eof()
        if self._reader.is_within_body:
            await self._discard_body()
        elif self._reader.state is State.REFUSED:
            with trio.move_on_after(_LINGER_AFTER_REFUSAL):
                while await self._stream.receive():
                    pass

    # Deadlines

    def _wait_in(self, wait: Wait | None) -> None:
        if self._wait is not wait:
            if self._wait is not None:
                self._wait.end(self)
            self._wait = wait
            if wait is not None:
                wait.begin(self)

    def eviction_rank(self) -> tuple[int, float] | None:
        """Return the rank of the current wait and its start; ``None`` while hookgw works on a request."""
        for wait in (self._wait, self._timeouts.writes):
            since = wait.since(self) if wait is not None else None
            if wait is not None and since is not None:
                return wait.rank, since
        return None

    def time_out(self, refusal: Refused) -> None:
        """Refuse a request that did not arrive in time, after earlier responses; if none has begun, close."""
        reader = self._reader
        if (reader.state is State.HEAD or reader.is_within_body) and not self._is_leaving:
            reader.refuse(refusal)
            self._stream.stop_receiving()
        else:
            self.abort()

    def leave(self) -> None:
        """Stop all timeouts of the connection, because it ended."""
        self._scope = None  # it has the connection, which would wait for the garbage collector
        self._wait_in(None)
        self._timeouts.writes.end(self)

    def abort(self) -> None:
        """Close at once, even during a request. It is no longer a candidate for making room."""
        self.leave()
        self._stream.abort()
        self._reader.end()
        self._broken.set()
