"""The overview: the present figures and problems."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from quart import Response, request

from hookgw.core.access import names_within
from hookgw.operations.activity import Counts, sum_of
from hookgw.records.api_keys import Principal, Right
from hookgw.records.problems import Problem
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.shards import SHARDS
from hookgw.site.chart import HEIGHT, WIDTH, bars
from hookgw.site.site import NavEntry, Site, visitor
from hookgw.site.streams import Streams
from hookgw.web.needs import within_reach

MOST_PROBLEMS = 20
"""The most problems on the page, at first."""
ALL_PROBLEMS = 500
"""The most on the page that shows more of them."""
MOST_COUNTED = 100
"""Instances whose deliveries are counted for a key that does not reach everything: each takes a search."""
_PERIODS = ("minute", "hour", "day")
_MINUTES = 60
_HOUR, _DAY = 3_600, 86_400
_THIS_MACHINE = ip_address("127.0.0.1")


class ShownProblem(NamedTuple):
    """A problem.

    Attributes:
        path: of the page below the dashboard that helps.
        why: the problem, in sentences.
        since: seconds since the epoch; ``None`` if that is not known.
        detail: helps to recognise it: a URL.
        skips: a delivery that may be skipped, as ``<instance>/<id>``.
    """

    title: str
    path: str
    why: str
    since: float | None = None
    detail: str = ""
    skips: str = ""


class Period(NamedTuple):
    name: str
    counts: Counts


class Figures(NamedTuple):
    """The figures of the last minute, hour and day.

    Attributes:
        minutes: delivered and dead deliveries, in each minute of the last hour.
        is_complete: whether everything was counted; otherwise these are the newest.
    """

    periods: list[Period]
    minutes: list[tuple[int, int]]
    is_complete: bool = True


class OverviewPage:
    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        networks = map(ip_network, site.gateway.settings.delivery.allow_networks)
        self._reaches_this_machine = any(_THIS_MACHINE in network for network in networks)
        site.nav.append(NavEntry("Overview", ""))
        site.add("/", self.show, within_reach(Right.READ))
        site.add("/live/overview", self.live, within_reach(Right.READ))

    async def show(self) -> Response:
        most, address = self._asked()
        return await self._site.render(
            "overview.html",
            now=await self._now(visitor().principal, most, address),
            live="/live/overview" + ("?problems=all" if most == ALL_PROBLEMS else ""),
        )

    async def live(self) -> Response:
        principal = visitor().principal
        most, address = self._asked()

        async def render() -> str:
            return await self._now(principal, most, address)

        return self._streams.open(visitor().signed_in, ("overview", principal, most, address), render)

    def _asked(self) -> tuple[int, str]:
        """Return how many problems to show, and the URL of hookgw for the reader's programs."""
        most = ALL_PROBLEMS if request.args.get("problems") == "all" else MOST_PROBLEMS
        settings = self._gateway.settings.server
        public = settings.public_url
        # A name without a dot is known in a network of containers, and not where the reader is.
        if public is None or "." not in (urlsplit(public).hostname or ""):
            return most, f"{request.scheme}://{request.host[:255]}{settings.base_path}"
        return most, public

    async def _now(self, principal: Principal, most: int, address: str) -> str:
        gateway = self._gateway
        names = names_within(gateway.registry, principal)
        instance = names[0] if names is not None and len(names) == 1 else None
        # One more than is shown, to know whether there are more.
        found = await gateway.views.overview(names, most + 1)
        problems = [_of_node(node, problem) for node, problem in found.system]
        problems += map(_shown, found.problems)
        if names is None:
            figures = Figures(list(map(Period, _PERIODS, found.periods)), found.minutes)
            backlog, instances = gateway.backlog.size, gateway.instances.count()
            pending = sum(count for _, (count, _) in gateway.backlog.instances())
            has_webhook = any(gateway.registrations.page(("", ""), 1))
        else:
            figures = await self._figures_of(names)
            amounts = [gateway.backlog.of_instance(name) for name in names]
            pending, backlog = sum(one[0] for one in amounts), sum(one[1] for one in amounts)
            instances = len(names)
            has_webhook = any(gateway.registrations.of_instance(name) for name in names)
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
            nodes=found.nodes,
            silent=found.silent,
            refusing=found.refusing,
            shards=SHARDS,
            shows_all=most == ALL_PROBLEMS,
            all_problems=ALL_PROBLEMS,
            is_empty=not has_webhook,
            reaches_this_machine=self._reaches_this_machine,
            address=address,
        )

    async def _figures_of(self, names: Sequence[str]) -> Figures:
        """Count the deliveries of instances from the history: the counters are the gateway's."""
        history, now = self._gateway.history, self._gateway.clock.wall()
        this_minute, is_complete = int(now // 60), len(names) <= MOST_COUNTED
        minutes, periods = [(0, 0)] * _MINUTES, [Counts(), Counts(), Counts()]
        for name in names[:MOST_COUNTED]:
            day = await history.tally(name, since=now - _DAY, without_global=True)
            minute = await history.tally(name, since=now - 60, without_global=True)
            is_complete = is_complete and day.is_complete
            for one in day.minutes:
                place = _MINUTES - 1 - (this_minute - int(one.at // 60))
                if 0 <= place < _MINUTES:
                    delivered, dead = minutes[place]
                    minutes[place] = delivered + one.delivered, dead + one.dead
            hour = [one for one in day.minutes if one.at > now - _HOUR]
            for number, found in enumerate((minute.minutes, hour, day.minutes)):
                periods[number] = sum_of((periods[number], *(Counts(*one[1:]) for one in found)))
        return Figures(list(map(Period, _PERIODS, periods)), minutes, is_complete)


def _of_node(node: str, problem: Problem) -> ShownProblem:
    """Return a problem of the process, or of a node, if there is a fleet."""
    title = f"Plugin {problem.plugin}" if problem.plugin else "Storage"
    if not node:
        return ShownProblem(title, "/system", problem.why, problem.since)
    return ShownProblem(f"{title} on node {node}", f"/system?node={quote(node)}", problem.why, problem.since)


def _shown(problem: Problem) -> ShownProblem:
    instance, label, why, since = problem.instance, problem.label, problem.why, problem.since
    if instance == GLOBAL_INSTANCE:
        title = f"Webhook {label} of every instance"
        return ShownProblem(title, "/lanes", why, since, problem.detail, problem.delivery)
    path = f"/instances/{quote(instance)}"
    if not label:
        return ShownProblem(instance, path, why, since)
    title, path = f"Webhook {label} of {instance}", f"{path}/webhooks/{quote(label)}"
    return ShownProblem(title, path, why, since, problem.detail, problem.delivery)
