"""The overview: what is going on now, and what is wrong."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote

import trio
from quart import Response, request

from hookgw.dashboard.chart import HEIGHT, WIDTH, bars
from hookgw.dashboard.site import NavEntry, Site, visitor
from hookgw.dashboard.streams import Streams
from hookgw.gateway.activity import Counts
from hookgw.gateway.connectors.states import LOGGED_OUT_HERE
from hookgw.models.api_keys import Principal
from hookgw.models.connectors import ConnectionState
from hookgw.models.registrations import GLOBAL_INSTANCE, Registration

MOST_PROBLEMS = 20
"""The most problems on the page, at first."""
ALL_PROBLEMS = 500
"""The most on the page that shows more of them."""
_MINUTES = 60
_AT_ONCE = 200
_HOUR, _DAY = 3_600, 86_400
_THIS_MACHINE = ip_address("127.0.0.1")


class Problem(NamedTuple):
    """Something that is wrong.

    Attributes:
        title: what it concerns.
        path: of the page below the dashboard that helps.
        why: what is wrong, in sentences.
        since: seconds since the epoch; ``None`` if that is not known.
        detail: what helps to recognise it: a URL.
    """

    title: str
    path: str
    why: str
    since: float | None = None
    detail: str = ""


class Period(NamedTuple):
    """A row of the figures."""

    name: str
    counts: Counts


class Figures(NamedTuple):
    """What happened lately.

    Attributes:
        periods: the last minute, hour and day.
        minutes: deliveries that were delivered and that became dead, in each minute of the last hour.
        is_complete: whether everything was counted; otherwise these are the newest.
    """

    periods: list[Period]
    minutes: list[tuple[int, int]]
    is_complete: bool = True


class OverviewPage:
    """``/dashboard/``.

    Args:
        site: the dashboard.
        streams: updates what the page shows.
    """

    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        networks = map(ip_network, site.gateway.settings.delivery.allow_networks)
        self._reaches_this_machine = any(_THIS_MACHINE in network for network in networks)
        site.nav.append(NavEntry("Overview", ""))
        site.add("/", self.show)
        site.add("/live/overview", self.live)

    async def show(self) -> Response:
        """Show what is going on."""
        most, address = self._asked()
        return await self._site.render(
            "overview.html",
            now=await self._now(visitor().principal, most, address),
            live="/live/overview" + ("?problems=all" if most == ALL_PROBLEMS else ""),
        )

    async def live(self) -> Response:
        """Stream what is going on."""
        principal = visitor().principal
        most, address = self._asked()

        async def render() -> str:
            return await self._now(principal, most, address)

        return self._streams.open(
            visitor().signed_in, ("overview", principal.instance, most, address), render
        )

    def _asked(self) -> tuple[int, str]:
        """Return how many problems to show, and where the reader's programs find hookgw."""
        most = ALL_PROBLEMS if request.args.get("problems") == "all" else MOST_PROBLEMS
        settings = self._gateway.settings.server
        return most, settings.public_url or f"{request.scheme}://{request.host[:255]}{settings.base_path}"

    async def _now(self, principal: Principal, most: int, address: str) -> str:
        gateway, instance = self._gateway, principal.instance
        problems = await self._problems(principal, most)
        if instance is None:
            activity = gateway.activity
            figures = Figures(
                [
                    Period("minute", activity.last_minute()),
                    Period("hour", activity.since(_HOUR)),
                    Period("day", activity.since(_DAY)),
                ],
                [(one.delivered, one.dead) for one in activity.by_minute(_MINUTES)],
            )
            backlog, instances = gateway.backlog.size, gateway.instances.count()
            pending = sum(count for _, (count, _) in gateway.backlog.instances())
            has_webhook = any(gateway.registrations.page(("", ""), 1))
        else:
            figures = await self._figures_of(instance)
            pending, backlog = gateway.backlog.of_instance(instance)
            instances, has_webhook = 1, bool(gateway.registrations.of_instance(instance))
        return await self._site.fragment(
            "overview_now.html",
            instance=instance,
            instances=instances,
            pending=pending,
            backlog=backlog,
            figures=figures,
            bars=bars(figures.minutes),
            highest=max(map(sum, figures.minutes)),
            chart=(WIDTH, HEIGHT),
            problems=problems[:most],
            has_more=len(problems) > most,
            shows_all=most == ALL_PROBLEMS,
            all_problems=ALL_PROBLEMS,
            is_empty=not has_webhook,
            reaches_this_machine=self._reaches_this_machine,
            address=address,
        )

    async def _figures_of(self, instance: str) -> Figures:
        """Count what became of an instance's events, from the history: the counters are the gateway's."""
        history, now = self._gateway.history, self._gateway.clock.wall()
        day = await history.tally(instance, since=now - _DAY, without_global=True)
        minute = await history.tally(instance, since=now - 60, without_global=True)
        this_minute = int(now // 60)
        minutes = [(0, 0)] * _MINUTES
        for one in day.minutes:
            place = _MINUTES - 1 - (this_minute - int(one.at // 60))
            if 0 <= place < _MINUTES:
                minutes[place] = one.delivered, one.dead
        hour = (one for one in day.minutes if one.at > now - _HOUR)
        periods = [
            Period(name, Counts(*map(sum, zip(*(one[1:] for one in found), strict=True))))
            for name, found in (("minute", minute.minutes), ("hour", hour), ("day", day.minutes))
        ]
        return Figures(periods, minutes, day.is_complete)

    async def _problems(self, principal: Principal, most: int) -> list[Problem]:
        """Return what is wrong, the worst first: one more than is shown, if there are more."""
        found = [*self._system_problems()] if principal.is_global else []
        found += self._failing(principal, most + 1)
        instances = self._gateway.instances
        names = [principal.instance] if principal.instance else [one.name for one in instances.all()]
        for number, name in enumerate(names):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()  # ten thousand instances take longer than others should wait
            if len(found) > most:
                break
            found += self._of_instance(name)
        return found

    def _system_problems(self) -> Iterator[Problem]:
        gateway = self._gateway
        for reason in (gateway.disk.shortage, gateway.metrics.disk_failure):
            if reason is not None:
                yield Problem("Storage", "/system", str(reason))
        for task in gateway.restarts.failing():
            if task.instance is None:
                yield Problem(f"Plugin {task.plugin}", "/system", f"It fails: {task.reason}")

    def _failing(self, principal: Principal, most: int) -> Iterator[Problem]:
        gateway = self._gateway
        failing = [one for one in gateway.auto_disable.failing() if _sees(principal, one[0])]
        wall = gateway.clock.wall() - gateway.clock.steady()
        for registration, since in heapq.nsmallest(most, failing, key=lambda one: one[1]):
            errors = (lane.last_error for lane in gateway.dispatcher.lanes(registration.id))
            why = next(filter(None, errors), "Attempts fail.")
            yield Problem(*_link(registration), why, since + wall, registration.address)

    def _of_instance(self, name: str) -> Iterator[Problem]:
        gateway = self._gateway
        for registration in gateway.registrations.of_instance(name):
            if registration.disabled_reason is not None:
                why = f"Disabled. {registration.disabled_reason}"
                yield Problem(*_link(registration), why, registration.updated_at, registration.address)
        instance, states = gateway.instances.find(name), gateway.instances
        if instance is None or not instance.integration:
            return
        if states.connection_state(name) is not ConnectionState.CLOSE:
            return
        reason, closing = states.close_reason(name) or "", states.closing(name)
        is_recent = closing is not None and closing.at > gateway.clock.wall() - _DAY
        # If the network has ended a connection, that is a problem for a day; if somebody has, it is none.
        if instance.connected or (is_recent and reason != LOGGED_OUT_HERE):
            yield Problem(
                name,
                f"/instances/{quote(name)}",
                f"Not connected. {reason}".rstrip(),
                closing.at if closing else None,
            )


def _sees(principal: Principal, registration: Registration) -> bool:
    return principal.is_global or registration.instance == principal.instance


def _link(registration: Registration) -> tuple[str, str]:
    if registration.instance == GLOBAL_INSTANCE:
        return f"Webhook {registration.label} of every instance", "/lanes"
    path = f"/instances/{quote(registration.instance)}/webhooks/{quote(registration.label)}"
    return f"Webhook {registration.label} of {registration.instance}", path
