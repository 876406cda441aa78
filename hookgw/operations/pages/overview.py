"""The overview: the present figures and problems."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from quart import Response, request

from hookgw.operations.activity import Counts
from hookgw.records.api_keys import Principal
from hookgw.records.problems import Problem, ProblemKind
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.shards import SHARDS
from hookgw.site.chart import HEIGHT, WIDTH, bars
from hookgw.site.site import NavEntry, Site, visitor
from hookgw.site.streams import Streams

MOST_PROBLEMS = 20
"""The most problems on the page, at first."""
ALL_PROBLEMS = 500
"""The most on the page that shows more of them."""
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
        enables: a disabled webhook, as ``<instance>/<label>``.
    """

    title: str
    path: str
    why: str
    since: float | None = None
    detail: str = ""
    skips: str = ""
    enables: str = ""


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
        site.add("/", self.show)
        site.add("/live/overview", self.live)

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

        return self._streams.open(
            visitor().signed_in, ("overview", principal.instance, most, address), render
        )

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
        gateway, instance = self._gateway, principal.instance
        # One more than is shown, to know whether there are more.
        found = await gateway.views.overview(instance, most + 1)
        problems = [_of_node(node, problem) for node, problem in found.system]
        problems += map(_shown, found.problems)
        if instance is None:
            names = ("minute", "hour", "day")
            figures = Figures(list(map(Period, names, found.periods)), found.minutes)
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

    async def _figures_of(self, instance: str) -> Figures:
        """Count an instance's deliveries from the history: the counters are the gateway's."""
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
    enables = f"{instance}/{label}" if problem.kind is ProblemKind.WEBHOOK_DISABLED else ""
    return ShownProblem(title, path, why, since, problem.detail, problem.delivery, enables)
