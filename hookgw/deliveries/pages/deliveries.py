"""The live list of deliveries, and the actions on several of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from quart import Response, request

from hookgw.core.access import check_reach, names_within
from hookgw.deliveries.requests import parse_replay
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, NotFound
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.times import parse_rfc3339
from hookgw.kernel.units import parse_duration
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import DeliveryState
from hookgw.records.instances import name_before_retirement
from hookgw.records.selection import DeliverySelection
from hookgw.site.site import Form, NavEntry, Site, visitor
from hookgw.site.streams import Streams
from hookgw.store import DeliveryPage, DeliveryQuery, DeliverySummary
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_form
from hookgw.web.needs import within_reach

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

PAGE = 50
"""Deliveries on a page."""
"""A replay of more deliveries than this is announced as "more than" so many."""


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
        return urlencode({name: value for name, value in self._asdict().items() if value})


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

    async def list(self) -> Response:
        return await self._page(self._asked(), request.args.get("cursor") or None)

    async def _page(
        self,
        filters: Filters,
        cursor: str | None = None,
        *,
        error: HookgwError | None = None,
        replay: DeliverySelection | None = None,
        count: str = "",
    ) -> Response:
        gateway, principal = self._gateway, visitor().principal
        alert = error.messages if error else None
        try:
            table = await self._table(filters, cursor, principal)
        except (Invalid, NotFound) as wrong:
            error, alert, table = wrong, wrong.messages, ""
        instance = principal.instance or filters.instance
        known = gateway.instances.find(instance) is not None if instance else False
        return await self._site.render(
            "deliveries.html",
            200 if error is None else error.status,
            table=table,
            live=None if cursor or alert else f"/live/deliveries?{filters.query()}",
            filters=filters,
            states=list(DeliveryState),
            kinds=[kind.name for kind in gateway.catalog if not kind.operational],
            labels=[one.label for one in gateway.registrations.of_instance(instance)] if known else [],
            names_instances=principal.instance is None,
            may_replay=known,
            instance=instance,
            replay=replay,
            count=count,
            alert=alert,
        )

    async def live(self) -> Response:
        filters = self._asked()
        principal = visitor().principal
        self._query(filters, None, principal)  # refused here, not once a second

        async def render() -> str:
            return await self._table(filters, None, principal)

        return self._streams.open(
            visitor().signed_in, ("deliveries", filters, principal), render, within=filters.instance or None
        )

    def _asked(self) -> Filters:
        given = {name: request.args.get(name, "").strip()[:200] for name in Filters._fields}
        return self._within(Filters(**given))

    def _within(self, filters: Filters) -> Filters:
        """Return filters limited to the rights of the session."""
        principal = visitor().principal
        own = filters.instance or principal.instance or ""
        if own:
            check_reach(self._gateway.registry, principal, own)
        return filters._replace(instance=own)

    def _query(self, filters: Filters, cursor: str | None, principal: Principal) -> DeliveryQuery:
        gateway, among = self._gateway, None
        if filters.state and filters.state not in list(DeliveryState):
            raise Invalid(f"There is no state {filters.state!r}.")
        kind = gateway.catalog.resolve(filters.kind, "The kind").name if filters.kind else None
        if filters.instance:
            gateway.instances.get(filters.instance)
        else:
            among = names_within(gateway.registry, principal)
        registration = None
        if filters.label and filters.instance:
            registration = gateway.registrations.get(filters.instance, filters.label).id
        return DeliveryQuery(
            instance=filters.instance or None,
            among=among,
            state=DeliveryState(filters.state) if filters.state else None,
            kinds=() if kind is None else (kind,),
            registrations=None if registration is None else (registration,),
            error=filters.text or None,
            since=_moment(filters.since, "From", gateway.clock.wall()),
            until=_moment(filters.until, "Until", gateway.clock.wall()),
            cursor=cursor,
            limit=PAGE,
            without_global=not principal.is_global,
        )

    async def _table(self, filters: Filters, cursor: str | None, principal: Principal) -> str:
        query = self._query(filters, cursor, principal)
        page = DeliveryPage([]) if query.among == () else await self._gateway.history.list(query)
        found = page.deliveries
        if filters.text and filters.instance and not cursor:
            # An id finds its delivery, whatever its texts.
            try:
                report = await self._gateway.history.find(
                    filters.instance, filters.text, without_global=query.without_global
                )
            except NotFound:
                pass
            else:
                found = [report.summary, *(one for one in found if one.seq != report.summary.seq)]
        older = f"/deliveries?{filters.query()}&cursor={page.cursor}" if page.cursor else None
        return await self._site.fragment(
            "deliveries_table.html",
            rows=[row_of(self._gateway, one) for one in found],
            older=older,
            first=f"/deliveries?{filters.query()}" if cursor else None,
            is_filtered=bool(filters.query()),
            names_instances=not filters.instance,
        )

    async def resend(self) -> Response:
        form = await self._site.form()
        filters = _entered(self._within, form)
        chosen = form.all("delivery")
        if not chosen:
            return await self._page(filters, error=Invalid("Tick the deliveries that are to be sent again."))
        deliveries = []
        for one in reversed(chosen[:PAGE]):  # the oldest first, as they were
            instance, _, name = one.partition("/")
            check_named(self._gateway.registry, visitor().principal, Right.REPLAY, instance)
            deliveries.append((instance, name))
        refused = await self._gateway.views.resend(deliveries, without_global=not _sees_global())
        if refused:
            problems = [f"{name}: {message}" for name, messages in refused for message in messages]
            return await self._page(filters, error=Conflict(*problems))
        return self._site.redirect("/deliveries", **_given(filters), done="resent")

    async def replay(self) -> Response:
        """Send the deliveries of a period again, in order: first show how many, then do it."""
        form = await self._site.form()
        filters = _entered(self._within, form)
        instance = filters.instance
        try:
            elsewhere = await forward_form(instance) if instance else None
            if elsewhere is not None:
                return elsewhere
            self._gateway.instances.get(instance)
            body = {
                "since": form.get("replay_since"),
                "until": form.get("replay_until") or None,
                "state": form.get("replay_state") or "dead",
                "label": form.get("replay_label") or None,
            }
            asked = parse_replay(
                {name: value for name, value in body.items() if value},
                self._gateway.catalog,
                now=self._gateway.clock.wall(),
            )
            replay, deliveries = asked.selection, self._gateway.deliveries
            if not form.has("confirmed"):
                counted = await deliveries.count_replayable(
                    [instance], replay, without_global=not _sees_global()
                )
                count = f"{counted.matching:,}" + ("" if counted.is_complete else " or more")
                return await self._page(filters, replay=replay, count=count)
            job = await deliveries.replay(instance, replay, without_global=not _sees_global())
        except HookgwError as error:
            return await self._page(filters, error=error)
        if job.error is not None:
            return await self._page(filters, error=Conflict(job.error))
        return self._site.redirect("/deliveries", **_given(filters), done="replayed")


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


def _sees_global() -> bool:
    """Return whether the session sees deliveries to registrations of the configuration."""
    return visitor().principal.is_global


def _moment(text: str, where: str, now: float) -> float | None:
    """Return the time that a filter names: in RFC 3339, or as a duration before now."""
    if not text:
        return None
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        # The browser's own field for a time has neither seconds nor an offset.
        return parse_rfc3339(f"{text}:00Z" if len(text) == 16 else text)
    except (ValueError, OverflowError):
        raise Invalid(
            f"{where} must be a time such as 2026-11-20T12:00:00Z, or 2h for two hours ago."
        ) from None


def _entered(within: Callable[[Filters], Filters], form: Form) -> Filters:
    return within(Filters(**{name: form.get(name)[:200] for name in Filters._fields}))


def _given(filters: Filters) -> dict[str, str]:
    return {name: value for name, value in filters._asdict().items() if value}
