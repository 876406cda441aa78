"""The client's side of one request, as the application sees it.

ASGI passes messages. A connection can do more: it knows whether all of a body has arrived, and takes a
response in one piece. A short request needs little else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

REQUEST = "hookgw.request"
"""The one key of hookgw's in a request's scope. The server puts its :class:`Client` there, which middleware
passes on, and the application the :class:`~hookgw.web.server.exchange.RequestResponse` in its place."""

Address = tuple[str, int] | None
"""A client's, as in a request's scope (ASGI); ``None`` over a Unix socket, or if it is not known here."""

AGAIN = "again"
"""The note about a head that has an :data:`Again`."""
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


class Client(Protocol):
    """The client's side: a connection, or an object between a connection and the application.

    Attributes:
        address: of the client.
        announced: the announced bytes of the body; ``None`` for a chunked body, or if they are not known.
    """

    address: Address
    announced: int | None

    @property
    def notes(self) -> dict[str, Any]:
        """Facts noted about the head, also by the application.

        A producer sends the same head with each event. Requests with the same head can share their notes, on
        all connections of a server. So a fact must follow from the head alone, not from who sent it, and must
        be checked again if it can change: a key can be revoked.
        """

    async def receive(self) -> Any:
        """Return the next part of the body, or ``http.disconnect`` (ASGI)."""

    def receive_nowait(self) -> bytes | None:
        """Return the rest of the body if all of it has arrived; ``None`` if not, or if it was taken."""

    def is_there(self) -> bool:
        """Return whether the client has not ended its side of the connection, as far as is known."""

    async def send(self, message: Any) -> None:
        """Send the start, or the next part, of the response (ASGI)."""

    async def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response, as two calls of :meth:`send` would."""


Again = Callable[[Client], Awaitable[None] | None]
"""What the application wants to be called instead of itself for further requests with a head. It returns
``None`` if the application must be called after all."""


def client_of(scope: Any, receive: _Receive, send: _Send, *, has_middleware: bool = False) -> Client:
    """Return the client's side of a request (ASGI).

    Args:
        has_middleware: whether a plugin's middleware is around the application. It must see all messages, and
            it may have changed the head.
    """
    client: Client | None = scope.get(REQUEST)
    if client is None or has_middleware:
        return _Messages(None if client is None else client.announced, receive, send)
    return client


class _Messages:
    def __init__(self, announced: int | None, receive: _Receive, send: _Send) -> None:
        self.announced = announced
        self.address: Address = None
        self.notes: dict[str, Any] = {}
        self._receive = receive
        self._send = send

    async def receive(self) -> Any:
        return await self._receive()

    async def send(self, message: Any) -> None:
        await self._send(message)

    def receive_nowait(self) -> bytes | None:
        return None

    def is_there(self) -> bool:
        return True  # its leaving is a message

    async def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})
