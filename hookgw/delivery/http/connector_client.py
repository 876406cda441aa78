"""The HTTP clients of one plugin's connectors: for listed servers, long polls, and files.

They differ from the client that all plugins share (:mod:`hookgw.delivery.http.plugin_client`):

- the operator's servers are dialled at whatever address they have, but an instance's client reaches only
  those of them that are its own, and none of them serves :meth:`ConnectorClients.fetch`;
- a connection is used again, because a network's API is called all the time. A request that must not be
  repeated (POST, PATCH) always gets a new one: a server may close an idle connection just as a request is
  sent on it, and then it is unknown whether that was processed;
- a response may have 16 MiB, and ``client.stream`` passes one of any size on as it arrives.

Instances share these fairly (:mod:`hookgw.fair`): the places for requests of a plugin; the places for its
long polls, one for each instance, so that no other request waits for a poll; and the memory for responses
that are not streamed (:mod:`hookgw.delivery.http.answer_memory`). A request takes its place first, then
memory as its response arrives. It waits for a place without holding anything.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Any

import httpx
import trio

from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.delivery.http import httpx_adapter
from hookgw.delivery.http.answer_memory import AnswerMemory, HeldAnswer
from hookgw.delivery.http.client_tls import USUAL_TLS_CONTEXTS, ClientContexts
from hookgw.delivery.http.dialer import Dialer
from hookgw.delivery.http.errors import Blocked
from hookgw.delivery.http.fetch import COPIES, HELD, LIMIT, TooManyBytes, fetch_file
from hookgw.delivery.http.plugin_client import ENCODINGS, GuardedClient
from hookgw.delivery.http.streamed import StreamConnection, StreamTransport
from hookgw.delivery.http.transport import LaneTransport
from hookgw.fair import Share
from hookgw.kernel.target_url import Origin, Target
from hookgw.records.connectors import FetchedFile

MAX_CONNECTOR_ANSWER = 16 * 2**20
"""Bytes of a (decoded) response body that is not streamed."""
MAX_CONNECTOR_IDLE = 16
"""Connections that a client keeps for later requests."""
RATIO = 3
"""An instance may have this many times the places that are free: three quarters, if it is the only one."""
RESERVED = 4
"""A quarter of the places is for instances that have few: a server that hangs keeps one for half a minute."""
LONG_POLL = "long_poll"
"""The extension of a request that waits for news."""
CONNECTOR_IDLE_TIME = 20.0
"""Seconds after which an idle connection is not used again: many servers close theirs soon after."""

# RFC 9110, section 9.2.2: repeating them does no harm.
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
_STREAMED = "hookgw_streamed"
_ENCODED_PIECE = 4096


class ConnectorClients:
    """Makes the clients of one plugin, which share their places for requests and their idle connections.

    Args:
        dialer: for every host but ``servers``.
        servers: the operator's servers, dialled with ``servers_dialer``.
        timeout: default seconds.
        connection_age: seconds after which a connection is not used again; see :class:`LaneTransport`.
        max_requests, max_polls: how many may be in progress; further ones wait. Long polls are not requests.

    Attributes:
        http: a client that reaches all of the servers, for the plugin's own task.
        listed: the origins of ``servers``.
        places, polls: the places for requests, and those for long polls.
    """

    def __init__(
        self,
        plugin: str,
        dialer: Dialer,
        servers: Collection[Origin],
        servers_dialer: Dialer,
        memory: AnswerMemory,
        *,
        timeout: float,
        connection_age: float = math.inf,
        ssl_context: ClientContexts = USUAL_TLS_CONTEXTS,
        max_requests: int,
        max_polls: int,
    ) -> None:
        self.plugin = plugin
        self.dialer = dialer
        self.listed = frozenset(servers)
        self.servers_dialer = servers_dialer
        self.memory = memory
        self.connection_age = connection_age
        self.ssl_context = ssl_context
        self.places: Share[WaitingClaim] = Share(max_requests, RATIO, RESERVED)
        self.polls: Share[WaitingClaim] = _Polls(max_polls, RATIO)
        self._timeout = timeout
        # The newest at the end, each with the dialer that opened it, and the time since when it has been
        # idle. A connection that was opened for a listed server must not serve a request that passes the
        # guard, although both have the same origin.
        self._idle: list[tuple[Dialer, Origin, float, LaneTransport]] = []
        # The plugin itself is no instance: it is a separate holder.
        self.http = ConnectorClient(_ConnectorTransport(self, "", lambda: self.listed), timeout=timeout)

    def of_instance(self, instance: str, servers: Callable[[], Collection[Origin]]) -> httpx.AsyncClient:
        """Make the client of one instance. It need not be closed.

        Args:
            servers: returns the instance's own servers. Of these, listed servers are reached at any address;
                every other host passes the guard, even a listed one.
        """
        return ConnectorClient(_ConnectorTransport(self, instance, servers), timeout=self._timeout)

    async def fetch(self, instance: str, url: str, *, limit: int) -> FetchedFile:
        """Return the file at a URL that a tenant gave, without any of the operator's servers.

        See :func:`hookgw.delivery.http.fetch.fetch_file`, also for the errors. ``limit`` is lowered to one
        instance's share of the memory for answers.
        """
        # Its errors do not mention `servers`: listing a server does not open it to the URLs of tenants.
        transport = _ConnectorTransport(self, instance, frozenset, advises=False)
        files = ConnectorClient(transport, timeout=self._timeout)
        held = self.memory.hold(instance)
        try:
            most = self.memory.most_of_holder // COPIES
            file = await fetch_file(files, url, limit=min(limit, most), held=held)
        except BaseException:
            held.release()
            raise
        held.hand_over()
        return file

    def take_idle(self, dialer: Dialer, origin: Origin) -> LaneTransport | None:
        """Return an idle connection that ``dialer`` opened, for exclusive use; ``None`` if there is none."""
        for entry in reversed(self._idle):
            if entry[0] is dialer and entry[1] == origin:
                self._idle.remove(entry)
                return entry[3]
        return None

    def put_idle(self, dialer: Dialer, origin: Origin, transport: LaneTransport) -> None:
        """Keep a connection for later requests. If there are too many, close the oldest connection."""
        transport.rest()
        self._idle.append((dialer, origin, trio.current_time(), transport))
        if len(self._idle) > MAX_CONNECTOR_IDLE:
            self._idle.pop(0)[3].close_nowait()

    def close_idle(self, until: float) -> None:
        """Close the connections that have been idle since ``until`` or longer."""
        for entry in [entry for entry in self._idle if entry[2] <= until]:
            self._idle.remove(entry)
            entry[3].close_nowait()

    async def aclose(self) -> None:
        await self.http.aclose()


class ConnectorClient(GuardedClient):
    """A client for any number of tasks. Every connection it makes passes a guard.

    A request that is not streamed has one deadline, the longest of its timeouts, so a long poll asks with
    ``timeout=90``. With ``stream`` this deadline covers the head of the response; afterwards the read timeout
    applies to each piece. Leave the block of ``stream`` to close its connection. Redirects are followed only
    if a request asks for it; each one passes the guard.

    Raises:
        httpx.ConnectError: the guard refuses; the message names the settings that would allow it.
        httpx.RemoteProtocolError: the response exceeds :data:`MAX_CONNECTOR_ANSWER`, or is cut off.
    """

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        # A transport does not hear otherwise whether its caller reads the body piece by piece.
        request.extensions[_STREAMED] = stream
        if stream and request.headers.get("accept-encoding") == ENCODINGS:
            request.headers["accept-encoding"] = "identity"  # what is streamed is mostly compressed anyway
        return await super().send(request, stream=stream, **options)


class _Polls(Share[WaitingClaim]):
    """The places for long polls: one for each holder, while any are free."""

    __slots__ = ()

    def fits(self, holder: str, amount: int = 1) -> bool:
        return self.used + amount <= self.total and self.held(holder) == 0


class _ConnectorTransport(httpx.AsyncBaseTransport):
    def __init__(
        self,
        clients: ConnectorClients,
        holder: str,
        servers: Callable[[], Collection[Origin]],
        *,
        advises: bool = True,
    ) -> None:
        self._clients = clients
        self._holder = holder
        self._servers = servers
        self._advises = advises

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = httpx_adapter.request_target(request)
        timeout = httpx_adapter.timeout_of(request, "pool")
        is_poll = request.extensions.get(LONG_POLL)
        places = self._clients.polls if is_poll else self._clients.places
        try:
            with trio.fail_after(timeout):
                await take_in_line(places, self._holder)
        except trio.TooSlowError:
            raise httpx.PoolTimeout(self._refusal(places, timeout), request=request) from None
        free = partial(places.give, self._holder)
        response = None
        try:
            if request.extensions.get(_STREAMED):
                response = await self._stream(request, target, free)
                return response
            return await self._exchange(request, target)
        except httpx.ConnectError as error:
            if not isinstance(error.__cause__, Blocked) or not self._advises or self._is_own(target):
                raise
            raise httpx.ConnectError(f"{error} {self._advice(target)}", request=request) from error.__cause__
        finally:
            if response is None:  # a streamed one frees its place when it is closed
                free()

    def _refusal(self, places: Share[WaitingClaim], seconds: float | None) -> str:
        held = places.held(self._holder)
        if places is self._clients.polls and held:
            return f"Another long poll of this instance was in progress for {seconds:g} s. Nothing was sent."
        return (
            f"No place was free for {seconds:g} s: {held} requests of this instance were in progress, and "
            f"{places.used} of at most {places.total} of all instances. Nothing was sent; retry later."
        )

    async def _exchange(self, request: httpx.Request, target: Target) -> httpx.Response:
        dialer, transport = self._dialer_for(target), None
        self._clients.close_idle(trio.current_time() - CONNECTOR_IDLE_TIME)
        if request.method in _REPEATABLE:
            transport = self._clients.take_idle(dialer, target.origin)
        if transport is None:
            transport = LaneTransport(
                dialer,
                max_answer=MAX_CONNECTOR_ANSWER,
                connection_age=self._clients.connection_age,
                ssl_context=self._clients.ssl_context,
            )
        held = self._clients.memory.hold(self._holder)
        transport.admit, transport.looks_up_for = held.take, self._holder
        try:
            response = await transport.handle_async_request(request)
        except BaseException as error:
            transport.close_nowait()
            held.release()
            if held.failure is not None and isinstance(error, httpx.RemoteProtocolError):
                raise httpx.RemoteProtocolError(str(held.failure), request=request) from error
            raise
        held.hand_over()
        if transport.connected:
            self._clients.put_idle(dialer, target.origin, transport)
        return response

    async def _stream(
        self, request: httpx.Request, target: Target, free: Callable[[], None]
    ) -> httpx.Response:
        transport = StreamTransport(self._dialer_for(target), ssl_context=self._clients.ssl_context)
        transport.looks_up_for = self._holder
        deadline = trio.current_time() + httpx_adapter.longest_timeout(request)
        body = await request.aread()
        head = httpx_adapter.render_head(request, target, len(body))
        with httpx_adapter.httpx_errors(request):
            response, connection = await transport.begin(target, head + body, deadline=deadline)

        def close() -> None:
            transport.close_nowait()
            free()

        is_encoded = response.header("content-encoding") not in (None, "", "identity")
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(
                connection,
                request,
                close,
                # httpx decodes each piece at once, and one of 32 KiB may become 32 MiB.
                piece=_ENCODED_PIECE if is_encoded else None,
                # httpx reads the whole body of a redirect that it follows.
                limit=MAX_CONNECTOR_ANSWER
                if 300 <= response.status < 400
                else request.extensions.get(LIMIT, math.inf),
            ),
            request=request,
            extensions={"http_version": b"HTTP/1.1"},
        )

    def _is_own(self, target: Target) -> bool:
        return target.origin in self._clients.listed and target.origin in self._servers()

    def _dialer_for(self, target: Target) -> Dialer:
        return self._clients.servers_dialer if self._is_own(target) else self._clients.dialer

    def _advice(self, target: Target) -> str:
        server, servers = (
            f"{target.scheme}://{target.place}",
            f"plugins.options.{self._clients.plugin}.servers",
        )
        if target.origin not in self._clients.listed:
            return f"To allow it for this connector alone, add {server} to {servers}."
        return (
            f"{server} is in {servers}, but it is not this instance's server: only those instances reach it "
            'whose option for the server (marked with "x-server" in the connector\'s schema) names it.'
        )

    async def aclose(self) -> None:
        self._clients.close_idle(math.inf)
        await trio.lowlevel.checkpoint()


class _Body(httpx.AsyncByteStream):
    """The body of a streamed response. Closing it closes the connection."""

    def __init__(
        self,
        connection: StreamConnection,
        request: httpx.Request,
        close: Callable[[], None],
        *,
        piece: int | None,
        limit: float,
    ) -> None:
        self._connection = connection
        self._request = request
        self._close: Callable[[], None] | None = close
        self._piece = piece
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = httpx_adapter.timeout_of(self._request, "read")
        held: HeldAnswer | None = self._request.extensions.get(HELD)
        size = 0
        while True:
            try:
                with httpx_adapter.httpx_errors(self._request):
                    with trio.fail_after(read):
                        data = await self._connection.receive()
            except trio.TooSlowError:
                raise httpx.ReadTimeout(
                    f"The server sent nothing for {read:g} s.", request=self._request
                ) from None
            size += len(data)
            if size > self._limit:
                raise TooManyBytes(f"The response exceeded {self._limit} bytes.", request=self._request)
            if not data:
                return
            if held is not None:
                with httpx_adapter.httpx_errors(self._request):
                    await held.take(COPIES * len(data))
            step = self._piece or len(data)
            for start in range(0, len(data), step):
                yield data[start : start + step]

    async def aclose(self) -> None:
        # Before any await: a cancelled task must close it, too.
        close, self._close = self._close, None
        if close is not None:
            close()
        await trio.lowlevel.checkpoint()
