"""The live list of deliveries, and the actions on several of them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import msgspec
from quart import Response, request

from hookgw.core.access import check_right, reaches
from hookgw.deliveries.dry_run import Counted
from hookgw.deliveries.pages.export import FORMATS, export
from hookgw.deliveries.pages.suggestions import names_reached, reaches_name, suggestions, tagged
from hookgw.deliveries.requests import parse_list
from hookgw.deliveries.search import Words, kind_of_words, last_part, parse_search, with_words, without
from hookgw.deliveries.selection import check_label, check_names, limited, limited_to, query_of, selected
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, NotFound
from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import DeliveryState, parse_delivery_id
from hookgw.records.instances import name_before_retirement
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.selection import DeliverySelection
from hookgw.site.moments import parse_moment, reader_zone
from hookgw.site.page_paths import delivery_path, instance_path, job_path
from hookgw.site.site import Form, NavEntry, Page, Site, visitor
from hookgw.store import DeliveryQuery, DeliverySummary
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_call
from hookgw.web.needs import within_reach
from hookgw.web.request_body import json_response

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

PAGE = 50
"""Deliveries on a page."""
LONGEST = 200
"""Characters of a field."""
MOST_SUGGESTED = 10
MOST_TICKED = 500
"""The most deliveries that are sent again by ticking them."""
MOST_NAMED = 5
"""The most webhooks that a count names."""


class Filters(NamedTuple):
    """The form above the list, as it was entered. ``q`` may have qualifiers, see :func:`parse_search`."""

    q: str = ""
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
        has_page: whether its webhook has one, as those of an instance do.
    """

    delivery: DeliverySummary
    instance: str
    path: str
    receiver: str | None
    label: str | None
    why: str | None
    has_page: bool


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


class DeliveriesPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.nav.append(NavEntry(N_("Deliveries"), "/deliveries"))
        site.add("/search", self.search, within_reach(Right.READ))
        site.add("/search/words", self.suggest, within_reach(Right.READ))
        site.add("/deliveries/export", self.export, within_reach(Right.READ))
        site.add("/deliveries", self.list, within_reach(Right.READ))
        site.add("/live/deliveries", self.live, within_reach(Right.READ))
        site.add("/deliveries/resend", self.resend, within_reach(Right.REPLAY), "POST", page="/deliveries")
        site.add("/deliveries/replay", self.replay, within_reach(Right.REPLAY), "POST", page="/deliveries")
        site.add("/deliveries/cancel", self.cancel, within_reach(Right.REPLAY), "POST", page="/deliveries")

    async def list(self) -> Response:
        filters, reader = _asked(), _reader()
        if filters.q and filters == Filters(q=filters.q):
            with suppress(Invalid):  # of the search; the page says what is wrong
                found = parse_search(filters.q)
                name = found.filters.get("id", "") if [*found.filters] == ["id"] else found.words
                is_one = not (found.filters and found.words)
                if is_one and (place := await self._place_of(name, reader.principal)) is not None:
                    return self._site.redirect(delivery_path(*place))
        return await self._page(filters, request.args.get("cursor") or None)

    async def search(self) -> Response:
        """Show the instance that a name means; otherwise the delivery, or deliveries, that a search finds."""
        q = request.args.get("q", "").strip()[:LONGEST]
        if names_reached(self._gateway.registry, visitor().principal, q):
            return self._site.redirect(instance_path(q))
        return self._site.redirect("/deliveries", **({"q": q} if q else {}))

    async def export(self) -> Response:
        """Return what the list would show, on all its pages, as a file."""
        form, reader, signed_in = request.args.get("format", ""), _reader(), visitor().signed_in
        if form not in FORMATS:
            raise Invalid.of("query.format", "format must be one of {choices}.", choices=", ".join(FORMATS))
        filters = await self._resolved(_asked(), reader)
        query = await self._query(filters, reader)
        is_allowed = partial(self._gateway.sessions.is_valid, signed_in)
        headers = {"content-disposition": f'attachment; filename="deliveries.{form}"'}
        parts = export(self._gateway, query, form, is_allowed)
        response = Response(parts, headers=headers, content_type=FORMATS[form])
        response.timeout = None  # each part has the deadline of a list
        return response

    async def _place_of(self, name: str, principal: Principal) -> tuple[str, str] | None:
        """Return the instance and the id of the delivery that an id means, within reach, if there is one."""
        gateway, without_global = self._gateway, not principal.is_global
        if not name or " " in name:
            return None
        seq = parse_delivery_id(name)
        if seq is not None and parse_delivery_id(after := f"dlv_{seq + 1}") is not None:
            only = DeliverySelection(failed_since=seq, without_global=without_global)
            query = await query_of(gateway.registry, principal, only, cursor=after, limit=1)
            page = None if query is None else await gateway.history.list(query)
            if page is not None and page.deliveries:
                one = page.deliveries[0]
                return (one.instance, one.id) if gateway.instances.find(one.instance) else None
        names = (
            await gateway.history.instances_of_event(name)
            if principal.instance is None
            else [principal.instance]
        )
        for instance in names:
            if reaches(gateway.registry, principal, instance) and gateway.instances.find(instance):
                try:
                    report = await gateway.history.find(instance, name, without_global=without_global)
                except NotFound:
                    continue
                return instance, report.summary.id
        return None

    async def suggest(self) -> Response:
        """Return what may complete a search, as a JSON array of whole searches."""
        gateway, principal = self._gateway, visitor().principal
        before, name, value = last_part(request.args.get("q", "")[:LONGEST])
        found = [*suggestions(gateway, principal, name, value.casefold())]
        return json_response([f"{before}{name + ':' if name else ''}{one}" for one in found[:MOST_SUGGESTED]])

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
            shown = await self._resolved(filters, reader)
            table = await self._table(shown, cursor, reader)
        except (Invalid, NotFound) as wrong:
            error, table, shown = wrong, "", filters
        instance = reader.principal.instance or filters.instance
        known = gateway.instances.find(instance) is not None if instance else False
        return await self._site.render(
            "deliveries.html",
            table=table,
            live=None if cursor or error else f"/live/deliveries?{shown.query()}",
            filters=filters,
            shown=shown,
            states=list(DeliveryState),
            kinds=gateway.catalog.stored(),
            labels=[one.label for one in gateway.registrations.of_instance(instance)] if known else [],
            names_instances=reader.principal.instance is None,
            may_replay=filters.state in ("", DeliveryState.DEAD),
            may_cancel=filters.state in ("", DeliveryState.PENDING),
            plan=plan,
            error=error,
        )

    async def live(self) -> Response:
        filters, reader = await self._resolved(_asked(), _reader()), _reader()
        self._selection(filters, reader)  # refused here, not once a second
        key = ("deliveries", filters, reader.principal, str(reader.zone))
        return self._streams.open(
            key,
            partial(self._table, filters, None, reader),
            within=None if "*" in filters.instance else filters.instance or None,
        )

    def _selection(self, filters: Filters, reader: Reader) -> DeliverySelection:
        """Return what the filters select, within the rights of the session."""
        gateway, now, registry = self._gateway, self._gateway.clock.steady(), self._gateway.registry
        given = _merged(filters, reaches_name(registry, reader.principal))
        for name, where in (("since", "From"), ("until", "Until")):
            moment = parse_moment(given[name], where, now, reader.zone)
            given[name] = "" if moment is None else rfc3339(moment)
        tag, instance, given_id = given.pop("tag", ""), given.pop("instance"), given.pop("id", "")
        given["instances"] = instance
        if given_id:  # one that exists is shown instead of a list
            raise NotFound.of(
                "delivery.and_event_not_found",
                "There is no delivery, and no event with one, {id!r}.",
                id=given_id[:128],
            )
        tags = [tag] if "=" in tag else ()
        selection = parse_list(given, gateway.catalog, now=now, over_all=True, tags=tags)
        check_names(registry, reader.principal, selection)
        if instance and not instance.endswith("*"):
            check_label(registry, instance, selection)
        if tag and not tags:
            names = tagged(registry, reader.principal, tag, selection)
            selection = msgspec.structs.replace(selection, instances=names)
        if selection.reads_payloads:
            check_right(reader.principal, Right.PAYLOADS)
        # They are the operator's: how those receivers answer is none of the tenant's business.
        return limited(selection, without_global=not reader.principal.is_global)

    async def _query(
        self, filters: Filters, reader: Reader, cursor: str | None = None, *, limit: int = PAGE
    ) -> DeliveryQuery | None:
        """Return the query of what the filters select; ``None`` if the session reaches no such instance."""
        selection = self._selection(filters, reader)
        return await query_of(self._gateway.registry, reader.principal, selection, cursor=cursor, limit=limit)

    async def _resolved(self, filters: Filters, reader: Reader) -> Filters:
        """Return filters that say where words are searched: in errors, or, if none has them, in payloads."""
        found = parse_search(filters.q)
        kind, words = kind_of_words(found.words, reaches_name(self._gateway.registry, reader.principal))
        if kind is not Words.TEXT or not reader.principal.rights.has(Right.PAYLOADS):
            return filters
        if "error" in found.filters or "text" in found.filters:
            raise Invalid.of(
                "search.words_with_qualifiers",
                "Write words that are not in the error or the payload behind their qualifiers, too.",
            )
        in_errors = filters._replace(q=with_words(found.filters, "error", words))
        query = await self._query(in_errors, reader, limit=1)
        if query is None or (await self._gateway.history.list(query)).deliveries:
            return in_errors
        return filters._replace(q=with_words(found.filters, "payload", words))

    async def _table(self, filters: Filters, cursor: str | None, reader: Reader) -> str:
        query = await self._query(filters, reader, cursor)
        found, older = [], None
        if query is not None:
            page = await self._gateway.history.list(query)
            found, older = page.deliveries, page.cursor
        if filters.text and filters.instance and not cursor:
            # An id finds its delivery, whatever its texts.
            try:
                report = await self._gateway.history.find(
                    filters.instance, filters.text, without_global=not reader.principal.is_global
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
            may_tick=reader.principal.rights.has(Right.REPLAY),
        )

    async def resend(self) -> Response:
        """Send the ticked deliveries again."""
        form = await self._site.form()
        filters = _entered(form)
        chosen = form.all("delivery")
        if not chosen:
            return await self._page(
                filters,
                error=Invalid.of(
                    "selection.nothing_ticked", "Tick the deliveries that are to be sent again."
                ),
            )
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
        try:
            fixed = await self._resolved(filters, reader)
            asked = self._selection(fixed, reader)
            # What comes in while the reader looks at the count has no part in it, and 2h is counted from now.
            until = gateway.clock.steady() if asked.until is None else asked.until
            fixed = fixed._replace(
                q=without(fixed.q, "since", "until"),
                since="" if asked.since is None else rfc3339(asked.since),
                until=rfc3339(until),
            )
            selection = self._selection(fixed, reader)
            if selection.state not in (None, "dead" if is_replay else "pending"):
                raise Invalid.of(
                    "selection.wrong_state",
                    "Deliveries that are {state} cannot be part of this.",
                    state=selection.state,
                )
            if is_replay:
                selection = msgspec.structs.replace(selection, state=selection.state or "all")
            names = selected(gateway.registry, reader.principal, selection)
            if names:
                elsewhere = await forward_call(names[0] if len(names) == 1 else GLOBAL_INSTANCE)
                if elsewhere is not None:
                    return elsewhere
            if not form.has("confirmed"):
                count = deliveries.count_replayable if is_replay else deliveries.count_cancellable
                counted = await count(names, selection, without_global=without_global)
                return await self._page(filters, plan=_plan(action, fixed, counted))
            start = deliveries.replay_in if is_replay else deliveries.cancel_in
            selection = limited_to(names, reader.principal, selection)
            caller = visitor().holder.counted_as
            job = await start(names, selection, without_global=without_global, caller=caller)
        except HookgwError as error:
            return await self._page(filters, error=error)
        if job is not None and job.error is not None:
            return await self._page(filters, error=Conflict(job.error))
        if job is not None and job.is_running:
            # On its page it can be paused and cancelled; a replay of one instance, too.
            planned = form.get("confirmed")
            of = {"of": planned} if planned.isdecimal() and planned != "0" else {}
            return self._site.redirect(job_path(job.id), **of)
        done = "replayed" if is_replay else "cancelled"
        kept = {name: form.get(f"kept_{name}") for name in Filters._fields if form.get(f"kept_{name}")}
        return self._site.redirect("/deliveries", **kept, done=done)


def row_of(gateway: Gateway, delivery: DeliverySummary) -> Row:
    registration = gateway.registrations.by_id(delivery.registration)
    exists = gateway.instances.find(delivery.instance) is not None
    return Row(
        delivery,
        name_before_retirement(delivery.instance),
        delivery_path(delivery.instance, delivery.id) if exists else "",
        with_masked_user(registration.url) if registration else None,
        registration.label if registration else None,
        why_of(delivery),
        registration is not None and registration.instance == delivery.instance,
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


def _merged(filters: Filters, is_instance: Callable[[str], bool]) -> dict[str, str]:
    """Return the values of the filters and of the search, by the names of filters in the search."""
    given = {**filters._asdict(), "error": filters.text}
    del given["q"], given["text"]
    found = parse_search(filters.q)
    kind, words = kind_of_words(found.words, is_instance)
    if kind is Words.TEXT:
        kind, words = Words.ERROR, found.words
    further = [*found.filters.items(), *([(kind.value, words)] if kind is not Words.NONE else [])]
    for name, value in further:
        if given.get(name):
            raise Invalid.of(
                "search.repeated_filter",
                "The search has {name}: twice, or there is a filter for it, too.",
                name=name,
            )
        given[name] = value
    return given


def _reader() -> Reader:
    return Reader(visitor().principal, reader_zone())


def _asked() -> Filters:
    return Filters(**{name: request.args.get(name, "").strip()[:LONGEST] for name in Filters._fields})


def _entered(form: Form) -> Filters:
    return Filters(**{name: form.get(name)[:LONGEST] for name in Filters._fields})


def _plan(action: str, fixed: Filters, counted: Counted) -> Plan:
    by_webhook = sorted(
        (
            (_("{webhook} of {instance}", webhook=label, instance=instance), count)
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
