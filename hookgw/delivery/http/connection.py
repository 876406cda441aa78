"""One open connection and the answers that come on it."""

from __future__ import annotations

import msgspec
import trio

from hookgw.delivery.http.errors import AnswerFailed, SendFailed
from hookgw.delivery.http.response import Answer, AnswerParser
from hookgw.delivery.http.stream import Stream, StreamBroken

SMALL = 16 * 2**10
"""Bytes that the send buffer of an idle connection has room for: sending them need not be watched."""


class IdleConnection(msgspec.Struct, frozen=True, gc=False):
    """An open connection that nothing is sent on, in the few bytes that it needs until it is used again.

    Attributes:
        wire: the connection; whoever has this object owns it.
        origin: scheme, host and port that it leads to.
    """

    wire: Stream
    origin: tuple[str, str, int]

    @property
    def fileno(self) -> int:
        """The number of its socket."""
        return self.wire.fileno

    def close_nowait(self) -> None:
        """Close at once. Idempotent."""
        self.wire.close_nowait()


class Connection:
    """A connection on which requests are sent, each after the answer to the one before.

    Args:
        wire: the open connection; it is owned by this object and closed by :meth:`close_nowait`.
        origin: scheme, host and port that it leads to.
        max_answer: the most bytes of an answer's body that are kept.

    Attributes:
        origin: as given.
        parser: what came of the answer to the last request.
        sent: whether the last request was sent whole.
    """

    __slots__ = ("_failure", "_trouble", "_wire", "origin", "parser", "sent")

    def __init__(self, wire: Stream, origin: tuple[str, str, int], max_answer: int) -> None:
        self._wire = wire
        self._failure: Exception | None = None
        self._trouble = ""
        self.origin = origin
        self.parser = AnswerParser(max_answer)
        self.sent = True

    @property
    def reusable(self) -> bool:
        """Whether the last exchange left it good for another; false for a new connection."""
        return self.parser.reusable and self.sent

    async def is_quiet(self) -> bool:
        """Whether nothing came since the last answer: no surplus bytes, no end, no reset."""
        return await self._wire.is_quiet()

    def close_nowait(self) -> None:
        """Close at once. Idempotent."""
        self._wire.close_nowait()

    def idle(self) -> IdleConnection:
        """What has to be kept of it while nothing is sent; this object must not be used any more."""
        self.parser.retire()
        return IdleConnection(self._wire, self.origin)

    async def exchange(self, request: bytes, *, bodiless: bool = False) -> Answer:
        """Send a request and read its answer.

        If it is cancelled, ``parser`` and ``sent`` tell how far it had come, and the connection is not
        reusable.

        Args:
            request: head and body.
            bodiless: it is a HEAD request.

        Raises:
            SendFailed, AnswerFailed: see :mod:`hookgw.delivery.http.errors`.
            trio.ClosedResourceError: it was closed meanwhile.
        """
        self.sent = False
        self._failure, self._trouble = None, ""
        self.parser.begin(bodiless=bodiless)
        try:
            taken = self._wire.send_nowait(request)
            self.sent = taken == len(request)
        except StreamBroken as error:
            self._trouble = str(error)
        if self.sent or self._trouble:
            await self._read()
        elif taken == 0 and len(request) <= SMALL:
            await self._send(request)
            await self._read()
        else:
            await self._send_and_read(request[taken:])
        return self._outcome()

    async def _send_and_read(self, rest: bytes) -> None:
        """The answer may come before the request is taken whole; then the rest is not sent."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, rest)
            await self._read()
            nursery.cancel_scope.cancel()

    async def _send(self, rest: bytes) -> None:
        try:
            await self._wire.send_all(rest)
        except StreamBroken as error:
            self._trouble = str(error)
        except trio.ClosedResourceError:
            return
        else:
            self.sent = True

    async def _read(self) -> None:
        """Read until the answer is over; what goes wrong is kept for :meth:`_outcome`."""
        receive, parser = self._wire.receive, self.parser
        try:
            while data := await receive():
                if parser.feed(data):
                    return
            parser.end_of_stream()
        except StreamBroken as error:
            self._failure = AnswerFailed(f"The receiver broke the connection {self._moment()}: {error}.")
        except (AnswerFailed, trio.ClosedResourceError) as error:
            self._failure = error

    def _outcome(self) -> Answer:
        if self.parser.status:
            return self.parser.finish()
        if self._trouble and not self.parser.started:
            raise SendFailed(
                f"The receiver broke the connection before it had the whole request: {self._trouble}."
            )
        raise self._failure or AnswerFailed(f"The receiver closed the connection {self._moment()}.")

    def _moment(self) -> str:
        return "in the middle of its answer" if self.parser.started else "without an answer"
