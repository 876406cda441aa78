"""One HTTP exchange, between the server and the application: what must hold whatever a route does.

Every answer carries the version. The end of an answer is sent also where the request's task is
cancelled by it: otherwise the server would never count the connection as idle. A body is
read up to a limit, and where it goes on beyond an answer, that is read off and dropped for a while, and
the connection closed: were it closed at once, the client could lose the answer to a reset (RFC 9112,
section 9.6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope

from hookgw.api.server.errors import JSON, VERSION_HEADER, answer_to
from hookgw.auth.request_quota import QuotaLease
from hookgw.models.errors import HookgwError, TooLarge, TooManyRequests
from hookgw.models.units import Size

PART = "hookgw.part"
"""Where the part stands in the request's scope that it takes of what its instance may take at a time."""
LINGER = 5.0
"""How long what is left of a body is read off, in seconds."""

PATIENCE = 30.0
"""How long the server may take over the end of an answer, in seconds."""

_CLOSE = (b"connection", b"close")


class Gone(Exception):
    """The client went away: ends the application's tasks."""


class Underway:
    """The requests that are worked on: those whose body is there, and whose answer is not finished.

    Args:
        limit: how many are enough.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether these are enough."""
        return self._count >= self._limit

    def enter(self) -> None:
        """One more."""
        self._count += 1

    def leave(self) -> None:
        """One less."""
        self._count -= 1


class RequestResponse:
    """One request and its answer.

    Args:
        scope, receive, send: the server's side (ASGI).
        limit: bytes of body after which reading raises.
        answered: called with the answer's status.
        underway: where it counts once its body is there.
    """

    def __init__(
        self,
        scope: HTTPScope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        limit: int,
        answered: Callable[[HTTPScope, int], None],
        underway: Underway,
    ) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._answered = answered
        self._underway = underway
        self._is_counted = False
        self._length = _announced_length(scope)
        self._received = 0
        self._is_started = False
        self._is_ending = False
        self._is_answered = False
        self._drops = False
        self._refusal: HookgwError | None = None
        self._read = trio.Event()

    async def run(self, application: Callable[[], Awaitable[None]]) -> None:
        """Let an application answer, through :meth:`receive` and :meth:`send`, or :meth:`answer`.

        Returns early where the client goes away.
        """
        try:
            await application()
        except* Gone:
            pass
        except* (TooLarge, TooManyRequests):
            await self._refuse(self._refusal or self._too_large())
        finally:
            if self._is_counted:
                self._underway.leave()
            if (part := self._part) is not None:
                part.leave()

    async def receive(self) -> Any:
        """The next part of the body."""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                if not self._is_answered:
                    raise Gone
                return message
            self._received += len(message.get("body", b""))
            if not message.get("more_body", False) or self._received == self._length:
                self._read.set()
                self._count()
            elif self._drops:
                continue
            if not self._is_started:
                self._check_size()
            return message

    @property
    def _part(self) -> QuotaLease | None:
        """There is one from the moment at which the key is known to be an instance's."""
        scope: Any = self.scope
        part: QuotaLease | None = scope.get(PART)
        return part

    def _check_size(self) -> None:
        try:
            if self._received > self._limit:
                raise self._too_large()
            if self._received and (part := self._part) is not None:
                part.hold(self._received)
        except HookgwError as refusal:
            self._refusal = refusal
            raise

    def _count(self) -> None:
        if not self._is_counted:
            self._is_counted = True
            self._underway.enter()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body may have at most {Size(self._limit)}.")

    def chunks(self) -> Chunks:
        """The body, for an application that uses :meth:`answer`."""
        return Chunks(self)

    @property
    def is_read(self) -> bool:
        """Whether all of the body has been received."""
        return self._read.is_set()

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Give a whole answer in JSON, also where some of the request's body was not read.

        Args:
            status, headers, body: of the answer; its type and length are added.
        """
        start = {
            "type": "http.response.start",
            "status": status,
            "headers": [*_encoded(headers), *_content_headers(body)],
        }
        end: Any = {"type": "http.response.body", "body": body, "more_body": False}
        if not self._goes_on():
            # Nobody cancels this task meanwhile, and each write has a deadline: no scope.
            await self._send(await self._start(start))
            self._is_answered = True
            await self._send(end)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump)
            await self.send(start)
            await self.send(end)
            nursery.cancel_scope.cancel()

    async def send(self, message: Any) -> None:
        """The next part of the answer."""
        if message["type"] == "http.response.start":
            await self._send(await self._start(message))
        elif message.get("more_body"):
            await self._send(message)
        else:
            await self._end(message)

    async def _end(self, message: Any) -> None:
        """The last part. After it the connection serves the next request, which must not be cancelled."""
        self._is_ending = True
        if self._goes_on():
            going_on: Any = {**message, "more_body": True}
            await self._send(going_on)
            await self._read_off()
            message = {**message, "body": b""}
        self._is_answered = True
        with trio.move_on_after(PATIENCE, shield=True):
            await self._send(message)

    async def _start(self, message: Any) -> Any:
        self._is_started = True
        self._answered(self.scope, message["status"])
        headers = [*message["headers"], VERSION_HEADER]
        if self._goes_on():
            self._drops = self._received > self._limit
            if self._is_short():
                await self._read_off()
            if not self._read.is_set():
                headers.append(_CLOSE)
        return {**message, "headers": headers}

    def _goes_on(self) -> bool:
        """Whether there is more of the request's body to come."""
        return not self._read.is_set() and self._declares_body()

    def _declares_body(self) -> bool:
        if self._length is not None:
            return True
        return any(name.lower() == b"transfer-encoding" for name, _ in self.scope["headers"])

    def _is_short(self) -> bool:
        """Whether the body says of itself that it is within the limit: then the connection can live on."""
        return self._length is not None and self._length <= self._limit

    async def _read_off(self) -> None:
        """Drop the rest of the body. Whoever reads the body reads on, and is given none of it."""
        self._drops = True
        with trio.move_on_after(LINGER):
            await self._read.wait()

    async def _refuse(self, error: HookgwError) -> None:
        """Answer in the application's place, or end the answer that it had just given itself."""
        body = b""
        if not self._is_started:
            status, body, more = answer_to(error, self.scope["method"], self.scope["path"])
            self._is_started = True
            self._answered(self.scope, status)
            headers = [*_encoded(more), *answer_headers(body), _CLOSE]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
        elif not self._is_ending:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump)
            await self._end({"type": "http.response.body", "body": body, "more_body": False})
            nursery.cancel_scope.cancel()

    async def _pump(self) -> None:
        self._drops = True
        while (await self.receive())["type"] == "http.request":
            pass


class Chunks:
    """The parts of a request's body as they arrive; an iterator that ends with the body."""

    def __init__(self, exchange: RequestResponse) -> None:
        self._exchange = exchange

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        if self._exchange.is_read:
            raise StopAsyncIteration
        message = await self._exchange.receive()
        chunk: bytes = message.get("body", b"")
        return chunk


def _announced_length(scope: HTTPScope) -> int | None:
    """The ``content-length``, which the server has checked; ``None`` where the body comes in chunks."""
    length = None
    for name, value in scope["headers"]:
        lower = name.lower()
        if lower == b"content-length" and value.isdigit():
            length = int(value)
        elif lower == b"transfer-encoding":
            return None
    return length


def answer_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of an answer in JSON."""
    return [*_content_headers(body), VERSION_HEADER]


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _content_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode())]
