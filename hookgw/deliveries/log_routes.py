"""``/event/list`` and ``/event/find``: the log of events, and what became of each."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET
from quart import Blueprint, Response, request

from hookgw.core.access import check_right
from hookgw.deliveries import responses
from hookgw.deliveries.present import present_delivery, present_logged_event
from hookgw.deliveries.requests import INSTANCES, parse_instances
from hookgw.deliveries.selection import instances_of
from hookgw.events import responses as event_responses
from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import write_time
from hookgw.kernel.schema_parts import TIME_SCHEMA
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Right
from hookgw.records.selection import DeliverySelection
from hookgw.store import EventQuery
from hookgw.web.auth import current_principal
from hookgw.web.lists import ShownList, first_of
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import Parameter, describes
from hookgw.web.query import TAGS, read_limit, read_tags, read_times
from hookgw.web.request_body import json_response, reserve
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
_MOST_TEXT = 256
"""Characters of a text that is looked for."""
ORDERS = ("newest", "oldest")
NOBODY = "No webhook wanted it."

_TAG = "Events"
_filter = partial(Parameter, place="query", may_be_empty=True)
_TEXT = {"type": "string", "maxLength": _MOST_TEXT}
_QUERY = (
    _filter("kind", "Only events of this kind.", {"$ref": "#/components/schemas/AnyKindName"}),
    _filter("since", "Only events accepted at this time or later.", TIME_SCHEMA),
    _filter("until", "Only events accepted before this time.", TIME_SCHEMA),
    _filter("chat", "Only events about this chat, by the network's name of it or by a number.", _TEXT),
    _filter("sender", "Only events by this sender, by the network's name or by a number.", _TEXT),
    _filter("id", "Only events about the message with this id of the network.", _TEXT),
    _filter("text", "Only events with this text anywhere in their `data`; case counts.", _TEXT),
    _filter("order", "Which events come first.", {"enum": [*ORDERS], "default": ORDERS[0]}),
    _filter("cursor", "The `cursor` of the previous page.", {"type": "string", "format": "cursor"}),
    _filter(
        "limit",
        "The most events on a page.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    ),
)


class EventLogRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("event_log", __name__)
        blueprint.add_url_rule("/event/list/<instance>", view_func=self.list_events)
        blueprint.add_url_rule("/event/list", view_func=self.list_all)
        blueprint.add_url_rule("/event/find/<instance>/<event_id>", view_func=self.find)
        return blueprint

    @describes(_TAG, Right.READ, {200: event_responses.EventPage}, query=_QUERY, errors=(409,))
    async def list_events(self, instance: str) -> Response:
        """List an instance's events, whether a webhook wanted them or not, page by page.

        The log has all events that were accepted since `from`.
        """
        self._gateway.instances.get(instance)
        return await self._list(self._read_query(instance, None))

    @describes(
        _TAG,
        within_reach(Right.READ),
        {200: event_responses.EventPage},
        query=(INSTANCES, TAGS, *_QUERY),
        errors=(403, 404, 409),
    )
    async def list_all(self) -> Response:
        """List the events of several instances in their common order, page by page.

        A global key sees those of all instances, and an instance's key those of its own. `from` is the time
        since which the logs of all of them are complete. It reads the events one by one, whatever the
        filters: a page may end early.
        """
        selection = DeliverySelection(
            instances=parse_instances(request.args.get("instances")), tags=read_tags()
        )
        names = instances_of(self._gateway.registry, current_principal(), selection)
        if names is not None and len(names) == 1:
            return await self._list(self._read_query(names[0], None))
        return await self._list(self._read_query(None, names))

    async def _list(self, query: EventQuery) -> Response:
        await reserve(LIST)
        page = await self._gateway.history.list_events(query, is_tenant=not current_principal().is_global)
        shown = ShownList()
        present = partial(present_logged_event, shows_data=current_principal().rights.has(Right.PAYLOADS))
        await shown.add(page.events, lambda one: present(one.event, one.accepted_at))
        return json_response(
            event_responses.EventPage(
                events=shown.entries,
                cursor=page.cursor,
                # Not rounded down: what was accepted before may be gone.
                from_=rfc3339(math.ceil(page.begins_at * 1000) / 1000),
                indexed_until=write_time(page.reached) or UNSET,
                searched_until=write_time(page.searched) or UNSET,
            )
        )

    def _read_query(self, instance: str | None, among: tuple[str, ...] | None) -> EventQuery:
        given = {name: value for name, value in request.args.items() if value}  # empty means left out
        order = given.get("order", ORDERS[0])
        if order not in ORDERS:
            raise Invalid(f"order must be one of {', '.join(ORDERS)}, not {order[:64]!r}.")
        for name in ("chat", "sender", "id", "text"):
            if name in given:  # matches tell what is in the data
                check_right(current_principal(), Right.PAYLOADS)
            if len(given.get(name, "")) > _MOST_TEXT:
                raise Invalid(f"{name} must have at most {_MOST_TEXT} characters.")
        kind, times = given.get("kind"), read_times(given)
        return EventQuery(
            instance=instance,
            among=among,
            kinds=(self._gateway.catalog.resolve(kind, "kind").name,) if kind is not None else (),
            chat=given.get("chat"),
            sender=given.get("sender"),
            message=given.get("id"),
            text=given.get("text"),
            since=times.get("since"),
            until=times.get("until"),
            is_oldest_first=order == "oldest",
            cursor=given.get("cursor"),  # opaque: the store refuses a cursor that it did not issue
            limit=read_limit(given, DEFAULT_LIMIT, MAX_LIMIT),
        )

    @describes(_TAG, Right.READ, {200: responses.EventReport})
    async def find(self, instance: str, event_id: str) -> Response:
        """Return one event by its id, with the deliveries that it made."""
        self._gateway.instances.get(instance)
        without_global = not current_principal().is_global
        await reserve(LIST)
        report = await self._gateway.history.find_event(instance, event_id, without_global=without_global)
        registrations = {one.id: one for one in self._gateway.registrations.of_instance(instance)}
        deliveries = await first_of(
            report.deliveries, lambda one: present_delivery(one, registrations.get(one.registration))
        )
        return json_response(
            responses.EventReport(
                event=present_logged_event(
                    report.event,
                    report.accepted_at,
                    shows_data=current_principal().rights.has(Right.PAYLOADS),
                ),
                deliveries=deliveries,
                note=UNSET if deliveries else NOBODY,
            )
        )
