"""One open connection and the responses that arrive on it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from hookgw.concurrency.light import in_task
from hookgw.delivery.http.errors import (
    DeliveryError,
    NotHttp,
    Phase,
    Reached,
    ResponseFailed,
    SendFailed,
    TimedOut,
    TlsFailed,
)
from hookgw.delivery.http.response import Response, ResponseParser
from hookgw.delivery.http.stream import Stream, StreamBroken, TlsAlert, unacknowledged
from hookgw.kernel.target_url import Origin
from hookgw.records.tls_identity import TlsIdentity

PoolKey = tuple[str, str, int, TlsIdentity | None]
"""What connections must have in common to be used by the same lanes: the origin, and the identity in TLS."""

SMALL_REQUEST = 16 * 2**10
"""Bytes that fit the send buffer of an idle connection: sending them does not wait for the receiver."""

Admit = Callable[[int], Awaitable[None]]
"""Awaited with the size of each piece of a response, before the next one is read."""

LATE_BODY_WITHIN = 1.0
"""Seconds for the body of a late response, once its head is complete."""


class _Interrupted(Exception):
    """The deadline of an exchange passed: its connection was interrupted, and not closed."""


class OutgoingConnection:
    """A connection that carries one exchange after the other.

    Args:
        stream: the open connection, which the owner of this object closes.
        max_answer: the most bytes of a response body that are kept.
        opened_at: when opening it began, by ``trio.current_time()``.

    Attributes:
        sent: whether the last request was sent completely.
    """

    __slots__ = ("_read_error", "_send_error", "_size", "opened_at", "origin", "parser", "sent", "stream")

    def __init__(self, stream: Stream, origin: Origin, max_answer: int, opened_at: float = 0.0) -> None:
        self.stream = stream
        self._read_error: Exception | None = None
        self._send_error = ""
        self._size = 0
        self.origin = origin
        self.opened_at = opened_at
        self.parser = ResponseParser(max_answer)
        self.sent = True

    @property
    def reusable(self) -> bool:
        """Whether the last exchange allows another; false for a new connection."""
        # A response may arrive before the request is sent completely. The receiver would read the rest of
        # that request as the start of the next one.
        return self.parser.reusable and self.sent

    def interrupt_nowait(self) -> None:
        """End the exchange, whose deadline has passed, and leave the connection open.

        A response that has arrived counts, although nobody has read it yet: the machine may have been frozen.
        """
        self._read_error = self._read_error or _Interrupted()
        self.stream.interrupt_nowait()

    @property
    def reached(self) -> Reached:
        """How much of the last request the receiver may have got, if it sent nothing but HTTP."""
        if self.sent:
            return Reached.ALL
        return Reached.PART if self._size > SMALL_REQUEST else Reached.NOTHING

    def exchange(
        self, request: bytes, admit: Admit | None = None, meanwhile: Callable[[], object] | None = None
    ) -> Awaitable[None]:
        """Send a request, and return what reads the response to it; then call :meth:`response`.

        If reading is cancelled, :attr:`parser` and :attr:`sent` say how far the exchange got, and the
        connection is not reusable.

        Args:
            admit: awaited before more of the response is read. If it raises ``ResponseFailed``, that ends the
                response as if the receiver had broken the connection there.
            meanwhile: called once the whole request is on its way, unless it is so large that the receiver
                must read before. It must not raise.
        """
        self.sent, self._size = False, len(request)
        self._read_error, self._send_error = None, ""
        self.parser.begin(bodiless=request.startswith(b"HEAD "))
        try:
            # A small request fits the kernel's buffer: one system call, and no task switch.
            taken = self.stream.send_nowait(request)
        except StreamBroken as error:
            # Read all the same: a receiver that refuses a request (413) may send its response and then reset.
            self._send_error = str(error)
            return self._read(admit)
        self.sent = taken == self._size
        if not self.sent:
            return self._send_and_read(request, taken, admit, meanwhile)
        return self._read(admit, meanwhile)

    async def exchange_until(
        self,
        deadline: float,
        request: bytes,
        admit: Admit | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """Do what :meth:`exchange` does, with a cancel scope for the deadline."""
        await in_task()
        with trio.CancelScope(deadline=deadline):
            await self.exchange(request, admit, meanwhile)
            return
        self._read_error = _Interrupted()

    async def _send_and_read(
        self, request: bytes, taken: int, admit: Admit | None, meanwhile: Callable[[], object] | None
    ) -> None:
        if taken == 0 and len(request) <= SMALL_REQUEST:
            # A TLS stream takes nothing without waiting. The send buffer is empty and large enough, so
            # sending does not wait for the receiver, and needs no second task.
            await self._send(request)
            await self._read(admit, meanwhile)
            return
        await in_task()
        # Send and read at once: a receiver may respond before it has read the body, and if both sides only
        # sent, both buffers would fill up and neither would go on.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, request[taken:])
            await self._read(admit)
            nursery.cancel_scope.cancel()

    def response(self, started_at: float) -> Response:
        """Return the response of the exchange, which began at a time by ``trio.current_time()``.

        Raises:
            SendFailed, ResponseFailed: see :mod:`hookgw.delivery.http.errors`.
            TlsFailed: the receiver refused the connection with an alert, before any response.
            TimedOut: the deadline passed.
            trio.ClosedResourceError: the connection was closed meanwhile.
        """
        # A complete head decides the attempt, whatever went wrong before or after it: a receiver that sent
        # its status has taken the event.
        if self.parser.status:
            if self._read_error is not None:  # it came just before the interruption
                self.stream.resume_nowait()
            return self.parser.finish()
        failure: Exception = self._read_error or ResponseFailed(
            f"The receiver closed the connection {self._progress()}."
        )
        # An alert says more than that sending failed.
        if self._send_error and not self.parser.started and not isinstance(self._read_error, TlsFailed):
            failure = SendFailed(
                f"The receiver broke the connection before the whole request was sent: {self._send_error}."
            )
        if isinstance(failure, _Interrupted):
            failure = self._timed_out(started_at)
        elif isinstance(failure, DeliveryError) and not isinstance(failure, NotHttp | TlsFailed):
            failure.reached = self.reached
        self._read_error = None
        try:
            raise failure.with_traceback(None)
        finally:
            # Its traceback has this frame: as a cycle they would keep the connection, with all that the
            # receiver has sent, until Python looks for garbage.
            del failure

    def _timed_out(self, started_at: float) -> TimedOut:
        phase, what, reached = Phase.RESPONSE, "The receiver did not respond", self.reached
        if self.parser.started:
            what = "The head of the response was not complete"
        else:
            # A receiver that has not sent a byte has no more than it acknowledged.
            waiting = unacknowledged(self.stream.fileno) if self.sent else 0
            if waiting:
                reached = (
                    Reached.PART if self._size > SMALL_REQUEST and waiting < self._size else Reached.NOTHING
                )
            if reached is not Reached.ALL:
                phase, what = Phase.SEND, "The receiver did not read the request"
        failure = TimedOut(phase, f"{what} within {trio.current_time() - started_at:.3g} s.")
        failure.reached = reached
        return failure

    async def receive_late(self) -> Response | None:
        """Read on after an exchange that was cut off with its whole request sent.

        Return the response once its head is complete, with as much of its body as comes soon; ``None`` if the
        connection ends before. After a cancellation it can be called again.
        """
        self.stream.resume_nowait()
        receive, parser = self.stream.receive, self.parser
        ends = trio.current_time() + LATE_BODY_WITHIN if parser.status else math.inf
        with (
            trio.CancelScope(deadline=ends) as scope,
            suppress(StreamBroken, ResponseFailed, trio.ClosedResourceError),
        ):
            while data := await receive():
                if parser.feed(data):
                    break
                if parser.status and scope.deadline == math.inf:
                    scope.deadline = trio.current_time() + LATE_BODY_WITHIN
            else:
                parser.end_of_stream()
        return parser.finish() if parser.status else None

    async def _send(self, data: bytes) -> None:
        try:
            await self.stream.send_all(data)
        except StreamBroken as error:
            self._send_error = str(error)
        except trio.ClosedResourceError:
            # _read gets the same error, and reports it once.
            return
        else:
            self.sent = True

    async def _read(self, admit: Admit | None, meanwhile: Callable[[], object] | None = None) -> None:
        if self.sent and meanwhile is not None:
            meanwhile()
        # Errors are kept, not raised: response() reports them only if no status arrived.
        receive, parser = self.stream.receive, self.parser
        try:
            while data := await receive():
                if parser.feed(data):
                    return
                self.stream.acknowledge_nowait()
                if admit is not None:
                    await admit(len(data))
            parser.end_of_stream()
        except TlsAlert as error:
            kind = ResponseFailed if parser.started else TlsFailed
            self._read_error = kind(f"The receiver ended TLS {self._progress()}: {error}.")
        except StreamBroken as error:
            self._read_error = ResponseFailed(
                f"The receiver broke the connection {self._progress()}: {error}."
            )
        except ResponseFailed as error:
            self._read_error = error
        except trio.ClosedResourceError as error:
            self._read_error = self._read_error or error

    def _progress(self) -> str:
        return "in the middle of its response" if self.parser.started else "without responding"
