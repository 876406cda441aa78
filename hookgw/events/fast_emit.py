"""The fast path of ``POST /event/emit/<instance>``, the one request that comes thousands of times a second.

It bypasses Quart's request object and tasks, which cost more than everything else in the request. All rules
are shared with the ordinary route: :mod:`hookgw.events.emit`, :mod:`hookgw.web.auth` and
:mod:`hookgw.web.server.errors`. A request that is not plainly an emit takes the ordinary route, and
``tests/api/test_fast_emit.py`` compares the responses of both, byte by byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookgw.events.emit import EMIT_NEED, EMIT_PATH, EMIT_RULE, EMIT_STATUS, EmitEndpoint
from hookgw.web.auth import authenticate, check_need, check_reach_again, learn_key
from hookgw.web.first_headers import FirstHeaders
from hookgw.web.server.errors import JsonResponse, response_to
from hookgw.web.server.exchange import Gone, RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway


_HEADERS = "headers"
"""The note about a head that has its headers."""


class FastEmit:
    def __init__(self, gateway: Gateway, endpoint: EmitEndpoint) -> None:
        self._gateway = gateway
        self._endpoint = endpoint

    def matches(self, scope: Any) -> bool:
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(EMIT_PATH):
            return False
        # A further segment, or an empty name, is another route: the ordinary path decides.
        return len(path) > len(EMIT_PATH) and path.find("/", len(EMIT_PATH)) < 0

    async def respond(self, exchange: RequestResponse) -> None:
        scope: Any = exchange.scope
        exchange.route = EMIT_RULE  # metrics count both paths as one route
        notes = exchange.notes
        headers = notes.get(_HEADERS) or notes.setdefault(_HEADERS, FirstHeaders(scope["headers"]))
        try:
            instance = scope["path"][len(EMIT_PATH) :]
            await learn_key(self._gateway, exchange)
            # 401 and 403 before the body is read, as on the ordinary path.
            holder = authenticate(self._gateway, exchange)
            check_need(self._gateway.registry, holder.principal, EMIT_NEED, {"instance": instance})
            check_reach_again(self._gateway, exchange, holder, instance)
            body = await self._endpoint.emit(instance, headers, None, exchange)
            response = JsonResponse(EMIT_STATUS, body)
        except Gone:  # the client left: a response would reach no one
            raise
        except Exception as error:  # noqa: BLE001 -- a bug is logged and becomes a 500
            is_evolution = self._gateway.settings.server.is_evolution
            response = response_to(error, scope["method"], scope["path"], is_evolution=is_evolution)
        await exchange.respond(response.status, response.headers, response.body)
