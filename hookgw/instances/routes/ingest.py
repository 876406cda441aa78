"""``/ingest/<instance>/<token>``, and paths below it: requests of networks to instances, without a key."""

from __future__ import annotations

from quart import Response, request

from hookgw.instances.routes.ingest_endpoint import IngestEndpoint
from hookgw.web.auth import INGEST_BELOW_RULE, INGEST_RULE
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import BYTES, Body, NotJson, describes
from hookgw.web.request_body import current_exchange
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_head import BODILESS

_ANSWER = NotJson("*/*", "The answer of the connector.")
_BODY = {"type": "string", "format": "binary", "description": "What the network sends."}
_ERRORS = (401, 404, 413, 415, 501, 503)  # of a GET, too, which may have a body


class IngestRoutes(RouteGroup):
    def __init__(self, endpoint: IngestEndpoint) -> None:
        self._endpoint = endpoint

    @route("GET", INGEST_RULE, INGEST_BELOW_RULE)
    @describes("Networks", OPEN, {200: _ANSWER}, errors=_ERRORS, other=_ANSWER)
    async def get(self, instance: str, token: str, below: str = "") -> Response:
        """Pass a request of the network, such as the check of a new URL, to the instance's connector.

        The token is the key. A wrong token and an unknown instance get the same 404. Every failure that may
        pass gets 503.
        """
        return await self._respond(instance, token, below)

    @route("POST", INGEST_RULE, INGEST_BELOW_RULE)
    @describes(
        "Networks",
        OPEN,
        {200: _ANSWER},
        body=Body({BYTES: _BODY}, required=False, note="What the network sends, with any content type."),
        errors=_ERRORS,
        other=_ANSWER,
    )
    async def post(self, instance: str, token: str, below: str = "") -> Response:
        """Pass a request of the network to the instance's connector; respond once its events are on disk.

        The token is the key. A wrong token and an unknown instance get the same 404. Every failure that may
        pass gets 503.
        """
        return await self._respond(instance, token, below)

    async def _respond(self, instance: str, token: str, below: str) -> Response:
        answer = await self._endpoint.answer(current_exchange(), request.body, instance, token, below)
        response = Response(
            answer.body, answer.status, dict(answer.headers), content_type=answer.content_type
        )
        if answer.status in BODILESS:
            del response.headers["content-type"], response.headers["content-length"]
        return response
