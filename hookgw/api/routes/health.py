"""``/healthz``, ``/readyz``, ``/metrics`` and ``/operations``: for those who run hookgw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart import Blueprint, Response

from hookgw.api import responses
from hookgw.api.openapi.describe import Other, describes
from hookgw.api.present import present_secret
from hookgw.api.request_body import json_response
from hookgw.models.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

TAG = "Operation"
READY_PATIENCE = 5.0


class HealthRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("operation", __name__)
        blueprint.add_url_rule("/healthz", view_func=self.healthz)
        blueprint.add_url_rule("/readyz", view_func=self.readyz)
        blueprint.add_url_rule("/metrics", view_func=self.metrics)
        blueprint.add_url_rule("/operations/secret", view_func=self.operations_secret)
        return blueprint

    @describes(TAG, {200: responses.Health})
    async def healthz(self) -> Response:
        """The process lives."""
        return json_response(responses.Health("ok"))

    @describes(TAG, {200: responses.Health}, errors=(503,))
    async def readyz(self) -> Response:
        """The store writes and the lanes run."""
        with trio.move_on_after(READY_PATIENCE):
            await self._gateway.ready()
            return json_response(responses.Health("ready"))
        raise Unavailable(f"The store did not write within {READY_PATIENCE:.0f} seconds.")

    @describes(TAG, {200: Other("text/plain", "In the exposition format of Prometheus.")})
    async def metrics(self) -> Response:
        """The figures, for Prometheus."""
        body, content_type = self._gateway.metrics.render()
        return Response(body, content_type=content_type)

    @describes(TAG, {200: responses.Secret}, errors=(404,))
    async def operations_secret(self) -> Response:
        """What signs operational events."""
        registration = self._gateway.operational.registration
        if registration is None:
            raise NotFound("operations.url is not set in the configuration; set it first.")
        return json_response(present_secret(registration))
