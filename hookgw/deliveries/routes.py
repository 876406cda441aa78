"""``/delivery`` and ``/lane``: deliveries, replays, and the state of lanes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET
from quart import Blueprint, Response, request

from hookgw.deliveries import responses
from hookgw.deliveries.present import present_delivery, present_report
from hookgw.deliveries.requests import parse_cancellation, parse_replay
from hookgw.kernel.errors import Invalid, NotFound
from hookgw.kernel.schema_parts import TIME_SCHEMA
from hookgw.records.deliveries import DeliveryState
from hookgw.records.registrations import Registration
from hookgw.store import DeliveryQuery
from hookgw.web.auth import current_principal
from hookgw.web.lists import CURSOR_HEADER, CURSOR_QUERY, ShownList, array, first_of
from hookgw.web.openapi.describe import Parameter, describes, json_body
from hookgw.web.query import read_limit, read_times
from hookgw.web.request_body import json_response, read_parsed, reserve
from hookgw.web.server.response_memory import ENTRY, LIST
from hookgw.web.silent_nodes import SILENT_HEADER, name_silent
from hookgw.webhooks import lane_responses
from hookgw.webhooks.lane_responses import present_attempt, present_lane

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
_READ_AT_ONCE = 100
"""Deliveries that are read at once: a thousand may have 25 MB, most of which a page has no room for."""

_TAG = "Deliveries"
_filter = partial(Parameter, place="query", may_be_empty=True)
_QUERY = (
    _filter("state", "Only deliveries in this state.", {"enum": [*DeliveryState]}),
    _filter("kind", "Only deliveries of this event kind.", {"$ref": "#/components/schemas/AnyKindName"}),
    _filter("label", "Only deliveries to the registration with this label.", {"type": "string"}),
    _filter("since", "Only deliveries accepted at this time or later.", TIME_SCHEMA),
    _filter("until", "Only deliveries accepted before this time.", TIME_SCHEMA),
    _filter("finishedSince", "Only deliveries that finished at this time or later.", TIME_SCHEMA),
    _filter("cursor", "The `cursor` of the previous page.", {"type": "string", "format": "cursor"}),
    _filter(
        "limit",
        "The most deliveries on a page.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    ),
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
_CANCEL_BODY = json_body(
    "CancelRequest",
    older_than_an_hour={"until": "1h"},
    how_many_of_some_kinds={"kinds": ["MESSAGES_UPSERT"], "dryRun": True},
)


class DeliveryRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("deliveries", __name__)
        blueprint.add_url_rule("/delivery/list/<instance>", view_func=self.list_deliveries)
        blueprint.add_url_rule("/delivery/find/<instance>/<name>", view_func=self.find)
        for path, view in (
            ("resend/<instance>/<name>", self.resend),
            ("replay/<instance>", self.replay),
            ("cancel/<instance>", self.cancel),
            ("cancel/<instance>/<name>", self.cancel_one),
        ):
            blueprint.add_url_rule(f"/delivery/{path}", view_func=view, methods=["POST"])
        blueprint.add_url_rule("/lane/list", view_func=self.lanes)
        return blueprint

    @describes(_TAG, {200: responses.DeliveryPage}, query=_QUERY)
    async def list_deliveries(self, instance: str) -> Response:
        """List an instance's deliveries, the newest first, page by page."""
        self._gateway.instances.get(instance)
        query, registrations = self._read_query(instance), self._registrations(instance)
        await reserve(min(LIST, query.limit * ENTRY))
        shown, left, cursor = ShownList(), query.limit, query.cursor
        while True:
            part = msgspec.structs.replace(query, cursor=cursor, limit=min(left, _READ_AT_ONCE))
            page = await self._gateway.history.list(part)
            count = await shown.add(
                page.deliveries, lambda one: present_delivery(one, registrations.get(one.registration))
            )
            left -= count
            if count < len(page.deliveries):
                cursor = page.deliveries[count - 1].cursor if count else cursor
                break
            cursor = page.cursor
            # A page that is shorter than asked for ends a search that has taken long.
            if cursor is None or not left or count < part.limit:
                break
        return json_response(responses.DeliveryPage(deliveries=shown.entries, cursor=cursor))

    def _read_query(self, instance: str) -> DeliveryQuery:
        given = {name: value for name, value in request.args.items() if value}  # empty means left out
        state = given.get("state")
        if state is not None and state not in [*DeliveryState]:
            raise Invalid(f"state must be one of {', '.join(DeliveryState)}, not {state[:64]!r}.")
        number, times = (
            read_limit(given, DEFAULT_LIMIT, MAX_LIMIT),
            read_times(given, ("since", "until", "finishedSince")),
        )
        kind, label = given.get("kind"), given.get("label")
        registration = None
        if label is not None:
            registration = self._gateway.registrations.find(instance, label)
            if registration is None:
                raise NotFound(f"The instance {instance!r} has no webhook {label[:128]!r}.")
        return DeliveryQuery(
            instance=instance,
            state=DeliveryState(state) if state is not None else None,
            kind=self._gateway.catalog.resolve(kind, "kind").name if kind is not None else None,
            registration=registration.id if registration is not None else None,
            since=times.get("since"),
            until=times.get("until"),
            finished_since=times.get("finishedSince"),
            cursor=given.get("cursor"),  # opaque: the store refuses a cursor that it did not issue
            limit=number,
            # They are the operator's: how those receivers answer is none of the tenant's business.
            without_global=not current_principal().is_global,
        )

    @describes(_TAG, {200: responses.Report})
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
            )
        )

    @describes(_TAG, {202: responses.Delivery}, errors=(409,))
    async def resend(self, instance: str, name: str) -> Response:
        """Send a delivery again, at the end of its lane."""
        without_global = not current_principal().is_global
        summary = await self._gateway.deliveries.resend(instance, name, without_global=without_global)
        registration = self._registrations(instance).get(summary.registration)
        return json_response(present_delivery(summary, registration), 202)

    @describes(_TAG, {202: responses.Replayed}, body=_REPLAY_BODY, errors=(409,))
    async def replay(self, instance: str) -> Response:
        """Send many deliveries again, in their original order.

        The replay continues even if the client disconnects. If it takes more than 2 s, the response has its
        job.
        """
        self._gateway.instances.get(instance)  # 404 comes before any error of the body
        catalog, now = self._gateway.catalog, self._gateway.clock.wall()
        asked = await read_parsed(self._limit, lambda body: parse_replay(body, catalog, now=now))
        without_global = not current_principal().is_global
        job = await self._gateway.deliveries.replay(instance, asked, without_global=without_global)
        replayed = responses.Replayed(replayed=job.done, job=job.id if job.is_running else UNSET)
        return json_response(replayed, 202)

    @describes(_TAG, {200: responses.Cancelled, 202: responses.Cancelled}, body=_CANCEL_BODY, errors=(409,))
    async def cancel(self, instance: str) -> Response:
        """Cancel pending deliveries: they become dead letters, which can be replayed.

        The cancellation continues even if the client disconnects. If it takes more than 2 s, the status is
        202, and the response has its job.
        """
        self._gateway.instances.get(instance)  # 404 comes before any error of the body
        catalog, now = self._gateway.catalog, self._gateway.clock.wall()
        asked = await read_parsed(self._limit, lambda body: parse_cancellation(body, catalog, now=now))
        deliveries, without_global = self._gateway.deliveries, not current_principal().is_global
        if asked.dry_run:
            matching = await deliveries.count_cancellable(instance, asked, without_global=without_global)
            return json_response(responses.Cancelled(cancelled=0, matching=matching))
        job = await deliveries.cancel(instance, asked, without_global=without_global)
        cancelled = responses.Cancelled(cancelled=job.done, job=job.id if job.is_running else UNSET)
        return json_response(cancelled, 202 if job.is_running else 200)

    @describes(_TAG, {200: responses.Delivery}, errors=(409,))
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

    @describes(
        "Lanes",
        {200: list[lane_responses.Lane]},
        query=(CURSOR_QUERY,),
        headers=CURSOR_HEADER | SILENT_HEADER,
    )
    async def lanes(self) -> Response:
        """List the lanes that have work, or had some recently.

        In a fleet, these are the lanes of all nodes. The header `hookgw-silent-nodes` names the nodes that
        did not answer, whose lanes are missing. If the list ends early, its cursor is in `hookgw-cursor`.
        """
        await reserve(LIST)
        found = await self._gateway.views.lanes()
        now = self._gateway.clock.steady()
        response = await array(
            found.lanes,
            lambda lane: (lane[0] or "", lane[1].lane.lane),
            lambda lane: present_lane(lane[1].lane, lane[1].instance, lane[1].label, now, lane[0]),
        )
        return name_silent(response, found.silent)
