"""``/event/list`` and ``/event/find``: the log of events, and what became of each."""

from __future__ import annotations

import math
from functools import partial

import msgspec
from msgspec import UNSET
from quart import Response, request

from hookgw.core.access import check_right
from hookgw.deliveries import responses
from hookgw.deliveries.present import present_delivery, present_logged_event
from hookgw.deliveries.requests import INSTANCES, OF_DELIVERY, PERSON
from hookgw.deliveries.routes import asked_selection
from hookgw.deliveries.selection import (
    all_receivers,
    check_label,
    instances_of,
    learn_named,
    one_or_several,
    receiver_ids,
)
from hookgw.events import responses as event_responses
from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import write_time
from hookgw.kernel.schema_parts import MOMENT_SCHEMA
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Right
from hookgw.records.selection import DeliverySelection
from hookgw.store import EventQuery
from hookgw.web.auth import current_principal
from hookgw.web.lists import ShownList, first_of
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, filter_of
from hookgw.web.query import TAGS, page_of, read_limit
from hookgw.web.request_body import json_response, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import LIST

_MOST_TEXT = 256
"""Characters of a text that is looked for."""
ORDERS = ("newest", "oldest")
NOBODY = "No webhook wanted it."

_TAG = "Events"
_ELSEWHERE = ("chat", "sender", "id", "text", "order", "cursor", "limit", TAGS.name)
"""Parameters that are no part of a selection of deliveries."""
_TEXT = {"type": "string", "maxLength": _MOST_TEXT}
_QUERY = (
    *(
        msgspec.structs.replace(one, meaning=f"Only events with such a delivery. {one.meaning}")
        for one in OF_DELIVERY
    ),
    filter_of("events", "Only events of these kinds, separated by commas.", {"type": "string"}),
    msgspec.structs.replace(
        PERSON, meaning="Only events whose `data` names this person, as an erasure finds it."
    ),
    filter_of("kind", "Only events of this kind.", {"$ref": "#/components/schemas/AnyKindName"}),
    filter_of("since", "Only events accepted at this time or later.", MOMENT_SCHEMA),
    filter_of("until", "Only events accepted before this time.", MOMENT_SCHEMA),
    filter_of("chat", "Only events about this chat, by the network's name of it or by a number.", _TEXT),
    filter_of("sender", "Only events by this sender, by the network's name or by a number.", _TEXT),
    filter_of("id", "Only events about the message with this id of the network.", _TEXT),
    filter_of("text", "Only events with this text anywhere in their `data`; case counts.", _TEXT),
    filter_of("order", "Which events come first.", {"enum": [*ORDERS], "default": ORDERS[0]}),
    *page_of("events", format="cursor"),
)


class EventLogRoutes(RouteGroup):
    @route("GET", "/event/list/<instance>")
    @describes(_TAG, Right.READ, {200: event_responses.EventPage}, query=_QUERY, errors=(409,))
    async def list_events(self, instance: str) -> Response:
        """List an instance's events, whether a webhook wanted them or not, page by page.

        The log has all events that were accepted since `from`.
        """
        self._gateway.instances.get(instance)
        selection = asked_selection(self._gateway, over_all=False, elsewhere=_ELSEWHERE)
        check_label(self._gateway.registry, instance, selection)
        return await self._list(self._read_query(selection, instance, None))

    @route("GET", "/event/list")
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
        selection = asked_selection(self._gateway, over_all=True, elsewhere=_ELSEWHERE)
        await reserve(LIST)  # before the names: their instances may change while this waits
        await learn_named(self._gateway.refresh, self._gateway.registry, current_principal(), selection)
        names = instances_of(self._gateway.registry, current_principal(), selection)
        query = self._read_query(selection, *one_or_several(names))
        if query.instance is None:
            found = await all_receivers(self._gateway.registry, current_principal(), selection)
            query = msgspec.structs.replace(query, registrations=found)
        return await self._list(query)

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

    def _read_query(
        self, selection: DeliverySelection, instance: str | None, among: tuple[str, ...] | None
    ) -> EventQuery:
        given = {name: value for name, value in request.args.items() if value}  # empty means left out
        order = given.get("order", ORDERS[0])
        if order not in ORDERS:
            raise Invalid.of(
                "query.order",
                "order must be one of {choices}, not {order!r}.",
                choices=", ".join(ORDERS),
                order=order[:64],
            )
        for name in ("chat", "sender", "id", "text"):
            if name in given:  # matches tell what is in the data
                check_right(current_principal(), Right.PAYLOADS)
            if len(given.get(name, "")) > _MOST_TEXT:
                raise Invalid.of(
                    "query.text_too_long",
                    "{name} must have at most {most} characters.",
                    name=name,
                    most=_MOST_TEXT,
                )
        found = None if instance is None else receiver_ids(self._gateway.registry, instance, selection)
        return EventQuery(
            instance=instance,
            among=among,
            kinds=selection.kinds,
            chat=given.get("chat"),
            sender=given.get("sender"),
            message=given.get("id"),
            text=given.get("text"),
            person=selection.person,
            delivery=selection.apart(),
            registrations=found,
            since=selection.since,
            until=selection.until,
            is_oldest_first=order == "oldest",
            cursor=given.get("cursor"),  # opaque: the store refuses a cursor that it did not issue
            limit=read_limit(given),
        )

    @route("GET", "/event/find/<instance>/<event_id>")
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
