"""The short way of the one request that comes thousands of times a second.

``POST /event/emit/<instance>`` is answered here without Quart's request and its tasks, which cost more
than all the rest. What is taken and answered is in :mod:`hookgw.api.routes.emit`, :mod:`hookgw.api.auth`
and :mod:`hookgw.api.server.errors`, as for every route: here it is only read and written. Whatever is not
plainly such a request goes to the route of the same path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hookgw.api.auth import ROUTE, authenticate, check_reach
from hookgw.api.routes.emit import EMITTED, Emitter
from hookgw.api.routes.events import EMIT_PATH, EMIT_RULE
from hookgw.api.server.errors import JsonResponse, response_to
from hookgw.api.server.exchange import Gone, RequestResponse

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway


class FastEmit:
    """Answers emits.

    Args:
        gateway: whose keys count.
        emitting: what takes the events.
    """

    def __init__(self, gateway: Gateway, emitting: Emitter) -> None:
        self._gateway = gateway
        self._emitting = emitting

    def matches(self, scope: Any) -> bool:
        """Whether a request is for here; the path in its scope is the one below the base path."""
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(EMIT_PATH):
            return False
        return len(path) > len(EMIT_PATH) and path.find("/", len(EMIT_PATH)) < 0

    async def respond(self, exchange: RequestResponse) -> None:
        """JsonResponse a request."""
        scope: Any = exchange.scope
        scope[ROUTE] = EMIT_RULE
        headers = FirstHeaders(scope["headers"])
        try:
            instance = scope["path"][len(EMIT_PATH) :]
            check_reach(authenticate(self._gateway, headers, scope).principal, instance)
            body = await self._emitting.emit(instance, headers, exchange.chunks())
            answer = JsonResponse(EMITTED, body)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 -- a bug is logged, and answered with 500
            answer = response_to(error, scope["method"], scope["path"])
        await exchange.respond(answer.status, answer.headers, answer.body)


class FirstHeaders:
    """A request's headers as the server has them; of several of one name the first counts, as in Quart."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[bytes, bytes] = {}
        for name, value in headers:
            self._values.setdefault(name.lower(), value)

    def get(self, name: str, /) -> str | None:
        """The first header of that name; ``None`` where there is none."""
        value = self._values.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")
