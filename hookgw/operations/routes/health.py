"""``/healthz``, ``/readyz``, ``/metrics`` and ``/operations``: for operators."""

from __future__ import annotations

import trio
from quart import Response

from hookgw.kernel.errors import NotFound, Unavailable
from hookgw.records.api_keys import Right
from hookgw.web import responses as common
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import NotJson, describes
from hookgw.web.request_body import json_response
from hookgw.web.route_group import RouteGroup, route
from hookgw.webhooks import responses as webhook_responses
from hookgw.webhooks.responses import present_secret

_TAG = "Operation"
READY_TIMEOUT = 4.0
"""Seconds that the store may take for a test write. The answer is promised within 5 s."""


class HealthRoutes(RouteGroup):
    @route("GET", "/healthz")
    @describes(_TAG, OPEN, {200: common.Health})
    async def healthz(self) -> Response:
        """Report that the process is alive."""
        return json_response(common.Health("ok"))

    @route("GET", "/readyz")
    @describes(_TAG, OPEN, {200: common.Health}, errors=(503,))
    async def readyz(self) -> Response:
        """Report whether the store accepts writes and the lanes run; in a fleet, also who holds what."""
        # A disk that hangs does not raise; without a timeout the probe would hang with it.
        with trio.move_on_after(READY_TIMEOUT):
            await self._gateway.ready()
            node = self._gateway.node
            if not node.is_shared:
                return json_response(common.Health("ready"))
            shards = {one.name: count for one, count in node.view.counted()}
            return json_response(common.Health("ready", node.name, shards))
        raise Unavailable.of(
            "storage.slow", "The store did not write within {seconds:.0f} seconds.", seconds=READY_TIMEOUT
        )

    @route("GET", "/metrics")
    @describes(_TAG, Right.READ, {200: NotJson("text/plain", "Metrics in Prometheus's text format.")})
    async def metrics(self) -> Response:
        """Return metrics for Prometheus."""
        body, content_type = await self._gateway.metrics.render_in_slices()
        return Response(body, content_type=content_type)

    @route("GET", "/operations/secret")
    @describes(_TAG, Right.OPERATE, {200: webhook_responses.Secret}, errors=(404,))
    async def operations_secret(self) -> Response:
        """Return the secret that signs operational events."""
        registration = self._gateway.operational.registration
        if registration is None:
            raise NotFound.of(
                "operations.no_url", "operations.url is not set in the configuration; set it first."
            )
        return json_response(present_secret(registration))
