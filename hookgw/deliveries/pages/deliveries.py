"""The live list of deliveries, and the actions on several of them."""

from __future__ import annotations

import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from quart import Response, request

from hookgw.deliveries.dry_run import Counted
from hookgw.deliveries.requests import parse_list
from hookgw.deliveries.selection import check_label, check_names, limited, limited_to, query_of, selected
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, NotFound
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import DeliveryState
from hookgw.records.instances import name_before_retirement
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.selection import DeliverySelection
from hookgw.site.moments import parse_moment, reader_zone
from hookgw.site.site import Form, NavEntry, Site, visitor
from hookgw.site.streams import Streams
from hookgw.store import DeliverySummary
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_form
from hookgw.web.needs import within_reach

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

PAGE = 50
"""Deliveries on a page."""
MOST_TICKED = 500
"""The most deliveries that are sent again by ticking them."""
MOST_NAMED = 5
"""The most webhooks that a count names."""


class Filters(NamedTuple):
    """The form above the list, as it was entered."""

    instance: str = ""
    state: str = ""
    kind: str = ""
    label: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    def query(self) -> str:
        return urlencode(self.given())

    def given(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value}


class Reader(NamedTuple):
    """Who reads a list: what they may see, and where they are."""

    principal: Principal
    zone: datetime.tzinfo


class Row(NamedTuple):
    """A delivery in the list.

    Attributes:
        instance: the name that people know, also of a deleted instance.
        path: of its page below the dashboard; empty if the instance was deleted.
        receiver: the URL of its registration, with masked user and password; ``None`` if that was deleted.
        why: why it is not delivered, in sentences.
    """

    delivery: DeliverySummary
    instance: str
    path: str
    receiver: str | None
    label: str | None
    why: str | None


class Plan(NamedTuple):
    """What a confirmed action on all that match would do.

    Attributes:
        action: ``replay`` or ``cancel``.
        fixed: the filters, with the times that were counted.
        webhooks: how many go to which webhook, most first.
        others: how many go to further webhooks.
    """

    action: str
    fixed: Filters
    counted: Counted
    webhooks: list[tuple[str, int]]
    others: int


class DeliveriesPage:
    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        site.nav.append(NavEntry("Deliveries", "/deliveries"))
        site.add("/deliveries", self.list, within_reach(Right.READ))
        site.add("/live/deliveries", self.live, within_reach(Right.READ))
        site.add("/deliveries/resend", self.resend, within_reach(Right.REPLAY), "POST", page="/deliveries")
        site.add("/deliveries/replay", self.replay, within_reach(Right.REPLAY), "POST", page="/deliveries")
        site.add("/deliveries/cancel", self.cancel, within_reach(Right.REPLAY), "POST", page="/deliveries")

    async def list(self) -> Response:
        return await self._page(_asked(), request.args.get("cursor") or None)

    async def _page(
        self,
        filters: Filters,
        cursor: str | None = None,
        *,
        error: HookgwError | None = None,
        plan: Plan | None = None,
    ) -> Response:
        gateway, reader = self._gateway, _reader()
        try:
            table = await self._table(filters, cursor, reader)
        except (Invalid, NotFound) as wrong:
            error, table = wrong, ""
        instance = reader.principal.instance or filters.instance
        known = gateway.instances.find(instance) is not None if instance else False
        return await self._site.render(
            "deliveries.html",
            200 if error is None else error.status,
            table=table,
            live=None if cursor or error else f"/live/deliveries?{filters.query()}",
            filters=filters,
            states=list(DeliveryState),
            kinds=[kind.name for kind in gateway.catalog if not kind.operational],
            labels=[one.label for one in gateway.registrations.of_instance(instance)] if known else [],
            names_instances=reader.principal.instance is None,
            may_replay=filters.state in ("", DeliveryState.DEAD),
            may_cancel=filters.state in ("", DeliveryState.PENDING),
            plan=plan,
            alert=error.messages if error else None,
        )

    async def live(self) -> Response:
        filters, reader = _asked(), _reader()
        self._selection(filters, reader)  # refused here, not once a second
        key = ("deliveries", filters, reader.principal, str(reader.zone))
        return self._streams.open(
            visitor().signed_in,
            key,
            partial(self._table, filters, None, reader),
            within=None if "*" in filters.instance else filters.instance or None,
        )

    def _selection(self, filters: Filters, reader: Reader) -> DeliverySelection:
        """Return what the filters select, within the rights of the session."""
        gateway, now = self._gateway, self._gateway.clock.wall()
        given = {name: getattr(filters, name) for name in ("state", "kind", "label")}
        given |= {"instances": filters.instance, "error": filters.text}
        for name, where in (("since", "From"), ("until", "Until")):
            moment = parse_moment(getattr(filters, name), where, now, reader.zone)
            given[name] = "" if moment is None else rfc3339(moment)
        selection = parse_list(given, gateway.catalog, now=now, over_all=True)
        check_names(gateway.registry, reader.principal, selection)
        if filters.instance and not filters.instance.endswith("*"):
            check_label(gateway.registry, filters.instance, selection)
        # They are the operator's: how those receivers answer is none of the tenant's business.
        return limited(selection, without_global=not reader.principal.is_global)

    async def _table(self, filters: Filters, cursor: str | None, reader: Reader) -> str:
        selection = self._selection(filters, reader)
        query = await query_of(self._gateway.registry, reader.principal, selection, cursor=cursor, limit=PAGE)
        found, older = [], None
        if query is not None:
            page = await self._gateway.history.list(query)
            found, older = page.deliveries, page.cursor
        if filters.text and filters.instance and not cursor:
            # An id finds its delivery, whatever its texts.
            try:
                report = await self._gateway.history.find(
                    filters.instance, filters.text, without_global=selection.without_global
                )
            except NotFound:
                pass
            else:
                found = [report.summary, *(one for one in found if one.seq != report.summary.seq)]
        return await self._site.fragment(
            "deliveries_table.html",
            rows=[row_of(self._gateway, one) for one in found],
            older=f"/deliveries?{filters.query()}&cursor={older}" if older else None,
            first=f"/deliveries?{filters.query()}" if cursor else None,
            is_filtered=bool(filters.query()),
            names_instances=not filters.instance and reader.principal.instance is None,
        )

    async def resend(self) -> Response:
        """Send the ticked deliveries again."""
        form = await self._site.form()
        filters = _entered(form)
        chosen = form.all("delivery")
        if not chosen:
            return await self._page(filters, error=Invalid("Tick the deliveries that are to be sent again."))
        if len(chosen) > MOST_TICKED:
            most = f"Tick at most {MOST_TICKED} deliveries, or send all again that match."
            return await self._page(filters, error=Invalid(most))
        deliveries = []
        for one in chosen:
            instance, _, name = one.partition("/")
            check_named(self._gateway.registry, visitor().principal, Right.REPLAY, instance)
            deliveries.append((instance, name))
        # The oldest first, as they were: the number of a delivery grows.
        deliveries.sort(key=lambda one: (len(one[1]), one[1]))
        refused = await self._gateway.views.resend(
            deliveries, without_global=not visitor().principal.is_global
        )
        if refused:
            problems = [f"{name}: {message}" for name, messages in refused for message in messages]
            return await self._page(filters, error=Conflict(*problems))
        return self._site.redirect("/deliveries", **filters.given(), done="resent")

    async def replay(self) -> Response:
        """Send all again that match, in their original order: first show how many, then do it."""
        return await self._act_on_all("replay")

    async def cancel(self) -> Response:
        """Cancel all pending deliveries that match: first show how many, then do it."""
        return await self._act_on_all("cancel")

    async def _act_on_all(self, action: str) -> Response:
        form = await self._site.form()
        filters, reader, gateway = _entered(form), _reader(), self._gateway
        without_global = not reader.principal.is_global
        deliveries = gateway.deliveries
        is_replay = action == "replay"
        # What comes in while the reader looks at the count has no part in it.
        fixed = filters._replace(until=filters.until or rfc3339(gateway.clock.wall()))
        if filters.since:
            since = parse_moment(filters.since, "From", gateway.clock.wall(), reader.zone)
            fixed = fixed._replace(since="" if since is None else rfc3339(since))
        try:
            selection = self._selection(fixed, reader)
            if (
                selection.state not in (None, "dead")
                if is_replay
                else selection.state not in (None, "pending")
            ):
                raise Invalid(f"Deliveries that are {selection.state} cannot be part of this.")
            if is_replay:
                selection = msgspec.structs.replace(selection, state=selection.state or "all")
            names = selected(gateway.registry, reader.principal, selection)
            if names:
                elsewhere = await forward_form(names[0] if len(names) == 1 else GLOBAL_INSTANCE)
                if elsewhere is not None:
                    return elsewhere
            if not form.has("confirmed"):
                count = deliveries.count_replayable if is_replay else deliveries.count_cancellable
                counted = await count(names, selection, without_global=without_global)
                return await self._page(filters, plan=_plan(action, fixed, counted))
            start = deliveries.replay_in if is_replay else deliveries.cancel_in
            selection = limited_to(names, reader.principal, selection)
            job = await start(names, selection, without_global=without_global)
        except HookgwError as error:
            return await self._page(filters, error=error)
        if job is not None and job.error is not None:
            return await self._page(filters, error=Conflict(job.error))
        done = (
            "replayed" if is_replay else "cancelling" if job is not None and job.is_running else "cancelled"
        )
        kept = {name: form.get(f"kept_{name}") for name in Filters._fields if form.get(f"kept_{name}")}
        return self._site.redirect("/deliveries", **kept, done=done)


def row_of(gateway: Gateway, delivery: DeliverySummary) -> Row:
    registration = gateway.registrations.by_id(delivery.registration)
    exists = gateway.instances.find(delivery.instance) is not None
    return Row(
        delivery,
        name_before_retirement(delivery.instance),
        f"/deliveries/{quote(delivery.instance)}/{delivery.id}" if exists else "",
        with_masked_user(registration.url) if registration else None,
        registration.label if registration else None,
        why_of(delivery),
    )


def why_of(delivery: DeliverySummary) -> str | None:
    """Return why a delivery is not delivered, in sentences: the reason, and its newest attempt.

    If it is delivered, the reason says that an attempt was answered late.
    """
    attempt = delivery.last_attempt
    if delivery.state is DeliveryState.DELIVERED:
        return delivery.reason
    error = attempt.error if attempt is not None else None
    # A dead letter's reason may say no more than that the attempts are exhausted, or be that error itself.
    if delivery.reason and error and error not in delivery.reason and delivery.state is DeliveryState.DEAD:
        return f"{error} {delivery.reason}"
    return delivery.reason or error


def _reader() -> Reader:
    return Reader(visitor().principal, reader_zone())


def _asked() -> Filters:
    return Filters(**{name: request.args.get(name, "").strip()[:200] for name in Filters._fields})


def _entered(form: Form) -> Filters:
    return Filters(**{name: form.get(name)[:200] for name in Filters._fields})


def _plan(action: str, fixed: Filters, counted: Counted) -> Plan:
    by_webhook = sorted(
        (
            (f"{label} of {instance}", count)
            for instance, labels in counted.instances.items()
            for label, count in labels.items()
        ),
        key=lambda one: -one[1],
    )
    return Plan(
        action,
        fixed,
        counted,
        by_webhook[:MOST_NAMED],
        sum(count for _, count in by_webhook[MOST_NAMED:]),
    )
