"""``/event``: what producers hand in, and the catalog of kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import Blueprint, Response, request

from hookgw.api.bodies import json_response
from hookgw.api.emitting import EMITTED, Emitting
from hookgw.api.errors import JSON
from hookgw.api.presenting import present_kind

if TYPE_CHECKING:
    from hookgw.gateway import Gateway

EMIT_PATH = "/event/emit/"
EMIT_RULE = f"{EMIT_PATH}<instance>"


class EventRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway, emitting: Emitting) -> None:
        self._gateway = gateway
        self._emitting = emitting

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("events", __name__)
        blueprint.add_url_rule(EMIT_RULE, view_func=self.emit, methods=["POST"])
        blueprint.add_url_rule("/event/kinds", view_func=self.kinds)
        return blueprint

    async def emit(self, instance: str) -> Response:
        """Accept events; the answer comes once they are on disk. Most requests take :mod:`.shortcut`."""
        body = await self._emitting.emit(instance, request.headers, request.body)
        return Response(body, EMITTED, content_type=JSON)

    async def kinds(self) -> Response:
        """The catalog."""
        return json_response([present_kind(kind) for kind in self._gateway.catalog])
