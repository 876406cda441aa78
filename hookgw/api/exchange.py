"""One HTTP exchange, between the server and the application: what must hold whatever a route does.

Every answer carries the version. The end of an answer is sent also where the request's task is
cancelled by it: otherwise the server would never count the connection as idle. A body is
read up to a limit, and where it goes on beyond an answer, that is read off and dropped for a while, and
the connection closed: were it closed at once, the client could lose the answer to a reset (RFC 9112,
section 9.6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope

from hookgw._version import __version__
from hookgw.api.errors import JSON, error_body
from hookgw.errors import TooLarge
from hookgw.units import Size

VERSION_HEADER = (b"x-hookgw-version", __version__.encode())
LINGER = 5.0
"""How long what is left of a body is read off, in seconds."""

PATIENCE = 30.0
"""How long the server may take over the end of an answer, in seconds."""

_CLOSE = (b"connection", b"close")

Application = Callable[[Any, Any, Any], Awaitable[None]]


class _Gone(Exception):
    """The client went away: ends the application's tasks."""


class Exchange:
    """One request and its answer.

    Args:
        scope, receive, send: the server's side (ASGI).
        limit: bytes of body after which reading raises.
        answered: called with the answer's status.
    """

    def __init__(
        self,
        scope: HTTPScope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        limit: int,
        answered: Callable[[HTTPScope, int], None],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._answered = answered
        self._received = 0
        self._is_started = False
        self._is_ending = False
        self._is_answered = False
        self._drops = False
        self._read = trio.Event()

    async def run(self, application: Application) -> None:
        """Let the application answer. Returns early where the client goes away."""
        try:
            await application(self._scope, self.receive, self.send)
        except* _Gone:
            pass
        except* TooLarge:
            await self._refuse(self._too_large())

    async def receive(self) -> Any:
        """The next part of the body."""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                if not self._is_answered:
                    raise _Gone
                return message
            self._received += len(message.get("body", b""))
            if not message.get("more_body", False):
                self._read.set()
            elif self._drops:
                continue
            if self._received > self._limit and not self._is_started:
                raise self._too_large()
            return message

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body may have at most {Size(self._limit)}.")

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
        self._answered(self._scope, message["status"])
        headers = [*message["headers"], VERSION_HEADER]
        if self._goes_on():
            self._drops = self._received > self._limit
            if self._is_short():
                await self._read_off()
            if not self._read.is_set():
                headers.append(_CLOSE)
        return {**message, "headers": headers}

    def _goes_on(self) -> bool:
        """Whether there is more of the request's body to come. HTTP/2 has its own way to say enough."""
        return not self._read.is_set() and self._scope["http_version"] != "2" and self._declares_body()

    def _declares_body(self) -> bool:
        names = (b"content-length", b"transfer-encoding")
        return any(name.lower() in names for name, _ in self._scope["headers"])

    def _is_short(self) -> bool:
        """Whether the body says of itself that it is within the limit: then the connection can live on."""
        lengths = [value for name, value in self._scope["headers"] if name.lower() == b"content-length"]
        return bool(lengths) and int(lengths[0]) <= self._limit

    async def _read_off(self) -> None:
        """Drop the rest of the body. Whoever reads the body reads on, and is given none of it."""
        self._drops = True
        with trio.move_on_after(LINGER):
            await self._read.wait()

    async def _refuse(self, error: TooLarge) -> None:
        """Answer in the application's place, or end the answer that it had just given itself."""
        body = b""
        if not self._is_started:
            body = error_body(413, error.messages)
            self._is_started = True
            self._answered(self._scope, 413)
            headers = [*answer_headers(body), _CLOSE]
            await self._send({"type": "http.response.start", "status": 413, "headers": headers})
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


def answer_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of an answer in JSON."""
    length = str(len(body)).encode()
    return [(b"content-type", JSON.encode()), (b"content-length", length), VERSION_HEADER]


async def refuse_websocket(send: ASGISendCallable) -> None:
    """Answer a WebSocket handshake: there is none here."""
    body = error_body(400, ["hookgw does not speak WebSocket: send a plain HTTP request."])
    headers = [*answer_headers(body), _CLOSE]
    await send({"type": "websocket.http.response.start", "status": 400, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
