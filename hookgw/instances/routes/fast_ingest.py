"""The fast path of ``/ingest/<instance>/<token>``, which a network may call a thousand times a second.

Like :mod:`hookgw.events.emit`, it bypasses Quart. ``tests/api/routes/test_ingest.py`` tests both paths.
"""

from __future__ import annotations

from typing import Any

from hookgw.core.ingest_url import INGEST_PATH
from hookgw.core.this_node import ThisNode
from hookgw.instances.routes.ingest_endpoint import IngestEndpoint
from hookgw.web.auth import INGEST_BELOW_RULE, INGEST_RULE
from hookgw.web.server.errors import response_to
from hookgw.web.server.exchange import Gone, RequestResponse


class FastIngest:
    """Handles requests of networks without Quart."""

    def __init__(self, endpoint: IngestEndpoint, node: ThisNode) -> None:
        self._endpoint = endpoint
        self._node = node

    def matches(self, scope: Any) -> bool:
        path: str = scope["path"]
        if not path.startswith(INGEST_PATH) or scope["method"] not in ("POST", "GET"):
            return False
        # Anything but two or three segments is another route, or none: the ordinary path decides.
        segments = path[len(INGEST_PATH) :].split("/", 3)
        if not (2 <= len(segments) <= 3 and all(segments)):
            return False
        # The ordinary path forwards requests for other nodes, and knows what to say if the lease has ended.
        return self._node.holds(segments[0]) and self._node.may_act()

    async def respond(self, exchange: RequestResponse) -> None:
        scope: Any = exchange.scope
        instance, token, *below = scope["path"][len(INGEST_PATH) :].split("/")
        exchange.route = INGEST_BELOW_RULE if below else INGEST_RULE
        try:
            try:
                answer = await self._endpoint.answer(exchange, None, instance, token, *below)
            except Gone:
                return  # the client left: a response would reach no one
            except Exception as error:  # noqa: BLE001 -- a bug is logged and becomes a 500
                response = response_to(error, scope["method"], INGEST_RULE)  # not the path: it has the token
                await exchange.respond(response.status, response.headers, response.body)
                return
            await exchange.respond(answer.status, answer.headers, answer.body, answer.content_type)
        finally:
            exchange.end()
