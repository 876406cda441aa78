"""The lanes, with their states and waits."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from quart import Response

from hookgw.core.access import names_within
from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import LaneState, LaneStatistics, ReportedLane
from hookgw.records.lane_lists import LaneFilter
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.stuck_lanes import advice_for, skippable
from hookgw.site.list_view import Column, ListView, in_pages, keep_columns, read_view
from hookgw.site.page_paths import webhook_path
from hookgw.site.site import NavEntry, Page, Site, visitor
from hookgw.site.words import wait_in_words
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_call
from hookgw.web.needs import within_reach

PAGE = 50
"""Lanes on a page."""
_SORTS = ("webhook", "pending", "oldest")
_COLUMNS = (
    Column("pending", N_("Pending"), sort="pending", style="c-count number"),
    Column("oldest", N_("Oldest since"), sort="oldest", style="c-time"),
    Column("receiver", N_("Receiver"), style="c-url"),
    Column("error", N_("Last error"), is_usual=False, style="c-error"),
    Column("node", N_("Node"), is_usual=False, style="c-name"),
)


class Row(NamedTuple):
    """A lane in the list.

    Attributes:
        instance, label: of its registration; ``None`` if that was deleted.
        path: of the registration's page below the dashboard; empty if it has none.
        head_since, waiting_until: seconds since the epoch.
        waits_for: the reason of its wait beside a time, in words.
        node: empty without a fleet.
        skips: the delivery that it tries in vain, as ``<instance>/<id>``; empty for none.
        advice: why it is held up, and the remedy, in sentences.
    """

    lane: LaneStatistics
    instance: str | None
    label: str | None
    path: str
    head_since: float | None
    waiting_until: float | None
    waits_for: str | None
    node: str
    skips: str
    advice: str | None


class LanesPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.nav.append(NavEntry(N_("Lanes"), "/lanes"))
        site.add("/lanes", self.show, within_reach(Right.READ))
        site.add("/live/lanes", self.live, within_reach(Right.READ))
        site.add("/lanes/resume", self.resume, within_reach(Right.WEBHOOKS), "POST", page="/lanes")

    async def show(self) -> Response:
        view, principal = _asked(), visitor().principal
        response = await self._site.render(
            "lanes.html",
            view=view,
            states=list(LaneState),
            table=await self._table(principal, view),
            live=f"/live/lanes?{view.query()}",
        )
        return keep_columns(response, view, self._site.root)

    async def live(self) -> Response:
        principal, view = visitor().principal, _asked()
        render = partial(self._table, principal, view)
        return self._streams.open(("lanes", principal, view), render)

    async def resume(self) -> Response:
        """End the pause of a registration, and try its waiting lanes now."""
        form = await self._site.form()
        instance, _, label = form.get("webhook").partition("/")
        check_named(self._gateway.registry, visitor().principal, Right.WEBHOOKS, instance, label)
        elsewhere = await forward_call(instance)
        if elsewhere is not None:
            return elsewhere
        await self._gateway.registrations.resume(instance, label)
        return self._site.back("/lanes", "resumed")

    async def _table(self, principal: Principal, view: ListView) -> str:
        only = LaneFilter(
            state=view.get("state") if view.get("state") in list(LaneState) else "",
            search=view.get("search").casefold(),
            with_idle=bool(view.get("idle")),
        )
        names = names_within(self._gateway.registry, principal)
        found = await self._gateway.views.lanes(among=names, most=view.page * PAGE, only=only, sort=view.sort)
        page, pages = in_pages(found.total, view.page, PAGE)
        return await self._site.fragment(
            "lanes_table.html",
            rows=[self._row(lane, node) for node, lane in found.lanes[(page - 1) * PAGE :]],
            total=found.total,
            page=page,
            pages=pages,
            view=view,
            is_filtered=bool(only.state or only.search),
            silent=found.silent,
            may_resume=principal.rights.has(Right.WEBHOOKS),
            may_skip=principal.rights.has(Right.REPLAY),
        )

    def _row(self, reported: ReportedLane, node: str) -> Row:
        lane, instance, label = reported.lane, reported.instance, reported.label
        now = self._gateway.clock.steady()
        apart, path = self._gateway.clock.apart(), ""
        if instance is not None and label is not None and instance != GLOBAL_INSTANCE:
            path = webhook_path(instance, label)
        return Row(
            lane,
            _("every instance") if instance == GLOBAL_INSTANCE else instance,
            label,
            path,
            None if lane.head_since is None else lane.head_since + apart,
            None if lane.waiting_until is None else lane.waiting_until + apart,
            wait_in_words(lane.waits_for),
            node,
            skippable(lane),
            advice_for(lane, now),
        )


def _asked() -> ListView:
    return read_view("/lanes", ("search", "state", "idle"), _SORTS, _COLUMNS)
