"""``/delivery`` and ``/lane``: deliveries, replays, and the state of lanes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from quart import Response, request

from hookgw.core.access import check_right, names_within
from hookgw.deliveries import responses
from hookgw.deliveries.dry_run import Counted
from hookgw.deliveries.present import present_delivery, present_of_any, present_report
from hookgw.deliveries.requests import (
    INSTANCES,
    OF_DELIVERY,
    OF_EVENT,
    Asked,
    parse_cancellation,
    parse_list,
    parse_replay,
    parse_resend,
)
from hookgw.deliveries.selection import (
    check_label,
    check_names,
    learn_named,
    limited,
    limited_to,
    query_of,
    receiver_ids,
    selected,
)
from hookgw.records.api_keys import Right
from hookgw.records.jobs import Job
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration
from hookgw.records.selection import DeliverySelection
from hookgw.store import DeliveryQuery, DeliverySummary
from hookgw.web.auth import current_holder, current_principal
from hookgw.web.forwarding import forward_call
from hookgw.web.lists import (
    CURSOR_HEADER,
    CURSOR_QUERY,
    SILENT_HEADER,
    ShownList,
    array,
    first_of,
    name_silent,
)
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, filter_of, json_body
from hookgw.web.query import TAGS, page_of, read_limit, read_tags
from hookgw.web.request_body import json_response, read_optional_json, read_parsed, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import ENTRY, LIST
from hookgw.webhooks import lane_responses
from hookgw.webhooks.lane_responses import present_attempt, present_lane

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

Parse = Callable[..., Asked]
Count = Callable[..., Awaitable[Counted]]
Done = responses.Replayed | responses.Cancelled
Show = Callable[[Job | None], tuple[Done, int]]
"""Makes the answer, and its status, of the job that replays or cancels; ``None`` for no deliveries."""

_READ_AT_ONCE = 100
"""Deliveries that are read at once: a thousand may have 25 MB, most of which a page has no room for."""

_TAG = "Deliveries"
_ELSEWHERE = ("cursor", "limit", TAGS.name)
"""Parameters that are no part of a selection."""
_SELECTION = (
    *OF_DELIVERY,
    filter_of("events", "Only deliveries of these event kinds, separated by commas.", {"type": "string"}),
    filter_of("kind", "Only deliveries of this event kind.", {"$ref": "#/components/schemas/AnyKindName"}),
    *OF_EVENT,
    *page_of("deliveries", format="cursor"),
)
_REPLAY_BODY = json_body(
    "ReplayRequest",
    the_dead_letters_of_two_hours={"since": "2h"},
    everything_in_a_period={
        "since": "2026-11-20T12:00:00Z",
        "until": "2026-11-20T13:00:00Z",
        "state": "all",
        "kinds": ["MESSAGES_UPSERT"],
    },
)
_RESEND_BODY = json_body(
    "ResendRequest",
    required=False,
    as_it_was={},
    with_other_data={"data": {"text": "corrected"}},
    once_to_another_url={"url": "https://inspect.example.com/hook"},
)
_REPLAY_ALL_BODY = json_body(
    "ReplayAllRequest",
    how_many_of_some_instances={"instances": ["loja*"], "since": "2h", "dryRun": True},
    those_of_a_tenant={"tags": {"tenant": "acme"}, "since": "2h"},
    what_a_receiver_refused={"host": "crm.example.com", "status": "5xx", "since": "2h"},
    since_a_delivery_failed={"failedSince": "dlv_17", "label": "crm"},
)
_CANCEL_ALL_BODY = json_body(
    "CancelAllRequest",
    what_waits_for_a_receiver={"host": "crm.example.com"},
    how_many_of_some_instances={"instances": ["loja*"], "dryRun": True},
)
_CANCEL_BODY = json_body(
    "CancelRequest",
    older_than_an_hour={"until": "1h"},
    how_many_of_some_kinds={"kinds": ["MESSAGES_UPSERT"], "dryRun": True},
)


class DeliveryRoutes(RouteGroup):
    @route("GET", "/delivery/list/<instance>")
    @describes(_TAG, Right.READ, {200: responses.DeliveryPage}, query=_SELECTION)
    async def list_deliveries(self, instance: str) -> Response:
        """List an instance's deliveries, the newest first, page by page."""
        self._gateway.instances.get(instance)
        selection = asked_selection(self._gateway, over_all=False)
        await learn_named(
            self._gateway.refresh, self._gateway.registry, current_principal(), selection, instance
        )
        check_label(self._gateway.registry, instance, selection)
        found = receiver_ids(self._gateway.registry, instance, selection)
        query = DeliveryQuery(
            **msgspec.structs.asdict(selection), instance=instance, registrations=found, **_page()
        )
        return await self._list(query, self._registrations(instance).get)

    @route("GET", "/delivery/list")
    @describes(
        _TAG,
        within_reach(Right.READ),
        {200: responses.DeliveryOfAnyPage},
        query=(INSTANCES, TAGS, *_SELECTION),
        errors=(403, 404),
    )
    async def list_all(self) -> Response:
        """List the deliveries of several instances, the newest first, page by page.

        A global key sees those of all instances, and an instance's key those of its own.
        """
        selection, principal = asked_selection(self._gateway, over_all=True), current_principal()
        page = _page()
        # Before the names: their instances may change while this waits.
        await reserve(min(LIST, page["limit"] * ENTRY))
        await learn_named(self._gateway.refresh, self._gateway.registry, principal, selection)
        query = await query_of(self._gateway.registry, principal, selection, **page)
        if query is None:
            return json_response(responses.DeliveryOfAnyPage(deliveries=[], cursor=None))
        return await self._list(query, self._gateway.registry.registration, names_instances=True)

    async def _list(
        self,
        query: DeliveryQuery,
        registration_of: Callable[[str], Registration | None],
        *,
        names_instances: bool = False,
    ) -> Response:
        def present(one: DeliverySummary) -> responses.Delivery:
            shown = present_delivery(one, registration_of(one.registration))
            return present_of_any(shown, one.instance) if names_instances else shown

        await reserve(min(LIST, query.limit * ENTRY))
        shown, left, cursor = ShownList(), query.limit, query.cursor
        while True:
            part = msgspec.structs.replace(query, cursor=cursor, limit=min(left, _READ_AT_ONCE))
            page = await self._gateway.history.list(part)
            count = await shown.add(page.deliveries, present)
            left -= count
            if count < len(page.deliveries):
                cursor = page.deliveries[count - 1].cursor if count else cursor
                break
            cursor = page.cursor
            # A page that is shorter than asked for ends a search that has taken long.
            if cursor is None or not left or count < part.limit:
                break
        return json_response(responses.DeliveryPage(deliveries=shown.entries, cursor=cursor))

    @route("GET", "/delivery/find/<instance>/<name>")
    @describes(_TAG, Right.READ, {200: responses.Report})
    async def find(self, instance: str, name: str) -> Response:
        """Return one delivery with every attempt, by its own id or its event's id."""
        instance_id = self._gateway.instances.get(instance).id
        without_global = not current_principal().is_global
        await reserve(LIST)
        report = await self._gateway.history.find(instance, name, without_global=without_global)
        registration = self._registrations(instance).get(report.summary.registration)
        gateway = self._gateway
        newest = await first_of(reversed(report.attempts), present_attempt)
        return json_response(
            present_report(
                report,
                newest[::-1],
                registration,
                instance_id,
                gateway.catalog,
                gateway.hooks.secret_options,
                shows_data=current_principal().rights.has(Right.PAYLOADS),
            )
        )

    @route("POST", "/delivery/resend/<instance>/<name>")
    @describes(
        _TAG,
        Right.REPLAY,
        {200: lane_responses.Attempt, 202: responses.Delivery},
        body=_RESEND_BODY,
        errors=(409,),
    )
    async def resend(self, instance: str, name: str) -> Response:
        """Send a delivery again, at the end of its lane.

        With `data`, a new event with that data is sent instead, to the same registration only; its id is made
        from the former id, which the header `x-edited-from` names. With `url`, the event is sent there, once,
        now, and outside the lane; the response is the attempt.
        """
        without_global = not current_principal().is_global
        asked = parse_resend(await read_optional_json(self._limit))
        if asked.url is not None:  # its owner sees the payload
            check_right(current_principal(), Right.PAYLOADS)
        if asked.data_json is not None:
            check_right(current_principal(), Right.SEND)
        deliveries = self._gateway.deliveries
        if asked.url is not None:
            attempt = await deliveries.send_elsewhere(
                instance, name, asked.url, without_global=without_global
            )
            return json_response(present_attempt(attempt))
        if asked.data_json is not None:
            summary = await deliveries.resend_edited(
                instance, name, asked.data_json, without_global=without_global
            )
        else:
            summary = await deliveries.resend(instance, name, without_global=without_global)
        registration = self._registrations(instance).get(summary.registration)
        return json_response(present_delivery(summary, registration), 202)

    @route("POST", "/delivery/replay/<instance>")
    @describes(
        _TAG,
        Right.REPLAY,
        {200: responses.Replayed, 202: responses.Replayed},
        body=_REPLAY_BODY,
        errors=(409,),
    )
    async def replay(self, instance: str) -> Response:
        """Send many deliveries again, in their original order.

        The replay continues even if the client disconnects. If it takes more than 2 s, the response has its
        job.
        """
        deliveries = self._gateway.deliveries
        return await self._of_one(
            instance, parse_replay, deliveries.count_replayable, deliveries.replay, _replayed
        )

    @route("POST", "/delivery/replay")
    @describes(
        _TAG,
        within_reach(Right.REPLAY),
        {200: responses.Replayed, 202: responses.Replayed},
        body=_REPLAY_ALL_BODY,
        errors=(403, 404),
    )
    async def replay_all(self) -> Response:
        """Send many deliveries of several instances again, each instance's in their original order.

        A global key reaches all instances, and an instance's key its own. It is one job, which has a part for
        each instance; a replay of an instance that is under way is waited for.
        """
        deliveries = self._gateway.deliveries
        return await self._of_all(parse_replay, deliveries.count_replayable, deliveries.replay_in, _replayed)

    @route("POST", "/delivery/cancel/<instance>")
    @describes(
        _TAG,
        Right.REPLAY,
        {200: responses.Cancelled, 202: responses.Cancelled},
        body=_CANCEL_BODY,
        errors=(409,),
    )
    async def cancel(self, instance: str) -> Response:
        """Cancel pending deliveries: they become dead letters, which can be replayed.

        The cancellation continues even if the client disconnects. If it takes more than 2 s, the status is
        202, and the response has its job.
        """
        deliveries = self._gateway.deliveries
        return await self._of_one(
            instance, parse_cancellation, deliveries.count_cancellable, deliveries.cancel, _cancelled
        )

    @route("POST", "/delivery/cancel")
    @describes(
        _TAG,
        within_reach(Right.REPLAY),
        {200: responses.Cancelled, 202: responses.Cancelled},
        body=_CANCEL_ALL_BODY,
        errors=(403, 404),
    )
    async def cancel_all(self) -> Response:
        """Cancel pending deliveries of several instances: they become dead letters, which can be replayed.

        A global key reaches all instances, and an instance's key its own. It is one job, which has a part for
        each instance.
        """
        deliveries = self._gateway.deliveries
        return await self._of_all(
            parse_cancellation, deliveries.count_cancellable, deliveries.cancel_in, _cancelled
        )

    async def _of_one(
        self, instance: str, parse: Parse, count: Count, carry_out: Callable[..., Awaitable[Job]], show: Show
    ) -> Response:
        self._gateway.instances.get(instance)  # 404 comes before any error of the body
        asked = await self._asked(parse, over_all=False)
        without_global = not current_principal().is_global
        if asked.dry_run:
            counted = await count([instance], asked.selection, without_global=without_global)
            return json_response(_with_count(show(None)[0], counted))
        return json_response(*show(await carry_out(instance, asked.selection, without_global=without_global)))

    async def _of_all(
        self, parse: Parse, count: Count, carry_out: Callable[..., Awaitable[Job | None]], show: Show
    ) -> Response:
        principal, registry = current_principal(), self._gateway.registry
        asked = await self._asked(parse, over_all=True)
        await learn_named(self._gateway.refresh, registry, principal, asked.selection)
        check_names(registry, principal, asked.selection)
        names = selected(registry, principal, asked.selection)
        without_global = not principal.is_global
        if asked.dry_run:
            counted = await count(names, asked.selection, without_global=without_global)
            return json_response(_with_count(show(None)[0], counted))
        if not names:
            return json_response(*show(None))
        elsewhere = await forward_call(names[0] if len(names) == 1 else GLOBAL_INSTANCE)
        if elsewhere is not None:
            return elsewhere
        selection, caller = limited_to(names, principal, asked.selection), current_holder().counted_as
        job = await carry_out(names, selection, without_global=without_global, caller=caller)
        return json_response(*show(job))

    async def _asked(self, parse: Parse, *, over_all: bool) -> Asked:
        catalog, now = self._gateway.catalog, self._gateway.clock.steady()
        asked = await read_parsed(
            self._limit, lambda body: parse(body, catalog, now=now, over_all=over_all), keeps=over_all
        )
        check_search(asked.selection)
        return asked

    @route("POST", "/delivery/cancel/<instance>/<name>")
    @describes(_TAG, Right.REPLAY, {200: responses.Delivery}, errors=(409,))
    async def cancel_one(self, instance: str, name: str) -> Response:
        """Cancel one pending delivery: it becomes a dead letter, which can be resent.

        Its lane goes on with the next delivery at once. An attempt in flight is cut off; the receiver may
        have acted on it. If a response comes at the same time and settles the delivery, the status is 409.
        """
        without_global = not current_principal().is_global
        summary = await self._gateway.views.cancel_one(instance, name, without_global=without_global)
        registration = self._registrations(instance).get(summary.registration)
        return json_response(present_delivery(summary, registration))

    def _registrations(self, instance: str) -> dict[str, Registration]:
        # Webhooks of the configuration are not among them: their labels and URLs are the operator's.
        found = self._gateway.registrations.of_instance(instance)
        return {registration.id: registration for registration in found}

    @route("GET", "/lane/list")
    @describes(
        "Lanes",
        within_reach(Right.READ),
        {200: list[lane_responses.Lane]},
        query=(TAGS, CURSOR_QUERY),
        headers=CURSOR_HEADER | SILENT_HEADER,
    )
    async def lanes(self) -> Response:
        """List the lanes that have work, or had some recently.

        In a fleet, these are the lanes of all nodes. The header `hookgw-silent-nodes` names the nodes that
        did not answer, whose lanes are missing. If the list ends early, its cursor is in `hookgw-cursor`.
        With a `tag`, lanes that belong to no instance are missing.
        """
        await reserve(LIST)
        names = names_within(self._gateway.registry, current_principal(), read_tags())
        found = await self._gateway.views.lanes(among=names)
        now = self._gateway.clock.steady()
        response = await array(
            found.lanes,
            lambda lane: (lane[0] or "", lane[1].lane.lane),
            lambda lane: present_lane(lane[1].lane, lane[1].instance, lane[1].label, now, lane[0]),
        )
        return name_silent(response, found.silent)


def asked_selection(
    gateway: Gateway, *, over_all: bool, elsewhere: Collection[str] = _ELSEWHERE
) -> DeliverySelection:
    """Return what the query of a list selects, except for the parameters that are read ``elsewhere``."""
    given = {name: value for name, value in request.args.items() if name not in elsewhere}
    tags, now = request.args.getlist(TAGS.name), gateway.clock.steady()
    selection = parse_list(given, gateway.catalog, now=now, over_all=over_all, tags=tags)
    check_search(selection)
    # They are the operator's: how those receivers answer is none of the tenant's business.
    return limited(selection, without_global=not current_principal().is_global)


def check_search(selection: DeliverySelection) -> None:
    """Check that the caller may search in payloads, if a selection does: matches tell what is in them."""
    if selection.reads_payloads:
        check_right(current_principal(), Right.PAYLOADS)


def _page() -> dict[str, Any]:
    given = {name: value for name, value in request.args.items() if value}  # empty means left out
    # The cursor is opaque: the store refuses one that it did not issue.
    return {"limit": read_limit(given), "cursor": given.get("cursor")}


def _with_count(done: Done, counted: Counted) -> Done:
    complete = UNSET if counted.is_complete else False
    return msgspec.structs.replace(
        done, matching=counted.matching, instances=counted.instances, complete=complete
    )


def _replayed(job: Job | None) -> tuple[Done, int]:
    if job is None:
        return responses.Replayed(replayed=0), 202
    return responses.Replayed(replayed=job.done, job=job.id if job.is_running else UNSET), 202


def _cancelled(job: Job | None) -> tuple[Done, int]:
    if job is None:
        return responses.Cancelled(cancelled=0), 200
    cancelled = responses.Cancelled(cancelled=job.done, job=job.id if job.is_running else UNSET)
    return cancelled, 202 if job.is_running else 200
