"""One client's connection: HTTP/1.1 between its stream and the application.

One task serves a connection: it takes a head from the request reader, calls the application (ASGI), and goes
on to the next head. No other task reads ahead. The application's own ``receive`` reads the socket, so that a
body arrives no faster than the application takes it, and a request that needs no part of Quart (an emit)
costs no task, no queue and no cancel scope. While the application works on a complete request, only its call
of ``receive`` notices that the client leaves, as ASGI has it.

The server's duties to every client, whatever the application does:

- Deadlines: the state of the reader says which one counts; writing has its own.
- A response starts only after the responses to all requests before it, refusals included.
- ``100 Continue`` leaves only before the response begins, and only when the application asks for the body.
- A response whose request was not read to its end closes the connection: the next request cannot follow
  unread bytes. If the rest is short, it is read first, and the connection stays open.
- Unwanted bytes are read for :data:`LINGER` seconds, up to the size of some of the largest bodies, and not
  parsed: nginx, Caddy, Envoy and others answer 502 or 503 instead of the response if they cannot send all.
- A connection is closed only once the client's system has acknowledged the response: closed earlier, with
  bytes of the client's unread, the client could lose it to a reset (RFC 9112, section 9.6).
- A client may end its side after its request, and still gets the response (RFC 9112, section 9.6): hookgw
  cannot tell it from one that is gone before it writes. A stream of events, which has no end, ends with it.
- An application that breaks off in the middle of a response, or misses its announced length, closes the
  connection, which tells the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog
import trio

from hookgw.concurrency.light import in_task, let_others_go_on, may_leave_task
from hookgw.config.settings import ServerSettings
from hookgw.kernel.sentences import Sentence
from hookgw.web.server.client import AGAIN, REQUEST, Address, Again
from hookgw.web.server.client_timeouts import ClientTimeouts, Wait
from hookgw.web.server.errors import BUG, JSON, error_body
from hookgw.web.server.known_heads import KnownHeads
from hookgw.web.server.request_head import CHUNKED, Head, Refused
from hookgw.web.server.request_reader import RequestReader, State
from hookgw.web.server.response_head import BODILESS, FIXED, FIXED_OVER_TLS, lines_of, response_head
from hookgw.web.server.streams import ClientStream

logger = structlog.get_logger("hookgw.api")

Application = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

LINGER = 1.0
"""Seconds for which unwanted bytes are read."""
LINGER_BODIES = 4
"""So many of the largest bodies are read then at most: 30 MB got 502 of Apache, which producers repeat."""
HALF_CLOSED = 120.0
"""Seconds for which the application may work for a client that has ended its side."""
_LOOK_FOR_RESET = 1.0
MOST_UNWANTED = 65_536
"""Bytes of an unwanted body that are read before the response, which keeps the connection."""

JOINED = 16_384
"""Bytes of a part of a response that are copied, to send them in one piece with their neighbours."""

_LOOK_AGAIN = 0.05
"""Seconds until the next look at what the client has acknowledged, of which the system sends no notice."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_EVENTS = b"text/event-stream"
_ASGI = {"spec_version": "2.1", "version": "3.0"}
_LEFT = {"type": "http.disconnect"}


class ClientConnection:
    """One client's connection. The caller closes the stream. The wait for the first request starts now."""

    def __init__(
        self,
        stream: ClientStream,
        settings: ServerSettings,
        timeouts: ClientTimeouts,
        known: KnownHeads | None = None,
    ) -> None:
        self._stream = stream
        self._timeouts = timeouts
        self._most_unwanted = LINGER_BODIES * settings.max_batch_body
        self._reader = RequestReader(settings.max_header, known)
        self._fixed = lines_of(FIXED_OVER_TLS if stream.scheme == "https" else FIXED)
        self._wait: Wait | None = None
        self._is_reading = False
        self._others = trio.lowlevel.ParkingLot()
        self._sending = trio.Lock()
        self._left = trio.Event()  # the response is no longer wanted
        self._is_leaving = False
        # Of the current request:
        self._head: Head
        self.notes: dict[str, Any] = {}
        """See :class:`~hookgw.web.server.client.Client`."""
        self.announced: int | None = None
        self.address: Address = None
        self._has_all = False  # whether the application has all of the body
        self._must_continue = False
        # Of its response:
        self._is_started = self._is_finished = False
        self._held = b""  # its head, which leaves together with the first part of its body
        self._unsent: int | None = None  # bytes of its body that were announced and not sent
        self._is_endless = False
        self._is_chunked = False
        self._has_body = True
        self._closes = False
        self._wait_in(timeouts.heads)

    async def run(  # noqa: C901 -- reads once from top to bottom
        self, application: Application, client: Address, server: Address
    ) -> None:
        """Serve requests until the connection must be closed."""
        self.address = client
        fixed = {
            "type": "http",
            "asgi": _ASGI,
            "scheme": self._stream.scheme,
            "root_path": "",
            "client": client,
            "server": server,
            "extensions": {},
        }
        reader = self._reader
        while reader.state != State.ENDED:
            try:
                head = reader.head()
            except Refused as refusal:
                await self.refuse(refusal, is_head=reader.has_begun_head_request)
                break
            if head is None:
                if reader.state == State.HEAD:
                    self._wait_in(self._timeouts.heads)
                    self._stream.acknowledge_nowait()
                elif self._wait is None:
                    self._wait_in(self._timeouts.idles)
                reader.feed(await self._stream.receive())
                continue
            if self._wait is None:  # it had arrived before the last response left
                await let_others_go_on()  # a thousand pipelined requests must not delay other clients
            self._head, self.notes = head, head.notes
            self.announced = None if head.length == CHUNKED else head.length
            self._has_all = self._is_started = self._is_finished = self._is_endless = False
            self._must_continue = head.awaits_continue
            self._closes = head.is_last
            self._held = b""
            self._wait = None
            if not reader.came_whole:
                self._wait_in(self._timeouts.bodies)
            try:
                again: Again | None = head.notes.get(AGAIN)
                response = None if again is None else again(self)
                if response is None:
                    response = application(self._scope(fixed), self.receive, self.send)
                await response
            except (Exception, BaseExceptionGroup) as error:
                ends = (trio.Cancelled, KeyboardInterrupt)
                if isinstance(error, BaseExceptionGroup) and error.split(ends)[1] is None:
                    raise
                logger.exception("request failed", method=head.method)
            if not self._is_started:
                await self._respond_instead()
            may_leave_task()
            if self._closes or not self._is_finished or self._timeouts.is_closing:
                break
        await self._linger()

    def _scope(self, fixed: Mapping[str, Any]) -> dict[str, Any]:
        head = self._head
        return {
            **fixed,
            "method": head.method,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "http_version": head.version,
            "headers": head.fields,
            "state": {},
            REQUEST: self,
        }

    async def _respond_instead(self) -> None:
        """Respond with an error if the application has not begun to, and the client is there."""
        is_head = self._head.method == "HEAD"
        if self._reader.refusal is not None:
            await self.refuse(self._reader.refusal, is_head=is_head)
        elif not self._left.is_set():
            await self._answer(500, BUG, is_head=is_head)

    # Reading

    async def receive(self) -> Mapping[str, Any]:
        reader = self._reader
        while not self._is_finished:
            if self._has_all or (self._is_started and reader.is_within_body):
                await self._wait_left()
                break
            try:
                part = reader.part() if reader.is_within_body else b""
            except Refused:
                break
            if reader.state == State.COMPLETE:
                self._has_all = True
                self._wait = None
                return {"type": "http.request", "body": part, "more_body": False}
            if not reader.is_within_body:
                break
            if part:
                self._must_continue = False
                if reader.has_unread:
                    await let_others_go_on()  # ten thousand chunks must not delay other clients
                return {"type": "http.request", "body": part, "more_body": True}
            if self._must_continue:
                self._must_continue = False
                await self._write(_CONTINUE)
            else:
                self._stream.acknowledge_nowait()
            await self._read()
        return _LEFT

    def receive_nowait(self) -> bytes | None:
        if self._has_all:
            return None
        body = self._reader.whole_body()
        self._has_all = body is not None
        return body

    def is_there(self) -> bool:
        """Return whether the client has not ended its side of the connection, as far as is known."""
        # A client that closes its connection cannot be told from one that ends only its side.
        return self._reader.state != State.ENDED and not self._left.is_set()

    async def _wait_left(self) -> None:
        """Wait until the client no longer wants the response. Further bytes of the client may arrive; they
        wait.
        """
        await in_task()
        reader = self._reader
        while not reader.has_unread and reader.state not in (State.ENDED, State.REFUSED):
            await self._read()
        if reader.state == State.ENDED:
            with trio.move_on_after(HALF_CLOSED):
                while self._stream.is_connected() and not self._left.is_set():
                    with trio.move_on_after(_LOOK_FOR_RESET):
                        await self._left.wait()
            if not (self._is_started and self._stream.is_connected()):
                self._left.set()
        await self._left.wait()

    async def _read(self) -> None:
        if self._is_reading:  # another task of the application does it, for both
            await in_task()
            await self._others.park()
            return
        self._is_reading = True
        try:
            data = b"" if self._reader.state == State.REFUSED else await self._stream.receive()
        finally:
            self._is_reading = False
            self._others.unpark_all()
        self._reader.feed(data)
        if not data and (self._is_endless or not self._stream.is_connected()):
            self._left.set()

    async def _discard_body(self) -> None:
        """Read the rest of a short body, for a while."""
        await in_task()
        reader = self._reader
        with trio.move_on_after(LINGER):
            while reader.is_within_body:
                if not reader.part():
                    await self._read()
        if reader.state == State.COMPLETE:
            self._wait = None

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
        headers = tuple(headers)
        if self._reader.state == State.COMPLETE and len(body) <= JOINED:
            self._begin(status, headers)
            self._is_finished = True
            response, self._held = self._held + body if self._has_body else self._held, b""
            if (sent := self._write_nowait(response)) < len(response):
                await self._write_rest(response, sent)
        else:
            await self._start(status, headers)
            await self._send_part(body, is_last=True)

    async def _start(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        if self._reader.is_within_body:
            # If the client still waits for "100 Continue", it sends nothing now, and must not be asked again.
            waits, self._must_continue = self._must_continue and not self._reader.has_unread, False
            left = self._reader.length_left
            if not waits and left is not None and left <= MOST_UNWANTED:
                await self._discard_body()
            if self._reader.state != State.COMPLETE:
                self._closes = True
                self._wait = None  # the rest may take as long as it likes: it is discarded
        self._begin(status, headers)
        if self._unsent is None:  # a stream, whose first part may take long
            self._is_endless = any(value.startswith(_EVENTS) for _, value in headers)
            if self._is_endless and self._reader.state == State.ENDED:
                self._left.set()
            held, self._held = self._held, b""
            await self._write(held)

    def _begin(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self._must_continue = False
        self._closes = self._closes or self._timeouts.is_closing
        head = self._head
        self._held, self._unsent, self._is_chunked = response_head(
            status, headers, self._fixed, is_http_1_1=head.version == "1.1", closes=self._closes
        )
        self._has_body = head.method != "HEAD" and status not in BODILESS
        self._is_started = True  # last: a head that is not valid leaves room for an error

    async def _send_part(self, body: bytes, *, is_last: bool) -> None:
        before, after, self._held = self._held, b"", b""
        if not self._has_body:
            body = b""
        elif self._unsent is not None:
            self._unsent -= len(body)
            if self._unsent < 0 or (is_last and self._unsent):
                self._closes = True
                raise RuntimeError("The body of the response does not have the announced length.")
        elif self._is_chunked:
            before += b"%x\r\n" % len(body) if body else b""
            after = (b"\r\n" if body else b"") + (_LAST_CHUNK if is_last else b"")
        # Before the write: receive() then ends quietly, however long the client takes to read.
        self._is_finished = is_last
        # A long body is not copied: its bytes may be those of many responses, and the client may be slow.
        for piece in (before + body + after,) if len(body) <= JOINED else (before, body, after):
            if piece:
                await self._write(piece)
        if not is_last:
            await in_task()
            # The client may read as fast as the application writes. Shielded: a cancellation ends the
            # application's generator cleanly where it waits, and would leave it unclosed here.
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def _write(self, data: bytes) -> None:
        if (sent := self._write_nowait(data)) < len(data):
            await self._write_rest(data, sent)

    def _write_nowait(self, data: bytes) -> int:
        """Write as much as the client takes now; return how many bytes that are, or are to be dropped."""
        # Two tasks of an application may write: one asks for the body while the other responds.
        if self._sending.locked():
            return 0
        try:
            return self._stream.send_nowait(data)
        except trio.BrokenResourceError:
            self.abort()  # the application learns it from receive(), which now ends
            return len(data)

    async def _write_rest(self, data: bytes, sent: int) -> None:
        self._timeouts.writes.begin(self)
        try:
            await in_task()
            # Shielded, so that a cancelled application leaves no half-written part. It has a deadline.
            with trio.CancelScope(shield=True):
                async with self._sending:
                    await self._stream.send_all(memoryview(data)[sent:])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.abort()
        finally:
            self._timeouts.writes.end(self)

    async def refuse(self, refusal: Refused, *, is_head: bool = False) -> None:
        """Send an error response instead of the application, and close."""
        await self._answer(refusal.status, refusal.message, is_head=is_head)

    async def _answer(self, status: int, message: Sentence, *, is_head: bool) -> None:
        """Send an error response instead of the application, and close."""
        self._closes = True
        body = error_body(status, [message])
        headers = ((b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body)))
        head = response_head(status, headers, self._fixed, is_http_1_1=True, closes=True).data
        await self._write(head if is_head else head + body)

    async def _linger(self) -> None:
        """End the connection so that the client gets all of the last response."""
        await in_task()
        reader, stream = self._reader, self._stream
        self._is_leaving = True
        if reader.state == State.ENDED:
            return  # no byte can arrive that would make closing a reset
        await stream.send_eof()
        # Many clients begin to read only after they have sent all of their body.
        is_sending = reader.is_within_body or reader.state == State.REFUSED
        self._wait_in(self._timeouts.heads if is_sending else self._timeouts.writes)
        unwanted, deadline = 0, trio.current_time() + LINGER
        while unwanted < self._most_unwanted and trio.current_time() < deadline:
            if not is_sending and not stream.has_unacknowledged():
                return
            with trio.move_on_at(deadline if is_sending else trio.current_time() + _LOOK_AGAIN):
                data = await stream.receive()
                if not data:
                    return
                unwanted += len(data)
        self._wait_in(self._timeouts.writes)
        while stream.has_unacknowledged():  # noqa: ASYNC110 -- the system sends no notice
            await trio.sleep(_LOOK_AGAIN)

    # Deadlines

    def _wait_in(self, wait: Wait) -> None:
        if self._wait is not wait:
            self._wait = wait
            wait.begin(self)

    def waits_in(self, wait: Wait) -> bool:
        return wait is self._wait or wait is self._timeouts.writes

    def eviction_rank(self) -> tuple[int, float] | None:
        for wait in (self._wait, self._timeouts.writes):
            since = wait.since(self) if wait is not None else None
            if wait is not None and since is not None:
                return wait.rank, since
        return None

    def time_out(self, refusal: Refused) -> None:
        """Refuse a request that did not arrive in time, after earlier responses; if none has begun, close."""
        reader = self._reader
        if (reader.state == State.HEAD or reader.is_within_body) and not self._is_leaving:
            reader.refuse(refusal)
            self._stream.stop_receiving()
        else:
            self.abort()

    def leave(self) -> None:
        """Stop all timeouts of the connection, because it ended."""
        self._wait = None
        for wait in self._timeouts.all:
            wait.end(self)

    def abort(self) -> None:
        """Close at once, even during a request. It is no longer a candidate for making room."""
        self.leave()
        self._stream.abort()
        self._reader.end()
        self._left.set()
