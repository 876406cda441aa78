"""``/event``: events from producers, and the catalog of kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from quart import Response, request

from hookgw.events import responses
from hookgw.events.emit import EMIT_KIND_RULE, EMIT_NEED, EMIT_RULE, EMIT_STATUS, EmitEndpoint
from hookgw.events.erasure_request import parse_erasure
from hookgw.events.schemas import EMIT, EVENT_ID_SCHEMA
from hookgw.records.api_keys import Right
from hookgw.web.body import NDJSON
from hookgw.web.needs import ANY_KEY
from hookgw.web.openapi.describe import Body, Parameter, describes, json_body
from hookgw.web.present import shown
from hookgw.web.request_body import current_exchange, json_response, read_parsed, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.errors import JSON
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_EVENT = {"event": "MESSAGES_UPSERT", "data": {"key": {"remoteJid": "5511988887777@s.whatsapp.net"}}}
# Generated clients have one type for a body, and none for lines.
_EMIT_BODY = Body(
    {JSON: EMIT},
    {"one event": [_EVENT], "a batch": [_EVENT | {"id": "msg_1"}, _EVENT | {"id": "msg_2"}]},
    note=f"A single event may also be sent without the list, and a batch as `{NDJSON}`, one event per line.",
)
_KIND_BODY = Body(
    {JSON: {"description": "The event, its `data`, or a list of either."}},
    {"the event": _EVENT, "its data": _EVENT["data"]},
    note=f"A batch may also be sent as `{NDJSON}`, one event per line.",
)
_DEDUPE = Parameter(
    "dedupe",
    "With `message`, events without an `id` get one from their message: an event that comes again is a "
    "duplicate.",
    # Evolution API appends the kind of the event to the whole URL.
    {"type": "string", "pattern": "^message(/.*)?$"},
)
_ERASE_BODY = json_body("EraseRequest", a_person={"remoteJid": "5511988887777@s.whatsapp.net"})
_IDEMPOTENCY_KEY = Parameter("idempotency-key", "The id of a single event.", EVENT_ID_SCHEMA, "header")


class EventRoutes(RouteGroup):
    def __init__(self, gateway: Gateway, endpoint: EmitEndpoint) -> None:
        self._gateway = gateway
        self._endpoint = endpoint

    @route("POST", EMIT_RULE)
    @describes(
        "Events",
        EMIT_NEED,
        {202: responses.Emitted},
        body=_EMIT_BODY,
        query=(_IDEMPOTENCY_KEY, _DEDUPE),
        errors=(422,),
    )
    async def emit(self, instance: str) -> Response:
        """Accept events; the response comes once they are on disk.

        A batch is accepted whole or not at all.
        """
        return await self._emit(instance, None)

    @route("POST", EMIT_KIND_RULE)
    @describes(
        "Events",
        EMIT_NEED,
        {202: responses.Emitted},
        body=_KIND_BODY,
        query=(_IDEMPOTENCY_KEY, _DEDUPE),
        errors=(422,),
    )
    async def emit_kind(self, instance: str, kind: str) -> Response:
        """Accept events of one kind, as a gateway sends them to a URL with `byEvents`.

        The body is the event, as without the kind, or its `data` alone; or a list of either. What has both
        `event` and `data` is an event.
        """
        return await self._emit(instance, kind)

    async def _emit(self, instance: str, kind: str | None) -> Response:
        # Only if plugins' hooks must see the request, or its path ends in a slash: see EmitEndpoint.respond.
        body = await self._endpoint.emit(current_exchange(), request.body, instance, kind)
        return Response(body, EMIT_STATUS, content_type=JSON)

    @route("POST", "/event/erase/<instance>")
    @describes(
        "Events",
        Right.INSTANCES,
        {200: responses.Erased, 202: responses.Erased},
        body=_ERASE_BODY,
        errors=(409,),
    )
    async def erase(self, instance: str) -> Response:
        """Erase a person's data: events that concern them, with their deliveries and attempts.

        This cannot be undone. If it takes more than 2 s, the status is 202, and the response has its job.
        """
        self._gateway.instances.get(instance)  # 404 comes before any error of the body
        remote_jid = await read_parsed(self._gateway.settings.server.max_body, parse_erasure)
        job = await self._gateway.erasures.erase(instance, remote_jid)
        erased = responses.Erased(
            events=job.events,
            deliveries=job.done,
            job=job.id if job.is_running else UNSET,
            warnings=UNSET if job.warning is None else [job.warning],
        )
        return json_response(erased, 202 if job.is_running else 200)

    @route("GET", "/event/kinds")
    @describes("Events", ANY_KEY, {200: list[responses.Kind]})
    async def kinds(self) -> Response:
        """List the catalog of event kinds."""
        await reserve(LIST)
        kinds = [
            shown(
                responses.Kind,
                kind,
                dotted=kind.dotted_name,
                aliases=list(kind.aliases),
                plugin=kind.plugin or None,
            )
            for kind in self._gateway.catalog
        ]
        return json_response(kinds)
