"""The overview: what is going on now, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import trio
from quart import Response

from hookgw.dashboard.chart import HEIGHT, WIDTH, bars
from hookgw.dashboard.site import NavEntry, Site, visitor
from hookgw.dashboard.streams import Streams
from hookgw.gateway.activity import Counts
from hookgw.models.api_keys import Principal
from hookgw.models.connectors import ConnectionState
from hookgw.models.deliveries import DeliveryState
from hookgw.models.registrations import GLOBAL_INSTANCE, Registration
from hookgw.store import DeliveryQuery

MOST_PROBLEMS = 20
"""The most problems on the page."""
_MINUTES = 60
_AT_ONCE = 200
_DAY = 86_400
_COUNTED = 1_000


class Problem(NamedTuple):
    """Something that is wrong.

    Attributes:
        sentence: what it is, and why.
        since: seconds since the epoch; ``None`` if that is not known.
        path: of the page below the dashboard that helps; empty if there is none.
        link: the text of the link.
    """

    sentence: str
    since: float | None
    path: str = ""
    link: str = ""


class Period(NamedTuple):
    """A row of the figures."""

    name: str
    counts: Counts


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
        site.nav.append(NavEntry("Overview", ""))
        site.add("/", self.show)
        site.add("/live/overview", self.live)

    async def show(self) -> Response:
        """Show what is going on."""
        principal = visitor().principal
        return await self._site.render("overview.html", now=await self._now(principal))

    async def live(self) -> Response:
        """Stream what is going on."""
        principal = visitor().principal

        async def render() -> str:
            return await self._now(principal)

        return self._streams.open(visitor().signed_in, ("overview", principal.instance), render)

    async def _now(self, principal: Principal) -> str:
        gateway, instance = self._gateway, principal.instance
        problems = await self._problems(principal)
        activity = gateway.activity
        periods, minutes, highest = [], [], 0
        if instance is None:
            periods = [
                Period("minute", activity.last_minute()),
                Period("hour", activity.since(3600)),
                Period("day", activity.since(_DAY)),
            ]
            of_minutes = [(one.delivered, one.dead) for one in activity.by_minute(_MINUTES)]
            minutes, highest = bars(of_minutes), max(map(sum, of_minutes))
            backlog, instances = gateway.backlog.size, len(gateway.instances.all())
            pending = sum(count for _, (count, _) in gateway.backlog.instances())
            has_webhook = any(gateway.registrations.page(("", ""), 1))
            dead = periods[2].counts.dead
        else:
            pending, backlog = gateway.backlog.of_instance(instance)
            instances, has_webhook = 1, bool(gateway.registrations.of_instance(instance))
            dead = await self._dead_of_day(instance)
        return await self._site.fragment(
            "overview_now.html",
            instance=instance,
            instances=instances,
            pending=pending,
            backlog=backlog,
            dead=dead,
            dead_is_more=instance is not None and dead >= _COUNTED,
            periods=periods,
            bars=minutes,
            highest=highest,
            chart=(WIDTH, HEIGHT),
            problems=problems,
            is_empty=not has_webhook,
            address=gateway.settings.server.public_url
            or "http://127.0.0.1:8080" + self._site.root[: -len("/dashboard")],
        )

    async def _dead_of_day(self, instance: str) -> int:
        page = await self._gateway.history.list(
            DeliveryQuery(
                instance=instance,
                state=DeliveryState.DEAD,
                since=self._gateway.clock.wall() - _DAY,
                limit=_COUNTED,
                without_global=True,
            )
        )
        return len(page.deliveries)

    async def _problems(self, principal: Principal) -> list[Problem]:
        """Return what is wrong, the worst first."""
        found = [*self._system_problems()] if principal.is_global else []
        found += self._failing(principal)
        instances = self._gateway.instances
        names = [principal.instance] if principal.instance else [one.name for one in instances.all()]
        for number, name in enumerate(names):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()  # ten thousand instances take longer than others should wait
            if len(found) >= MOST_PROBLEMS:
                break
            found += self._of_instance(name)
        return found[:MOST_PROBLEMS]

    def _system_problems(self) -> Iterator[Problem]:
        gateway = self._gateway
        for reason in (gateway.disk.shortage, gateway.metrics.disk_failure):
            if reason is not None:
                yield Problem(str(reason), None, "/system", "System")
        for task in gateway.restarts.failing():
            if task.instance is None:
                yield Problem(f"The plugin {task.plugin} fails: {task.reason}", None, "/system", "System")

    def _failing(self, principal: Principal) -> Iterator[Problem]:
        gateway = self._gateway
        failing = [one for one in gateway.auto_disable.failing() if _sees(principal, one[0])]
        wall = gateway.clock.wall() - gateway.clock.steady()
        for registration, since in sorted(failing, key=lambda one: one[1])[:MOST_PROBLEMS]:
            errors = (lane.last_error for lane in gateway.dispatcher.lanes(registration.id))
            why = next(filter(None, errors), "Attempts fail.")
            yield Problem(
                f"{registration.address} does not accept events of {_owner(registration)}. {why}",
                since + wall,
                *_link(registration),
            )

    def _of_instance(self, name: str) -> Iterator[Problem]:
        gateway = self._gateway
        for registration in gateway.registrations.of_instance(name):
            if registration.disabled_reason is not None:
                yield Problem(
                    f"The webhook {registration.label} of {name} is disabled. {registration.disabled_reason}",
                    registration.updated_at,
                    *_link(registration),
                )
        instance = gateway.instances.find(name)
        if instance is None or not instance.connected:
            return
        if gateway.instances.connection_state(name) is ConnectionState.CLOSE:
            reason = gateway.instances.close_reason(name) or ""
            yield Problem(
                f"{name} is not connected. {reason}".rstrip(), None, f"/instances/{quote(name)}", name
            )


def _sees(principal: Principal, registration: Registration) -> bool:
    return principal.is_global or registration.instance == principal.instance


def _owner(registration: Registration) -> str:
    return "every instance" if registration.instance == GLOBAL_INSTANCE else registration.instance


def _link(registration: Registration) -> tuple[str, str]:
    if registration.instance == GLOBAL_INSTANCE:
        return "/lanes", "Lanes"
    path = f"/instances/{quote(registration.instance)}/webhooks/{quote(registration.label)}"
    return path, f"webhook {registration.label} of {registration.instance}"
