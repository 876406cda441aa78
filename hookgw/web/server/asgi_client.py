"""A request that another ASGI server has read: hypercorn's, with HTTP/2.

The application asks a :class:`~hookgw.web.server.connection.ClientConnection` for more than ASGI has. Here it
gets the same from messages:

- HTTP/2 announces no body, and each part of hookgw asks the head of HTTP/1.1 whether there is one. So a
  request without a length waits for its first message, and one with a body gets the header that says so.
- A response ends only when the body of its request has ended, or the client has left. Over HTTP/1.1,
  hypercorn closes a connection with unread bytes, and the client loses the response to a reset. Over HTTP/2,
  a part of a body that arrives after the end of the response ends hypercorn's process.
- A response that breaks off does not end over HTTP/2. If its length was announced, it ends too short, which
  tells the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
import trio

from hookgw.web.server.client import REQUEST
from hookgw.web.server.connection import Application
from hookgw.web.server.errors import BUG, JSON, error_body
from hookgw.web.server.response_head import FIXED, FIXED_OVER_TLS, response_fields

logger = structlog.get_logger("hookgw.api")

_CHUNKED = (b"transfer-encoding", b"chunked")
_LEFT = {"type": "http.disconnect"}


class AsgiClient:
    """A :class:`~hookgw.web.server.client.Client` over ASGI messages."""

    def __init__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        self.announced: int | None = None
        self.notes: dict[str, Any] = {}
        self._scope = scope
        self._receive = receive
        self._send = send
        self._first: Any = None
        # Two tasks of an application may receive, and the end of a response reads the rest as well.
        self._reading = trio.Lock()
        self._has_all = self._has_left = False
        self._is_started = self._is_finished = False
        self._has_length = False

    async def run(self, application: Application) -> None:
        headers = list(self._scope["headers"])
        length = next((value for name, value in headers if name == b"content-length"), None)
        if length is not None:
            self.announced = int(length)  # the server has compared it with the body, or will
        elif _CHUNKED[0] not in (name for name, _ in headers):
            self._first = await self._next()
            if self._has_all and not self._first["body"]:
                self.announced = 0
            else:
                headers.append(_CHUNKED)
        if self._has_left:
            return
        scope = {
            **self._scope,
            "headers": headers,
            "root_path": "",  # the path has it; server.base_path says which part of the path that is
            "extensions": {},
            REQUEST: self,
        }
        try:
            await application(scope, self.receive, self.send)
        except (Exception, BaseExceptionGroup) as error:
            ends = (trio.Cancelled, KeyboardInterrupt)
            if isinstance(error, BaseExceptionGroup) and error.split(ends)[1] is None:
                raise
            logger.exception("request failed", method=self._scope["method"])
        if self._has_left or self._is_finished:
            return
        if not self._is_started:
            body = error_body(500, [BUG])
            await self.respond(
                500, [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))], body
            )
            return
        await self._wait_end()
        if self._has_length and not self._scope["http_version"].startswith("1"):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def receive(self) -> Any:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return _LEFT if self._is_finished else await self._next()

    def receive_nowait(self) -> bytes | None:
        """Return ``None``: only the messages tell whether all of a body has arrived."""
        return None

    def is_there(self) -> bool:
        """Return whether the client has not left, as far as is known."""
        return not self._has_left

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            fixed = FIXED_OVER_TLS if self._scope["scheme"] == "https" else FIXED
            headers = response_fields(message["headers"], fixed)
            self._has_length = any(name == b"content-length" for name, _ in headers)
            self._is_started = True
            await self._send({**message, "headers": headers})
        elif message.get("more_body", False):
            await self._send(message)
        else:
            if not (self._has_all or self._has_left):
                await self._send({**message, "more_body": True})
                await self._wait_end()
                message = {**message, "body": b""}
            await self._send(message)
            self._is_finished = True

    async def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def _wait_end(self) -> None:
        """Read and drop the rest of the body."""
        # Without a time limit: with one, a client that waits for it could end hypercorn's process.
        while not (self._has_all or self._has_left):
            async with self._reading:
                # Another task may have read the end meanwhile; after that, only the client's leaving comes.
                if not self._has_all:
                    await self._read()

    async def _next(self) -> Any:
        async with self._reading:
            return await self._read()

    async def _read(self) -> Any:
        if self._has_left:
            return _LEFT
        message = await self._receive()
        if message["type"] != "http.request":
            self._has_left = True
            return _LEFT
        has_more = message.get("more_body", False)
        self._has_all = self._has_all or not has_more
        return {"type": "http.request", "body": message.get("body", b""), "more_body": has_more}
