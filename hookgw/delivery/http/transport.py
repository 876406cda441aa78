"""One keep-alive HTTP/1.1 connection, one exchange at a time.

An exchange takes these steps:

1. The open connection is used again if it is fit for another exchange, young enough, and nothing arrived on
   it since the last one (no bytes, no end). Otherwise a new one is dialled.
2. Head and body are sent in one piece. If they do not fit the kernel's buffer, a second task sends the rest
   while the response is read, because a receiver may respond before it has read the body.
3. Arriving bytes are fed to a :class:`~hookgw.delivery.http.response.ResponseParser` until the response is
   over.
4. If a used connection breaks at once and before the first byte of a response, the receiver probably closed
   it just as the request was sent. The request is then sent again, once, on a new connection (RFC 9112,
   section 9.3.1; receivers recognise repeats by the ``webhook-id``).

One deadline covers all of this. When it passes, the status counts if the head of the response was complete.
Unless an exchange ends with a complete response, its connection is closed, also after cancellation. There is
one exception: if the whole request was sent and the deadline passed, the connection stays open for a late
response, if the owner wants that.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import msgspec
import trio

from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.light import in_task
from hookgw.delivery.failed_response import LATE, TIME_LIMIT
from hookgw.delivery.http import httpx_adapter
from hookgw.delivery.http.client_tls import USUAL_TLS_CONTEXTS, ClientContexts
from hookgw.delivery.http.connection import Admit, OutgoingConnection
from hookgw.delivery.http.deadlines import Deadlines
from hookgw.delivery.http.dialer import Dialer
from hookgw.delivery.http.errors import (
    DeadlinePassed,
    DeliveryError,
    Phase,
    Reached,
    ResponseFailed,
    SendFailed,
    TimedOut,
    TlsFailed,
)
from hookgw.delivery.http.response import DECODED_AT_ONCE, Response, decode_in_steps
from hookgw.delivery.http.stream import PlainStream, Stream, TlsStream, open_tls
from hookgw.kernel.target_url import Target
from hookgw.records.tls_identity import NO_IDENTITY, TlsIdentity

MAX_ANSWER = 64 * 2**10
"""Bytes of a (decoded) response body that are read by default."""

# Tunnels (ssh -R, frp, kubectl) and Docker's proxy accept a connection before they know whether anybody does.
_MAY_BE_TLS = (
    "If it always does, perhaps nothing listens behind its tunnel or the port of its container, or its port "
    "wants https://, or HTTP/2 alone: hookgw speaks HTTP/1.1."
)
_MAY_BE_HTTP2 = "If it always does, it may speak HTTP/2 alone: let it accept HTTP/1.1, too."

REPEAT_WITHIN = 1.0
"""Seconds from the start within which the end of a used connection means that it was idle for too long.
Later, the receiver has had time to begin the work, and may have died of it."""


class LaneTransport(httpx.AsyncBaseTransport):
    """One keep-alive connection to a receiver, opened on demand.

    It never has more than one connection. The owner closes it with :meth:`close_nowait` or :meth:`aclose`; a
    closed transport connects again with the next exchange.

    Args:
        dialer: opens connections to vetted addresses.
        max_answer: the most bytes of a response body that are read, before and after decoding.
        tls: the identity of the registration; ``None`` for the common context.
        deadlines: enforces the deadlines of many transports with one timer; its ``run`` must be running
            during exchanges. Without it each exchange has a cancel scope, which is slower.
        hub: watches connections without TLS.
        connection_age: seconds after which a connection is not used again, however busy it is. A host that
            moved is found again only by a new connection: its former address may go on answering.

    Attributes:
        keeps_late: whether a connection stays open for a late response.
        awaits_response: whether the connection is open for a late response; see :meth:`receive_late`.
        looks_up_for: the instance whose share of lookups is used; empty for the operator's own names.
        tls: as given; set it before the first exchange.
        started_at: when its owner began the last attempt, by ``trio.current_time()``.
        ended_at: when the last exchange ended, by ``trio.current_time()``.
    """

    keeps_late = False
    admit: Admit | None = None
    looks_up_for = ""

    def __init__(
        self,
        dialer: Dialer,
        *,
        max_answer: int = MAX_ANSWER,
        ssl_context: ssl.SSLContext | ClientContexts = USUAL_TLS_CONTEXTS,
        tls: TlsIdentity | None = None,
        deadlines: Deadlines | None = None,
        connection_age: float = math.inf,
        hub: Hub = NO_HUB,
    ) -> None:
        self.dialer = dialer
        self._hub = hub
        self._max_answer = max_answer
        self._ssl_context = ssl_context
        self.tls = tls
        self._deadlines = deadlines
        self._connection_age = connection_age
        self._connection: OutgoingConnection | None = None
        self._busy = False
        self.awaits_response = False
        self.started_at = self.ended_at = 0.0
        # Made on first use: a lane never needs it, and there are thousands of lanes.
        self._turn: trio.Lock | None = None

    @property
    def connected(self) -> bool:
        """Whether a connection is open; the receiver may have closed its side of it."""
        return self._connection is not None

    async def exchange(  # noqa: C901 -- one step a time
        self,
        target: Target,
        head: bytes,
        body: bytes,
        *,
        deadline: float,
        started_at: float | None = None,
        now: Callable[[], float] = trio.current_time,
        meanwhile: Callable[[], object] | None = None,
    ) -> Response:
        """Send a request and read the response to it.

        Args:
            target: the connection is kept while scheme, host and port stay the same.
            head: the request's head, including the blank line at its end. Its ``content-length`` must be the
                length of ``body``.
            deadline: by ``trio.current_time()``, for everything from resolving to the last byte.
            started_at: on the same clock, if the caller has just read it.
            now: reads that clock.
            meanwhile: as for :meth:`OutgoingConnection.exchange`.

        Returns:
            The response. Its ``complete`` is false if the body exceeds the limit, was cut off, is malformed,
            or was not complete at the deadline.

        Raises:
            Blocked, ResolveFailed, ConnectFailed, NoAttempt: no connection was established.
            TlsFailed: the handshake failed, or the receiver ended the connection with a TLS alert before any
                response.
            SendFailed, ResponseFailed: the receiver broke the connection, or did not send HTTP.
            TimedOut: the deadline, or the dialer's connect timeout, passed before the head of the response
                was complete; ``DeadlinePassed`` if it was the deadline, and no connection was established.
            trio.BusyResourceError: another exchange is in progress.
            trio.ClosedResourceError: the transport was closed meanwhile.
        """
        if self._busy:
            raise trio.BusyResourceError("another exchange is in progress on this lane's connection")
        self._busy = True
        is_tls = target.scheme == "https"
        if is_tls:
            await in_task()  # TLS waits for more than a call
        if started_at is None:
            started_at = now()
        # Copying the body costs less than a second system call and a second packet.
        request = head + body
        origin = (target.scheme, target.host, target.port)
        connection, deadlines = self._connection, self._deadlines
        first: DeliveryError | None = None
        try:
            if connection is not None and (
                self.awaits_response
                or connection.origin != origin
                or started_at >= connection.opened_at + self._connection_age
                or (
                    not await connection.stream.is_quiet()
                    if isinstance(connection.stream, TlsStream)
                    else connection.stream.has_arrivals()
                )
            ):
                connection = None
            while True:
                is_new = connection is None
                if connection is None:
                    self.close_nowait()
                    # Before the lookup: a connection is as old as what it knows of its host's address.
                    opened_at = trio.current_time()
                    stream = await self._open(target, deadline, tls=is_tls)
                    connection = OutgoingConnection(stream, origin, self._max_answer, opened_at)
                    self._connection = connection
                try:
                    if deadlines is None:
                        await connection.exchange_until(deadline, request, self.admit, meanwhile)
                    else:
                        deadlines.watch(connection, deadline)
                        try:
                            await connection.exchange(request, self.admit, meanwhile)
                        finally:
                            deadlines.unwatch(connection)
                    return connection.response(started_at)
                except (SendFailed, ResponseFailed, TlsFailed) as failure:
                    is_silent = type(failure) is ResponseFailed and not connection.parser.started
                    if is_silent and trio.current_time() - started_at >= LATE:
                        failure.add(TIME_LIMIT)
                    elif is_silent and is_new and first is None:
                        failure.add(_MAY_BE_HTTP2 if is_tls else _MAY_BE_TLS)
                    if is_new:
                        # In TLS 1.3 the receiver refuses our certificate, or that there is none, after the
                        # handshake.
                        if isinstance(failure, TlsFailed):
                            self.note_refused(failure)
                        raise
                    # A byte of a response means that the receiver may have processed the request.
                    if connection.parser.started or trio.current_time() - started_at >= REPEAT_WITHIN:
                        raise
                    connection, first = None, failure
        except DeliveryError as failure:
            if isinstance(failure, TimedOut) and failure.reached is Reached.ALL:
                self.awaits_response = self.keeps_late and self._connection is not None
            if first is not None and first.reached > failure.reached:
                failure.adopt(first)
            raise
        finally:
            self._busy = False
            self.ended_at = now()
            # Also the path of cancellation: half an exchange on a connection would corrupt the next one.
            if self._connection is not None and not self._connection.reusable and not self.awaits_response:
                self.close_nowait()

    @property
    def has_late_status(self) -> bool:
        """Whether :meth:`receive_late` has read the head of a late response, and not returned yet."""
        connection = self._connection
        return connection is not None and self.awaits_response and connection.parser.status != 0

    @property
    def has_late_arrivals(self) -> bool:
        """Whether there is something for :meth:`receive_late` to read. This reads nothing."""
        connection = self._connection
        return connection is not None and self.awaits_response and connection.stream.has_arrivals()

    async def receive_late(self) -> Response | None:
        """Wait for the response to a request whose deadline has passed, while :attr:`awaits_response`.

        Return it once its head is complete, with as much of its body as comes soon; ``None`` if the
        connection ends before. The connection is closed then. If this is cancelled, it can be called again.
        """
        connection = self._connection
        if connection is None or not self.awaits_response:
            await trio.lowlevel.checkpoint()
            return None
        response = await connection.receive_late()
        self.close_nowait()
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Run :meth:`exchange` for httpx. Concurrent requests wait for one another.

        The body is read completely before it is sent. The longest of the request's timeouts is the one
        deadline, which includes the wait for other requests.

        Raises:
            httpx.TransportError: the httpx counterpart of the error of :meth:`exchange`, which is its cause.
            httpx.RemoteProtocolError: also if the response is not complete: half a document must not look
                like a whole one to a plugin that only checks the status.
        """
        deadline = trio.current_time() + httpx_adapter.longest_timeout(request)
        target = httpx_adapter.request_target(request)
        body = await request.aread()
        head = httpx_adapter.render_head(request, target, len(body))
        with httpx_adapter.httpx_errors(request):
            self._turn = self._turn or trio.Lock()
            async with self._turn:
                response = await self.exchange(target, head, body, deadline=deadline)
            coding = response.header("content-encoding")
            if coding is not None and self._max_answer > DECODED_AT_ONCE:
                content, is_sound = await decode_in_steps(response.body, coding, self._max_answer, self.admit)
                is_whole = response.complete and is_sound
                response = msgspec.structs.replace(response, body=content, complete=is_whole)
            if not response.complete:
                raise ResponseFailed(
                    f"The response exceeded {self._max_answer} bytes, was cut off, or was too slow."
                )
        return httpx_adapter.to_httpx(response, request)

    async def aclose(self) -> None:
        self.close_nowait()
        await trio.lowlevel.checkpoint()

    def close_nowait(self) -> None:
        """Close the connection, if one is open; the next exchange opens another.

        An exchange in progress on it ends with ``trio.ClosedResourceError``.
        """
        connection, self._connection = self._connection, None
        self.awaits_response = False
        if connection is not None:
            # A request without a response is sent again: the first one must not arrive behind later events.
            connection.stream.close_nowait(drop=not connection.parser.status)

    def rest(self) -> None:
        """Free the memory that only an exchange needs: thousands of connections may be idle for long."""
        if self._connection is not None:
            self._connection.parser.rest()

    @property
    def fileno(self) -> int | None:
        return None if self._connection is None else self._connection.stream.fileno

    async def open_stream(
        self, target: Target, deadline: float, *, tls: bool
    ) -> tuple[Stream, float, Callable[[], None]]:
        """Open another connection, which this transport does not own, for a plugin that sends.

        Return it with the time from when on another one should be used, and with what the caller must call
        once it has closed the connection.

        Raises:
            DeliveryError: no connection was established; as for :meth:`exchange`.
        """
        opened_at = trio.current_time()
        give_back = self.count_stream()
        try:
            stream = await self._open(target, deadline, tls=tls)
        except BaseException:
            give_back()
            raise
        return stream, opened_at + self._connection_age, give_back

    def count_stream(self) -> Callable[[], None]:
        """Count a connection of :meth:`open_stream` towards a limit, if there is one."""
        return lambda: None

    def note_reached(self) -> None:
        """Note that the host was reached by a connection that is not this transport's."""

    def note_refused(self, failure: TlsFailed) -> None:
        """Note that the receiver refused the connection that was opened for the present exchange."""

    async def _open(self, target: Target, deadline: float, *, tls: bool) -> Stream:
        """Open a connection; raise the errors that :meth:`exchange` lists first."""
        await in_task()
        try:
            return await self.connect(target, tls=tls, deadline=deadline)
        except TimedOut as late:
            if trio.current_time() < deadline:
                raise
            raise DeadlinePassed(late.phase, late.message) from late

    async def connect(self, target: Target, *, tls: bool, deadline: float = math.inf) -> Stream:
        """Open a connection that the caller owns; raise the errors that :meth:`exchange` lists first."""
        holder, place = self.looks_up_for, (target.host, target.port)
        if not tls:
            return PlainStream(await self.dialer.dial(*place, holder, target.scheme, deadline), self._hub)
        context = self._ssl_context
        # Before dialling: loading certificates can fail, and would then leave a connected socket open.
        if isinstance(context, ClientContexts):
            with _handshake_limit(target, deadline - trio.current_time()):
                context = await context.get(self.tls, holder)
        sock = await self.dialer.dial(*place, holder, target.scheme, deadline)
        with _handshake_limit(target, min(self.dialer.connect_timeout, deadline - trio.current_time())):
            return await open_tls(sock, context, target, self.tls or NO_IDENTITY, holder)


@contextmanager
def _handshake_limit(target: Target, seconds: float) -> Iterator[None]:
    seconds = max(0.0, seconds)
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise TimedOut(Phase.TLS, f"The TLS handshake with {target.place} took longer than {seconds:.3g} s.")
