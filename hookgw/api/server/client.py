"""The client's side of one request, as the application sees it.

ASGI passes messages. A connection can do more: it knows whether all of a body has arrived, and takes a
response in one piece. That is most of what a short request needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

CONNECTION = "hookgw.connection"
"""The key in a request's scope for its :class:`~hookgw.api.server.connection.Connection`."""

HEAD_NOTES = "hookgw.head_notes"
"""The key in a request's scope for the headers of its head, and for the notes about them."""

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


class Client(Protocol):
    """The client's side: a connection, or what stands between a connection and the application."""

    @property
    def announced(self) -> int | None:
        """The announced bytes of the body; ``None`` for a chunked body, or if they are not known."""

    async def receive(self) -> Any:
        """Return the next part of the body, or ``http.disconnect`` (ASGI)."""

    def receive_nowait(self) -> bytes | None:
        """Return the rest of the body if all of it has arrived; ``None`` if not, or if it was taken."""

    async def send(self, message: Any) -> None:
        """Send the start, or the next part, of the response (ASGI)."""

    async def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response: what two calls of :meth:`send` do."""


def client_of(scope: Any, receive: _Receive, send: _Send) -> Client:
    """Return the client's side of a request that the application is called with (ASGI)."""
    connection: Client | None = scope.get(CONNECTION)
    if connection is not None and receive == connection.receive and send == connection.send:
        return connection
    return _Messages(None if connection is None else connection.announced, receive, send)


def head_notes(scope: Any) -> dict[str, Any]:
    """Return what was noted about a request's headers, to which the caller may add what it finds in them.

    A producer sends the same head with each event. All requests of a connection that follow each other with
    the same head have the same notes.
    """
    headers, notes = scope.get(HEAD_NOTES, (None, {}))
    # By identity: a plugin's middleware may give each request other headers, and then nothing is known.
    return notes if headers is scope["headers"] else {}


class _Messages:
    """Messages alone, of a plugin's middleware around the application, which must see all of them."""

    def __init__(self, announced: int | None, receive: _Receive, send: _Send) -> None:
        self.announced = announced
        self._receive = receive
        self._send = send

    async def receive(self) -> Any:
        return await self._receive()

    async def send(self, message: Any) -> None:
        await self._send(message)

    def receive_nowait(self) -> bytes | None:
        return None

    async def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})
