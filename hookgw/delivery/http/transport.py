"""A lane's connection: one keep-alive HTTP/1.1 connection, one exchange at a time.

How an exchange goes:

1. If the connection is good for another exchange and nothing came on it since the last one (no bytes,
   no end), it is used again; else a new one is dialled.
2. Head and body are sent in one piece. What does not fit the kernel's buffer is sent in a second task
   while the answer is read, because a receiver may answer before it has read the body.
3. What comes is fed to an :class:`~hookgw.delivery.http.response.AnswerParser` until the answer is over.
4. If a connection that was used before breaks without a byte of an answer, the receiver closed it at
   the moment of the request: it is replaced once, and the request sent again (RFC 9112, section 9.3.1;
   the ``webhook-id`` makes repeats harmless). A byte of an answer, or a new connection, forbids that.

One deadline is over all of it. When it passes, the status stands if the head of the answer was complete.
However an exchange ends other than by a complete answer, also by cancellation, the connection is closed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

import httpx
import trio

from hookgw.delivery.http import httpx_adapter as adapter
from hookgw.delivery.http.connection import Connection, IdleConnection
from hookgw.delivery.http.deadlines import Deadlines
from hookgw.delivery.http.dialer import Dialer
from hookgw.delivery.http.errors import AnswerFailed, Phase, SendFailed, TimedOut
from hookgw.delivery.http.response import Answer
from hookgw.delivery.http.stream import PlainStream, Stream, default_ssl_context, open_tls
from hookgw.models.target_url import Target

MAX_ANSWER = 64 * 2**10
"""Bytes of a (decoded) answer's body that are read by default."""


class LaneTransport(httpx.AsyncBaseTransport):
    """One keep-alive connection to a receiver, opened when it is needed.

    Args:
        dialer: opens connections to vetted addresses.
        max_answer: the most bytes of an answer's body that are read, before and after decoding.
        ssl_context: for ``https``, or a function that gives it when it is first needed.
        deadlines: watches the exchanges' deadlines, for many lanes at once; it must be running while
            exchanges are. Without it each exchange has a cancel scope of its own, which is slower.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        max_answer: int = MAX_ANSWER,
        ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] = default_ssl_context,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._dialer = dialer
        self._max_answer = max_answer
        self._ssl_context = ssl_context
        self._deadlines = deadlines
        self._connection: Connection | None = None
        self._busy = False
        self._turn: trio.Lock | None = None
        self._phase = Phase.CONNECT

    @property
    def connected(self) -> bool:
        """Whether a connection is open; the receiver may have closed its side of it."""
        return self._connection is not None

    async def exchange(self, target: Target, head: bytes, body: bytes, *, deadline: float) -> Answer:
        """Send a request and read its answer.

        Args:
            target: where it goes; the connection is kept while scheme, host and port stay the same.
            head: the request's head with the blank line that ends it; its ``content-length`` must be
                that of ``body``.
            body: the request's body.
            deadline: by ``trio.current_time()``, over everything from resolving to the last byte.

        Returns:
            The answer; with ``complete`` false where its body was over the limit, cut off, malformed,
            or not there by the deadline.

        Raises:
            Blocked, ResolveFailed, ConnectFailed, TlsFailed: no connection came about.
            SendFailed, AnswerFailed: the receiver broke the connection, or what came is not HTTP.
            TimedOut: the deadline, or the dialer's connect timeout, passed before the head of the
                answer was complete.
            trio.BusyResourceError: another exchange is under way.
            trio.ClosedResourceError: the transport was closed meanwhile.
        """
        if self._busy:
            raise trio.BusyResourceError("another exchange is under way on this lane's connection")
        self._busy = True
        began = trio.current_time()
        try:
            return await self._exchange(target, head + body, deadline)
        except _DeadlinePassed:
            raise self._late(target, trio.current_time() - began) from None
        finally:
            self._busy = False
            if self._connection is not None and not self._connection.reusable:
                self.close_nowait()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """httpx's face of :meth:`exchange`; requests that come at once wait for one another.

        Args:
            request: its body is read whole before it is sent. The longest of its timeouts
                (``extensions["timeout"]``) is the one deadline, waiting for others included.

        Returns:
            The response, its body read; ``extensions["complete"]`` is :attr:`Answer.complete`.

        Raises:
            httpx.TransportError: the error of :meth:`exchange` in httpx's terms, with that as its cause.
        """
        deadline = trio.current_time() + adapter.timeout_of(request)
        target = adapter.target_of(request)
        body = await request.aread()
        head = adapter.head_of(request, target, len(body))
        with adapter.httpx_errors(request):
            self._turn = self._turn or trio.Lock()
            async with self._turn:
                answer = await self.exchange(target, head, body, deadline=deadline)
        return adapter.response_of(answer, request)

    async def aclose(self) -> None:
        """Close the connection; as :meth:`close_nowait`, and a checkpoint."""
        self.close_nowait()
        await trio.lowlevel.checkpoint()

    def close_nowait(self) -> None:
        """Close the connection, if one is open; the next exchange opens another.

        An exchange that is under way on it ends with ``trio.ClosedResourceError``.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close_nowait()

    def give_away(self) -> IdleConnection | None:
        """Hand the open connection to the caller, if there is one; between two exchanges only."""
        connection, self._connection = self._connection, None
        return None if connection is None else connection.idle()

    def take_over(self, idle: IdleConnection) -> None:
        """Own a connection that another transport gave away; the next exchange uses it if it still can."""
        self.close_nowait()
        self._connection = Connection(idle.wire, idle.origin, self._max_answer)

    async def _exchange(self, target: Target, request: bytes, deadline: float) -> Answer:
        origin = (target.scheme, target.host, target.port)
        connection = self._connection
        if connection is not None and connection.origin == origin and await connection.is_quiet():
            try:
                return await self._converse(connection, request, deadline)
            except (SendFailed, AnswerFailed):
                if connection.parser.started:
                    raise
        self.close_nowait()
        with trio.CancelScope(deadline=deadline):
            self._connection = await self._connect(target, origin)
        if self._connection is None:
            raise _DeadlinePassed
        return await self._converse(self._connection, request, deadline)

    async def _converse(self, connection: Connection, request: bytes, deadline: float) -> Answer:
        limit = (
            self._deadlines.until(deadline, connection)
            if self._deadlines
            else trio.CancelScope(deadline=deadline)
        )
        with limit:
            return await connection.exchange(request, bodiless=request.startswith(b"HEAD "))
        if not connection.parser.status:
            raise _DeadlinePassed
        return connection.parser.finish()

    async def _connect(self, target: Target, origin: tuple[str, str, int]) -> Connection:
        self._phase = Phase.CONNECT
        wire: Stream
        if target.scheme == "https":
            wire = await self._connect_tls(target)
        else:
            wire = PlainStream(await self._dialer.dial(target.host, target.port))
        return Connection(wire, origin, self._max_answer)

    async def _connect_tls(self, target: Target) -> Stream:
        context = self._ssl_context if isinstance(self._ssl_context, ssl.SSLContext) else self._ssl_context()
        sock = await self._dialer.dial(target.host, target.port)
        self._phase = Phase.TLS
        limit = self._dialer.connect_timeout
        with trio.move_on_after(limit):
            return await open_tls(sock, context, target)
        raise TimedOut(Phase.TLS, f"The TLS handshake with {target.place} took longer than {limit:g} s.")

    def _late(self, target: Target, seconds: float) -> TimedOut:
        connection = self._connection
        if connection is None:
            what = "connecting to" if self._phase is Phase.CONNECT else "the TLS handshake with"
            return TimedOut(
                self._phase, f"The deadline passed after {seconds:.3g} s, during {what} {target.place}."
            )
        phase, what = Phase.ANSWER, "The receiver did not answer"
        if connection.parser.started:
            what = "The head of the answer was not complete"
        elif not connection.sent:
            phase, what = Phase.SEND, "The receiver did not take the request"
        return TimedOut(phase, f"{what} within {seconds:.3g} s.")


class _DeadlinePassed(Exception):
    """No head of an answer was complete by the deadline."""
