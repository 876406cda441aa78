"""``/event``: what producers hand in, and the catalog of kinds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from quart import Blueprint, Response, request

from hookgw.api.bodies import LINES, content_type, json_response, read_body
from hookgw.api.errors import JSON
from hookgw.api.presenting import present_kind
from hookgw.dialects import Batch, EmitLimits, parse_events

if TYPE_CHECKING:
    from hookgw.gateway import Gateway

_LONG_BODY = 256 * 1024
"""Bytes from which a body is read in a thread, so that other requests go on meanwhile."""


class EventRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        server = gateway.settings.server
        self._limit = max(server.max_body, server.max_batch_body)
        self._limits = EmitLimits(
            max_data=gateway.settings.events.max_data,
            max_single=server.max_body,
            max_events=server.max_batch_events,
        )
        self._threads = trio.CapacityLimiter(1)

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("events", __name__, url_prefix="/event")
        blueprint.add_url_rule("/emit/<instance>", view_func=self.emit, methods=["POST"])
        blueprint.add_url_rule("/kinds", view_func=self.kinds)
        return blueprint

    async def emit(self, instance: str) -> Response:
        """Accept events; the answer comes once they are on disk."""
        self._gateway.instance(instance)
        lines = content_type(JSON, LINES) == LINES
        batch = await self._parse(await read_body(self._limit), instance, lines)
        receipt = await self._gateway.accept(batch.events)
        accepted = sum(receipt.fresh)
        answer: dict[str, Any] = {
            "accepted": accepted,
            "duplicates": len(receipt.fresh) - accepted,
            "ids": [event.id for event in batch.events],
        }
        if batch.warnings or receipt.warnings:
            answer["warnings"] = [*batch.warnings, *receipt.warnings]
        return json_response(answer, 202)

    async def _parse(self, body: bytes, instance: str, lines: bool) -> Batch:
        parse = partial(
            parse_events,
            body,
            instance,
            self._gateway.catalog,
            now=self._gateway.clock.wall(),
            lines=lines,
            key=request.headers.get("idempotency-key"),
            limits=self._limits,
        )
        if len(body) < _LONG_BODY:
            return parse()
        return await trio.to_thread.run_sync(parse, limiter=self._threads)

    async def kinds(self) -> Response:
        """The catalog."""
        return json_response([present_kind(kind) for kind in self._gateway.catalog])
