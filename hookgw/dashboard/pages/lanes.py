"""The lanes: what each one does now, and what it waits for."""

from __future__ import annotations

import heapq
from typing import NamedTuple
from urllib.parse import quote

import trio
from quart import Response

from hookgw.api.auth import check_access
from hookgw.dashboard.site import NavEntry, Site, visitor
from hookgw.dashboard.streams import Streams
from hookgw.models.api_keys import Principal
from hookgw.models.deliveries import LaneState, LaneStatistics
from hookgw.models.registrations import GLOBAL_INSTANCE

MOST_LANES = 200
"""The most lanes on the page: those with the largest backlogs."""
_AT_ONCE = 200
_ORDER = {LaneState.WAITING: 0, LaneState.PAUSED: 1, LaneState.DELIVERING: 2, LaneState.IDLE: 3}


class Row(NamedTuple):
    """A lane in the list.

    Attributes:
        lane: a snapshot.
        instance: of its registration; ``None`` if the registration was deleted.
        label: of its registration.
        path: of the registration's page below the dashboard; empty if it has none.
        head_since, waiting_until: seconds since the epoch.
        waits_for: what it waits for beside a time, in words.
    """

    lane: LaneStatistics
    instance: str | None
    label: str | None
    path: str
    head_since: float | None
    waiting_until: float | None
    waits_for: str | None


class LanesPage:
    """``/dashboard/lanes``.

    Args:
        site: the dashboard.
        streams: updates the list.
    """

    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        site.nav.append(NavEntry("Lanes", "/lanes"))
        site.add("/lanes", self.show)
        site.add("/live/lanes", self.live)
        site.add("/lanes/resume", self.resume, "POST", page="/lanes")

    async def show(self) -> Response:
        """Show the lanes."""
        return await self._site.render("lanes.html", table=await self._table(visitor().principal))

    async def live(self) -> Response:
        """Stream the lanes."""
        principal = visitor().principal

        async def render() -> str:
            return await self._table(principal)

        return self._streams.open(visitor().signed_in, ("lanes", principal.instance), render)

    async def resume(self) -> Response:
        """End the pause of a registration, and try what waits now."""
        form = await self._site.form()
        instance, _, label = form.get("webhook").partition("/")
        check_access(visitor().principal, instance, label)
        await self._gateway.registrations.resume(instance, label)
        return self._site.redirect("/lanes", done="resumed")

    async def _table(self, principal: Principal) -> str:
        registrations = self._gateway.registrations
        found: list[LaneStatistics] = []
        if principal.instance is None:
            for number, lane in enumerate(self._gateway.dispatcher.each_lane()):
                found.append(lane)
                if number % _AT_ONCE == 0:
                    # Ten thousand lanes take longer than others should wait.
                    await trio.lowlevel.checkpoint()
        else:
            for registration in registrations.of_instance(principal.instance):
                found += self._gateway.dispatcher.lanes(registration.id)
        first = heapq.nsmallest(MOST_LANES, found, key=lambda lane: (_ORDER[lane.state], -lane.backlog))
        await trio.lowlevel.checkpoint()
        rows = [self._row(lane) for lane in first]
        return await self._site.fragment("lanes_table.html", rows=rows, count=len(found))

    def _row(self, lane: LaneStatistics) -> Row:
        registration = self._gateway.registrations.by_id(lane.registration)
        instance = registration.instance if registration else None
        wall = self._gateway.clock.wall() - self._gateway.clock.steady()
        path = ""
        if registration is not None and instance is not None and instance != GLOBAL_INSTANCE:
            path = f"/instances/{quote(instance)}/webhooks/{quote(registration.label)}"
        return Row(
            lane,
            "every instance" if instance == GLOBAL_INSTANCE else instance,
            registration.label if registration else None,
            path,
            None if lane.head_since is None else lane.head_since + wall,
            None if lane.waiting_until is None else lane.waiting_until + wall,
            lane.waits_for,
        )
