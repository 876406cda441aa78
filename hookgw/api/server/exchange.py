"""One request and its response, between hypercorn and the application: the rules that hold for every route.

Every response carries the version. The end of a response is sent even if it cancels the request's task;
otherwise hypercorn would never mark the connection as idle. A body is read up to a limit. If it continues
beyond the response, the rest is read and dropped for a while, and then the connection is closed: closed at
once, the client could lose the response to a reset (RFC 9112, section 9.6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope

from hookgw.api.server.body_memory import COPIES, SMALL, BodyMemory
from hookgw.api.server.errors import JSON, VERSION_HEADER, response_to, shown_path
from hookgw.auth.request_quota import QuotaLease
from hookgw.models.errors import HookgwError, TooLarge, TooManyRequests, Unavailable
from hookgw.models.units import Size

EXCHANGE = "hookgw.exchange"
"""The key in the request's scope for its :class:`RequestResponse`."""
QUOTA_LEASE = "hookgw.quota_lease"
"""The key in the request's scope for its share of the instance's request quota."""
LINGER = 5.0
"""Seconds for which the rest of a body is read and dropped."""

BODILESS = frozenset({204, 304})
"""Statuses of responses that have no body, and no headers about one (RFC 9110, section 8.6)."""
END_TIMEOUT = 30.0
"""Seconds that sending the end of a response may take."""

_CLOSE = (b"connection", b"close")


class Gone(Exception):
    """The client disconnected; ends the application's tasks."""


class BrokenOff(Exception):
    """The application cannot complete the response that it began.

    The connection is closed, which tells the client.
    """


class ActiveRequests:
    """Counts the requests in progress: from the end of the body to the end of the response.

    Args:
        limit: the number at which :attr:`is_full` becomes true.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._count >= self._limit

    def enter(self) -> None:
        """Count one more request."""
        self._count += 1

    def leave(self) -> None:
        """Count one request less."""
        self._count -= 1


class RequestResponse:
    """One request and its response.

    Args:
        scope, receive, send: hypercorn's side (ASGI).
        limit: the most bytes of a body; reading more raises.
        report_status: called with the status of the response.
        active: counts the request once its body is complete.
        memory: counts the body as far as it is in memory.
    """

    def __init__(
        self,
        scope: HTTPScope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        limit: int,
        report_status: Callable[[HTTPScope, int], None],
        active: ActiveRequests,
        memory: BodyMemory,
    ) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._report_status = report_status
        self._active = active
        self._memory = memory
        self._is_counted = False
        self._is_exempt = False
        self._length = _announced_length(scope)
        self._is_large = self._length is None or self._length > SMALL
        self._received = 0
        self._decoded = 0
        self._is_started = False
        self._is_ending = False
        self._is_finished = False
        self._discards = False
        self._refusal: HookgwError | None = None
        self._body_read = trio.Event()
        self._holders = 1
        self._at_end: Callable[[], None] | None = None

    def call_at_end(self, function: Callable[[], None]) -> None:
        """Have a function called when the exchange ends, complete or not."""
        self._at_end = function

    def stop_counting(self) -> None:
        """Count the request no more among those in progress: its response lasts as long as the client wants.

        The caller has another limit.
        """
        self._is_exempt = True
        if self._is_counted:
            self._is_counted = False
            self._active.leave()
        if (lease := self._lease) is not None:
            scope: Any = self.scope
            del scope[QUOTA_LEASE]
            lease.leave()

    async def run(self, application: Callable[[], Awaitable[None]]) -> None:
        """Run an application, which responds through :meth:`receive` and :meth:`send`, or :meth:`respond`.

        Returns early if the client disconnects.
        """
        try:
            await application()
        except* (Gone, BrokenOff):
            # The client disconnected (a half-close counts): there is nobody to respond to. Or the response
            # is cut off: hypercorn closes the connection of an application that ends in the middle.
            pass
        except* (TooLarge, TooManyRequests, Unavailable):
            # receive() raised this inside Quart's tasks, so Quart cannot respond any more.
            await self._refuse(self._refusal or self._too_large())
        finally:
            if self._at_end is not None:
                self._at_end()
            if self._is_counted:
                self._active.leave()
            self._let_go()

    def hand_over(self) -> Callable[[], None]:
        """Keep counting the request and its body for work that goes on after the response.

        Returns:
            A function; call it once, when the body is no longer in memory.
        """
        self._holders += 1
        return self._let_go

    def _let_go(self) -> None:
        self._holders -= 1
        if not self._holders:
            if (lease := self._lease) is not None:
                lease.leave()
            self._memory.release(self)

    async def receive(self) -> Any:
        """Return the next message: a part of the body, or the end of a finished exchange."""
        while True:
            if self._memory.is_full and self._is_large and not self._discards and self._has_more_body():
                await self._wait_room()
            message = await self._receive()
            if message["type"] != "http.request":
                if not self._is_finished:
                    raise Gone
                return message  # "http.disconnect": a finished exchange ends quietly
            size = len(message.get("body", b""))
            self._received += size
            if size and self._is_large and not self._discards:
                self._memory.hold(self, COPIES * size)
            if not message.get("more_body", False) or self._received == self._length:
                self._body_read.set()
                self._count()
            elif self._discards:
                continue  # the application gets none of a body that it no longer wants
            if not self._is_started:  # once a response has started, its status cannot become 413
                self._check_size()
            return message

    async def grow(self, size: int) -> None:
        """Count bytes that the application made of the body by decoding it, and wait if there are too many.

        Raises:
            TooManyRequests: the bodies of the instance are too large together.
            Unavailable: there is no memory for more of it.
        """
        self._decoded += size
        if (lease := self._lease) is not None:
            lease.hold(self._received + self._decoded)
        self._memory.hold(self, COPIES * size)
        await self._wait_room()

    async def _wait_room(self) -> None:
        try:
            await self._memory.wait_room(self)
        except Unavailable as refusal:
            self._refusal = refusal
            raise

    @property
    def _lease(self) -> QuotaLease | None:
        # Authentication adds it to the scope if the key belongs to an instance.
        scope: Any = self.scope
        lease: QuotaLease | None = scope.get(QUOTA_LEASE)
        return lease

    def _check_size(self) -> None:
        try:
            if self._received > self._limit:
                raise self._too_large()
            if self._received and (lease := self._lease) is not None:
                lease.hold(self._received + self._decoded)
        except HookgwError as refusal:
            self._refusal = refusal  # run() sees only a group around it
            raise

    def _count(self) -> None:
        # Counted from the end of the body, so that slow uploads do not use up server.max_requests.
        if not self._is_counted and not self._is_exempt:
            self._is_counted = True
            self._active.enter()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body may have at most {Size(self._limit)}.")

    def chunks(self) -> Chunks:
        """Return the parts of the body, for an application that uses :meth:`respond`."""
        return Chunks(self)

    @property
    def is_read(self) -> bool:
        """Whether all of the body has been received."""
        return self._body_read.is_set()

    async def respond(
        self, status: int, headers: Mapping[str, str], body: bytes, content_type: str = JSON
    ) -> None:
        """Send a complete response, even if some of the request's body was not read.

        Args:
            status, headers, body: of the response. Its content type and length are added.
            content_type: of the body.
        """
        content = _content_headers(body, content_type) if status not in BODILESS else []
        start = {
            "type": "http.response.start",
            "status": status,
            "headers": [*_encoded(headers), *content],
        }
        end: Any = {"type": "http.response.body", "body": body, "more_body": False}
        if not self._has_more_body():
            # No cancel scope: nothing cancels this task here, and each write has a deadline of its own.
            await self._send(await self._start(start))
            self._is_finished = True
            await self._send(end)
            return
        # hypercorn queues a few messages of the body only. Somebody must read them, or _drain waits in vain.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._discard_body)
            await self.send(start)
            await self.send(end)
            nursery.cancel_scope.cancel()

    async def send(self, message: Any) -> None:
        """Send the next part of the response."""
        if message["type"] == "http.response.start":
            await self._send(await self._start(message))
        elif message.get("more_body"):
            await self._send(message)
        else:
            await self._end(message)

    async def _end(self, message: Any) -> None:
        # After the last part, the connection serves the next request; a cancellation must not leave it half
        # written.
        self._is_ending = True
        if self._has_more_body():
            # The client gets the whole response now; only its end waits until the body was read.
            unfinished: Any = {**message, "more_body": True}
            await self._send(unfinished)
            await self._drain()
            message = {**message, "body": b""}
        self._is_finished = True
        with trio.move_on_after(END_TIMEOUT, shield=True):
            await self._send(message)

    async def _start(self, message: Any) -> Any:
        self._is_started = True
        self._report_status(self.scope, message["status"])
        headers = [*message["headers"], VERSION_HEADER]
        if self._has_more_body():
            self._discards = self._received > self._limit
            if self._fits_limit():
                await self._drain()
            if not self._body_read.is_set():  # the next request cannot follow bytes that nobody reads
                headers.append(_CLOSE)
        return {**message, "headers": headers}

    def _has_more_body(self) -> bool:
        return not self._body_read.is_set() and self._declares_body()

    def _declares_body(self) -> bool:
        if self._length is not None:
            return True
        return any(name.lower() == b"transfer-encoding" for name, _ in self.scope["headers"])

    def _fits_limit(self) -> bool:
        # An announced length within the limit: reading the rest is cheap, and the connection stays open.
        return self._length is not None and self._length <= self._limit

    async def _drain(self) -> None:
        self._discard()
        with trio.move_on_after(LINGER):
            await self._body_read.wait()

    async def _refuse(self, error: HookgwError) -> None:
        # Respond instead of the application, or finish the response that it had started to end.
        body = b""
        if not self._is_started:
            status, body, more = response_to(error, self.scope["method"], shown_path(self.scope["path"]))
            self._is_started = True
            self._report_status(self.scope, status)
            headers = [*_encoded(more), *response_headers(body), _CLOSE]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
        elif not self._is_ending:
            return  # a response that broke off in the middle: only closing the connection tells the client
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._discard_body)
            await self._end({"type": "http.response.body", "body": body, "more_body": False})
            nursery.cancel_scope.cancel()

    def _discard(self) -> None:
        self._discards = True
        self._memory.release(self)

    async def _discard_body(self) -> None:
        self._discard()
        while (await self.receive())["type"] == "http.request":
            pass


class Chunks:
    """Iterates over the parts of a request's body as they arrive."""

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
    """Return the ``content-length``, which the request filter has checked; ``None`` for a chunked body."""
    length = None
    for name, value in scope["headers"]:
        lower = name.lower()
        if lower == b"content-length" and value.isdigit():
            length = int(value)
        elif lower == b"transfer-encoding":
            return None
    return length


def response_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a JSON response."""
    return [*_content_headers(body), VERSION_HEADER]


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _content_headers(body: bytes, content_type: str = JSON) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
