"""Counts and limits one request and its response, between the connection and the application.

A body is read up to a limit, and counts in memory as far as it has arrived. A response counts until the
client has read it. The request counts among those in progress, and its status among the metrics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from hookgw.auth.keyring import KeyHolder
from hookgw.auth.request_quota import RequestQuota
from hookgw.concurrency.light import in_task
from hookgw.concurrency.loop_load import LoopLoad
from hookgw.kernel.errors import HookgwError, TooLarge, TooManyRequests, Unavailable
from hookgw.kernel.units import Size
from hookgw.records.sentences import BODY_TOO_LONG
from hookgw.web.server.body_memory import SMALL, BodyMemory
from hookgw.web.server.client import Address, Client
from hookgw.web.server.errors import JSON, response_to, shown_path
from hookgw.web.server.response_head import BODILESS
from hookgw.web.server.response_memory import SMALL_RESPONSE, ResponseMemory, holder_of

if TYPE_CHECKING:
    from quart import Response


class Gone(Exception):
    """The client disconnected; ends the application's tasks."""


class BrokenOff(Exception):
    """The application cannot complete its response. The connection is closed, which tells the client."""


class ActiveRequests:
    """Counts the requests in progress, up to a limit: from the end of the body to the end of the response."""

    def __init__(self, limit: int, load: LoopLoad | None = None) -> None:
        self._limit = limit
        self.load = load or LoopLoad()

    @property
    def is_full(self) -> bool:
        return self.load.requests >= self._limit


class ServerLimits(NamedTuple):
    """What all exchanges of a server share.

    Attributes:
        body: the most bytes of a body; reading more raises.
        report_status: called with an exchange and the status of its response.
        active: counts requests once their bodies are complete.
    """

    body: int
    report_status: Callable[[RequestResponse, int], None]
    active: ActiveRequests
    memory: BodyMemory
    responses: ResponseMemory
    quota: RequestQuota


class RequestResponse:
    """One request and its response.

    Args:
        scope: of the request (ASGI). Without ``client``, it can be that of many requests with the same head.
        address: of the client; a trusted proxy may replace it.
    """

    # Of the class, because an emit needs few of them.
    extra: tuple[tuple[bytes, bytes], ...] = ()
    """Headers for the response, besides those of the application."""
    route: str | None = None
    """The template of its route, for metrics."""
    holder: KeyHolder | None = None
    """Of the caller's key or session; ``None`` before one is known, and on open paths."""
    check_key: Callable[[], None] | None = None
    """Raises ``Unauthorized`` if the caller's key is no longer valid, and ``ForeignKey`` if it no longer
    reaches the instance in the path; ``None`` on open paths."""
    whole_body: bytes | None = None
    """The body, if it was read before the route: Quart gives a body once."""
    is_forwarded = False
    """Whether another node has forwarded it, and authenticated it before."""
    is_question = False
    """Whether another node asks this one; see ``AllNodes``."""
    forward_to_owner: Callable[[str], Awaitable[Response | None]] | None = None
    """In a fleet, forwards it if another node has an instance, and returns that node's response."""
    is_read = False
    """Whether all of the body has been received."""
    is_static = False
    """Whether the bytes of the response are in memory once for all requests: they count nothing."""
    named: tuple[str, ...] = ()
    """What a trusted proxy's header says of who the client is; see ``ProxyPeople``."""
    _room = 0
    """The bytes of the response that are reserved, or in memory."""
    _holder = ""
    _may_be_refused = False
    _is_waiting = False
    _refused_as: Callable[[TooManyRequests], HookgwError] | None = None
    _instance: str | None = None
    _in_quota_of: str | None = None
    _is_in_memory = False
    _is_counted = False
    _is_exempt = False
    _is_wanted = False
    _wanted: trio.Event | None = None
    _received = 0
    _is_started = False
    _is_finished = False
    _is_answered = False
    _refusal: HookgwError | None = None
    _holders = 1
    _at_end: Callable[[], None] | None = None

    def __init__(self, scope: Any, address: Address, client: Client, server: ServerLimits) -> None:
        self.scope = scope
        self.address = address
        self._client = client
        self._limit, self._report_status, self._active, self._memory, self._responses, self._quota = server
        self.notes = client.notes
        """What was noted about the head; see :class:`~hookgw.web.server.client.Client`."""
        self.announced = announced = client.announced
        """The announced bytes of the body; ``None`` for a chunked body."""
        self._is_large = announced is None or announced > SMALL or announced > self._limit

    @property
    def client_host(self) -> str | None:
        """The IP address of the client; ``None`` over a Unix socket, or if it is not known."""
        return self.address[0] if self.address else None

    def count_for(
        self, instance: str, refused_as: Callable[[TooManyRequests], HookgwError] | None = None
    ) -> None:
        """Count the request and its body for an instance, until both are done.

        Call this before the route reads the body. The counts are given back at the end of :meth:`run`.

        Args:
            refused_as: makes the error for the client, if 429 would be wrong.

        Raises:
            TooManyRequests: the instance has as many requests in progress as allowed; or the error of
                ``refused_as``.
        """
        self._refused_as = refused_as
        try:
            self._quota.enter(instance)
        except TooManyRequests as limit:
            raise limit if refused_as is None else refused_as(limit) from None
        self._instance = self._in_quota_of = instance
        if self._received:
            # Finding the caller took a while: of a new key in a fleet, or a session whose use was stored.
            self._memory.attribute(self, instance)

    def call_at_end(self, function: Callable[[], None]) -> None:
        """Call a function when the exchange ends, complete or not."""
        self._at_end = function

    def stop_counting(self) -> None:
        """Stop counting the request as in progress: its response lasts as long as the client wants.

        The caller must have another limit.
        """
        self._leave_active()
        self._hold(0)
        if self._in_quota_of is not None:
            self._quota.give(self._in_quota_of)
            self._in_quota_of = None

    async def reserve(self, size: int) -> None:
        """Wait for memory for a response of so many bytes, before the work for it starts.

        Meanwhile the request does not count as in progress. Unused memory is given back once the response is
        made. If the response needs more, and there is no room, the client gets 503 instead of it: call this
        only for requests that change nothing.

        Raises:
            Unavailable: the memory is full.
        """
        more = size - self._room
        if not self.reserve_nowait(size):
            self._is_waiting = True
            await in_task()
            if self._is_counted:
                self._is_counted = False
                self._active.load.requests -= 1
            try:
                await self._responses.reserve(self._holder, more)
            finally:
                self._is_waiting = False
                if self.is_read:
                    self._count()
            self._room += more  # not size: an answer meanwhile has given back what there was

    def reserve_nowait(self, size: int) -> bool:
        """Reserve memory for a response as :meth:`reserve` does, if there is some now."""
        self._may_be_refused = True
        self._holder = self._holder or holder_of(self.holder, self.address)
        more = size - self._room
        if more > 0:
            if not self._responses.reserve_nowait(self._holder, more):
                return False
            self._room += more
        return True

    def _hold(self, size: int) -> None:
        """Count exactly so many bytes of the response as in memory.

        A response that must not be refused counts as far as it fits: only its holder waits for the rest.
        """
        size = size if size > SMALL_RESPONSE and not self.is_static else 0
        if size != self._room:
            self._holder = self._holder or holder_of(self.holder, self.address)
            if not self._may_be_refused:
                size = min(size, self._room + self._responses.room(self._holder))
            self._responses.change(self._holder, self._room, size)
            self._room = size

    def _fits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a response has room beyond its reservation, or needs none."""
        size = next((int(value) for name, value in headers if name.lower() == b"content-length"), 0)
        needs_more = size > max(self._room, SMALL_RESPONSE) and not self.is_static
        if not needs_more or not self._may_be_refused:
            return True
        # However long it is, a lone response is sent: otherwise it would be refused for ever.
        is_alone = self._responses.used == self._room
        return is_alone or self._responses.fits(self._holder, size - self._room)

    def _leave_if_long(self) -> None:
        """Leave the requests in progress once a long part of the response is made.

        A client that does not read it takes counted memory, or none.
        """
        if self._room or self.is_static:
            self._leave_active()

    def _leave_active(self) -> None:
        self._is_exempt = True
        if self._is_counted:
            self._is_counted = False
            self._active.load.requests -= 1

    async def run(self, application: Callable[[], Awaitable[None]]) -> None:
        """Run an application, which responds through :meth:`receive` and :meth:`send`, or :meth:`respond`.

        Returns early if the client disconnects.
        """
        try:
            await application()
        except* (Gone, BrokenOff):
            # The client disconnected: a response would reach no one. Or the response is cut off: the
            # connection of an application that ends in the middle is closed.
            pass
        except* (TooLarge, TooManyRequests, Unavailable):
            # receive() raised this inside Quart's tasks, so Quart cannot respond any more.
            await self._refuse(self._refusal or self._too_large())
        finally:
            self.end()

    def end(self) -> None:
        """Give back what the exchange counts, except what :meth:`hand_over` keeps.

        :meth:`run` calls this. Who responds without it calls it once, however that ended.
        """
        if self._at_end is not None:
            self._at_end()
        if self._room:
            self._hold(0)
        self._leave_active()
        self._let_go()
        if self._refusal is not None:
            self._refusal = None  # its traceback leads back here, and to the body

    def hand_over(self) -> Callable[[], None]:
        """Keep counting the request and its body for work that goes on after the response.

        Return a function to call once, when the body is no longer in memory.
        """
        self._holders += 1
        return self._let_go

    def _let_go(self) -> None:
        self._holders -= 1
        if not self._holders:
            if self._in_quota_of is not None:
                self._quota.give(self._in_quota_of)
            if self._is_in_memory:
                self._memory.release(self, self._instance)

    async def receive(self) -> Any:
        """Return the next message: a part of the body, or the end of a finished exchange (ASGI)."""
        if self.announced != 0 and not self._received:
            await in_task()
            # Quart's other task authenticates the request first: the body then counts for the key's instance.
            await trio.lowlevel.checkpoint()
            if not self._is_wanted and any(name == b"expect" for name, _ in self.scope["headers"]):
                # Receiving asks the client for the body, which is wrong where the response is an error.
                self._wanted = trio.Event()
                await self._wanted.wait()
        return await self.next_message()

    def is_client_there(self) -> bool:
        """Return whether the client has not ended its side of the connection, as far as is known."""
        return self._client.is_there()

    def want_body(self) -> None:
        """Note that the route reads the body, for which the client may be waiting to be asked."""
        self._is_wanted = True
        if self._wanted is not None:
            self._wanted.set()

    async def next_message(self) -> Any:
        """Return the next message, for a caller that has authenticated the request."""
        while True:
            if self._memory.is_full and self._is_large and not self._is_started and not self.is_read:
                await self._wait_room()
            message = await self._client.receive()
            if message["type"] != "http.request":
                if not self._is_finished:
                    raise Gone
                return message  # "http.disconnect": a finished exchange ends quietly
            size = len(message["body"])
            self._received += size
            if not self._is_started:  # once a response has started, its status cannot become 413
                self._count_body(size if self._is_large else 0)
            if not message["more_body"]:
                self.is_read = True
                self._count()
            elif self._is_started:
                continue  # it arrived before the response: the connection reads no more of it
            return message

    def body_nowait(self) -> bytes | None:
        """Return the body if it is small and has arrived, for a caller that has authenticated the request.

        ``None`` says nothing about the body. Call it before :meth:`receive` and :meth:`next_message`.
        """
        if self._is_large or (body := self._client.receive_nowait()) is None:
            return None
        self._received = len(body)  # as announced: neither counted nor refused
        self.is_read = True
        self._count()
        return body

    async def grow(self, size: int) -> None:
        """Count bytes that the application made of the body by decoding it, and wait if there are too many.

        Raises:
            TooManyRequests: the bodies of the instance are too large together.
            Unavailable: there is no memory for more of it.
        """
        self._count_body(size)
        await self._wait_room()

    async def _wait_room(self) -> None:
        try:
            await self._memory.wait_room(self)
        except Unavailable as refusal:
            self._refusal = refusal
            raise

    def _count_body(self, size: int) -> None:
        """Count so many more bytes of the body in memory; refuse a body that is too large."""
        try:
            if self._received > self._limit:
                raise self._too_large()
            if size:
                self._is_in_memory = True
                self._memory.hold(self, size, self._instance)
        except TooLarge as error:
            self._refusal = error  # run() sees only a group around it
            raise
        except TooManyRequests as error:
            self._refusal = error if self._refused_as is None else self._refused_as(error)
            raise self._refusal from None

    def _count(self) -> None:
        # Counted from the end of the body, so that slow uploads do not use up server.max_requests.
        if not self._is_counted and not self._is_exempt and not self._is_waiting:
            self._is_counted = True
            self._active.load.requests += 1

    def _too_large(self) -> TooLarge:
        return TooLarge(BODY_TOO_LONG(limit=Size(self._limit)))

    def chunks(self) -> Chunks:
        return Chunks(self)

    def respond(
        self, status: int, headers: Mapping[str, str], body: bytes, content_type: str = JSON
    ) -> Awaitable[None]:
        """Send a complete response, even if some of the request's body was not read.

        Its content type and length are added to the headers. If :meth:`answer_for` was first, drop it.
        """
        # Not a coroutine: each emit would make one more, only to wait for the client's.
        if self._is_started:
            return trio.lowlevel.checkpoint()  # noqa: ASYNC105 -- the caller awaits it
        lines = [(name.encode(), value.encode()) for name, value in headers.items()] if headers else []
        if status not in BODILESS:
            lines += (b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))
        lines += self.extra
        self._begin(status)
        self._is_finished = True
        if self._room or len(body) > SMALL_RESPONSE:
            self._hold(len(body))
            self._leave_if_long()
        return self._client.respond(status, lines, body)

    async def send(self, message: Any) -> None:
        if self._is_answered:
            await trio.lowlevel.checkpoint()
            return
        if message["type"] == "http.response.start":
            try:
                # It may have waited: for memory, and for a turn to read.
                if self._may_be_refused and self.check_key is not None:
                    self.check_key()
                if not self._fits(message["headers"]):
                    raise self._responses.refusal(self._holder)
            except HookgwError as refusal:
                await self.answer_for(refusal)
                return
            self._begin(message["status"])
            if self.extra:
                message = {**message, "headers": [*message["headers"], *self.extra]}
        else:
            # From here on, count what this part needs instead of the reservation.
            self._hold(len(message.get("body", b"")))
            self._leave_if_long()
            if not message.get("more_body", False):
                self._is_finished = True
        await self._client.send(message)
        if message["type"] == "http.response.body":
            self._hold(0)
        if self._is_finished:
            # Now, not when Quart's tasks have ended: the client may send its next request at once.
            self._leave_active()

    def _begin(self, status: int) -> None:
        self._is_started = self._is_wanted = True
        if self._wanted is not None:
            self._wanted.set()  # no longer: but receive() also notices that the client leaves
        self._report_status(self, status)
        if not self.is_read:
            self._memory.release(self, self._instance)  # the rest of the body is read and dropped

    async def answer_for(self, error: HookgwError) -> None:
        """Respond with an error while the application still works; drop its later response.

        Nothing is sent if it has begun to respond.
        """
        if not self._is_started:
            self._is_answered = True
            await self._refuse(error)
            self._hold(0)
            self._leave_active()

    async def _refuse(self, error: HookgwError) -> None:
        # Respond instead of the application. A response that broke off in the middle cannot be replaced.
        if not self._is_started:
            path = shown_path(self.scope["path"].removeprefix(self.scope["root_path"]))
            status, body, more = response_to(error, self.scope["method"], path)
            await self.respond(status, more, body)


class Chunks:
    """Iterates over the parts of a request's body as they arrive."""

    def __init__(self, exchange: RequestResponse) -> None:
        self._exchange = exchange

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        if self._exchange.is_read:
            raise StopAsyncIteration
        chunk: bytes = (await self._exchange.next_message())["body"]
        return chunk
