"""The overview: the present figures and problems."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

import trio
from quart import Response, request

from hookgw.core.access import names_within
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, NotFound
from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.operations.figures import MOST_ADDED
from hookgw.operations.pages.tour import TourPage
from hookgw.operations.views import MOST_GROUPED
from hookgw.records.api_keys import Principal, Right
from hookgw.records.problems import Loss, Mute, Problem, ProblemGroup, Repair
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.sentences import DONE_OF
from hookgw.records.shards import SHARDS
from hookgw.records.told_sentences import sentence_text
from hookgw.site.figure_part import asked_span, figure_part
from hookgw.site.moments import parse_moment, reader_zone
from hookgw.site.page_paths import instance_path, webhook_path
from hookgw.site.site import NavEntry, Page, Site, visitor
from hookgw.web.auth import check_named
from hookgw.web.needs import within_reach
from hookgw.webhooks.backfills import Found

MOST_PROBLEMS = 20
"""The most groups of problems on the page, at first."""
ALL_PROBLEMS = 500
"""The most on the page that shows more of them."""
MOST_MEMBERS = 50
"""Problems of a group that are named."""
MOST_MISSED = 20
"""Disabled webhooks of a group whose missed events are counted; the count is kept for a minute."""
MISSED_SECONDS = 0.2
"""For so long a page waits for these counts."""
_LOSSES = {
    Loss.EVENTS: N_("events are lost"),
    Loss.ACCOUNT: N_("account is out"),
    Loss.TIME: N_("waiting"),
    Loss.UNKNOWN: N_("look"),
}
_LOSS_STATES = {Loss.EVENTS: "dead", Loss.ACCOUNT: "failing", Loss.TIME: "waiting", Loss.UNKNOWN: ""}
_REPAIRS = {
    Repair.TRY: N_("Try all"),
    Repair.PAUSE: N_("Pause all"),
    Repair.ENABLE: N_("Enable, and send what it missed"),
    Repair.CONNECT: N_("Connect"),
}
_REPAIRED = {
    Repair.TRY: "resumed",
    Repair.PAUSE: "paused",
    Repair.ENABLE: "backfilling_all",
    Repair.CONNECT: "connecting",
}


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


class ShownGroup(NamedTuple):
    """Problems with one cause.

    Attributes:
        loss: what it costs, in words, and ``state`` its colour.
        webhooks, instances: how many it concerns.
        members: the longest first; ``others`` are not among them.
        why: what all of them say, in sentences.
        missed: how many events its webhooks have missed, and whether that is all; ``None`` if unknown.
        repairs: what can be done about all of it, with the words for it.
    """

    id: str
    title: str
    loss: str
    state: str
    since: float | None
    pending: int
    webhooks: int
    instances: int
    members: list[ShownProblem]
    others: int
    why: str
    missed: tuple[int, bool] | None
    repairs: list[tuple[Repair, str]]
    mute: Mute | None


class Asked(NamedTuple):
    """How a request wants the overview.

    Attributes:
        most: how many groups of problems to show.
        address: that of the tour.
    """

    most: int
    address: str
    hides_tour: bool


class OverviewPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._tour = TourPage(site)
        site.nav.append(NavEntry(N_("Overview"), ""))
        site.add("/", self.show, within_reach(Right.READ))
        site.add("/live/overview", self.live, within_reach(Right.READ))
        site.add("/problems/repair", self.repair, within_reach(Right.READ), "POST", page="/")
        site.add("/problems/mute", self.mute, Right.OPERATE, "POST", page="/")
        site.add("/problems/unmute", self.unmute, Right.OPERATE, "POST", page="/")
        self._missed: dict[str, tuple[float, Found | None]] = {}

    async def show(self) -> Response:
        asked = self._asked()
        return await self._page(asked)

    async def _page(
        self, asked: Asked, error: HookgwError | None = None, entered: Mapping[str, str] | None = None
    ) -> Response:
        return await self._site.render(
            "overview.html",
            error=error,
            now=await self._now(visitor().principal, asked, entered),
            charts=await self._charts(visitor().principal),
            live="/live/overview" + ("?problems=all" if asked.most == ALL_PROBLEMS else ""),
        )

    async def live(self) -> Response:
        principal, asked = visitor().principal, self._asked()
        render = partial(self._now, principal, asked)
        return self._streams.open(("overview", principal, asked), render)

    def _asked(self) -> Asked:
        shows_all = request.args.get("problems") == "all"
        return Asked(
            ALL_PROBLEMS if shows_all else MOST_PROBLEMS,
            self._tour.address(),
            self._tour.is_hidden(),
        )

    async def _now(self, principal: Principal, asked: Asked, entered: Mapping[str, str] | None = None) -> str:
        gateway, most = self._gateway, asked.most
        names = names_within(gateway.registry, principal)
        instance = names[0] if names is not None and len(names) == 1 else None
        found = await gateway.views.overview(names, MOST_GROUPED)
        groups = await gateway.views.grouped(found, with_mutes=principal.is_global)
        muted = [one for one in groups if one.mute is not None]
        groups = [one for one in groups if one.mute is None]
        if names is None:
            backlog, instances = gateway.backlog.size, gateway.instances.count()
            pending = sum(count for _, (count, _) in gateway.backlog.instances())
            has_webhook = any(gateway.registrations.page(("", ""), 1))
        else:
            amounts = [gateway.backlog.of_instance(name) for name in names]
            pending, backlog = sum(one[0] for one in amounts), sum(one[1] for one in amounts)
            instances = len(names)
            has_webhook = any(gateway.registrations.of_instance(name) for name in names)
        day = await gateway.figures.day_of(None if names is None else names[:MOST_ADDED])
        return await self._site.fragment(
            "overview_now.html",
            instance=instance,
            instances=instances,
            pending=pending,
            backlog=backlog,
            day=day,
            is_complete=names is None or len(names) <= MOST_ADDED,
            groups=[await self._shown_group(one, principal) for one in groups[:most]],
            muted=[await self._shown_group(one, principal) for one in muted[:most]],
            may_mute=principal.is_operator,
            entered=entered,
            may_skip=principal.rights.has(Right.REPLAY),
            has_more=len(groups) > most,
            codes=found.codes if principal.rights.has(Right.CONNECT) else 0,
            nodes=found.nodes,
            silent=found.silent,
            refusing=found.refusing,
            shards=SHARDS,
            shows_all=most == ALL_PROBLEMS,
            all_problems=ALL_PROBLEMS,
            is_empty=not has_webhook,
            tour=None
            if asked.hides_tour
            else await self._tour.of_overview(principal, asked.address, day.delivered),
        )

    async def _shown_group(self, group: ProblemGroup, principal: Principal) -> ShownGroup:
        members = [_shown(one) for one in group.problems[:MOST_MEMBERS]]
        repairs = group.repairs
        return ShownGroup(
            group.id,
            sentence_text(group.title) or members[0].title,
            _(_LOSSES[group.loss]),
            _LOSS_STATES[group.loss],
            group.since,
            group.pending,
            group.webhooks,
            group.instances,
            members,
            len(group.problems) - len(members),
            members[0].why if all(one.why == members[0].why for one in members) else "",
            await self._missed_by(group) if Repair.ENABLE in repairs else None,
            [(one, _(_REPAIRS[one])) for one in repairs if all(map(principal.rights.has, one.rights))],
            group.mute,
        )

    async def _missed_by(self, group: ProblemGroup) -> tuple[int, bool] | None:
        """Count what disabled webhooks have missed, as far as that is quick; counts are kept for a minute."""
        gateway, now = self._gateway, trio.current_time()
        counted = {}
        with trio.move_on_after(MISSED_SECONDS):
            for one in group.problems[:MOST_MISSED]:
                registration = gateway.registrations.find(one.instance, one.label)
                if registration is None:
                    continue
                at, found = self._missed.get(registration.id, (0.0, None))
                if registration.id not in self._missed or now - at > 60:
                    found = await gateway.backfills.missed_while_disabled(registration)
                    self._missed[registration.id] = now, found
                if found is not None:
                    counted[registration.id] = found
        if len(self._missed) > 10 * MOST_MISSED:
            self._missed = {name: one for name, one in self._missed.items() if now - one[0] <= 60}
        if not counted:
            return None
        is_complete = len(counted) == len(group.problems) and all(one.is_complete for one in counted.values())
        return sum(one.count for one in counted.values()), is_complete

    async def _group(self, name: str) -> ProblemGroup:
        principal, gateway = visitor().principal, self._gateway
        names = names_within(gateway.registry, principal)
        return await gateway.views.problem_group(name, names, with_mutes=principal.is_global)

    async def repair(self) -> Response:
        """Do one thing about all problems of a group."""
        form = await self._site.form()
        word, _, name = form.get("repair").partition(":")
        principal, gateway = visitor().principal, self._gateway
        asked = self._asked()
        try:
            group = await self._group(name)
            repair = next((one for one in group.repairs if one == word), None)
            if repair is None:
                raise Invalid.of("problem.no_order", "Choose what to do about it.")
            places = [(one.instance, one.label) for one in group.problems if one.instance != GLOBAL_INSTANCE]
            for instance, _ in places:
                for right in repair.rights:
                    check_named(gateway.registry, principal, right, instance)
            part = await gateway.views.repair(repair, places)
            if part.refused:
                refused = [f"{place}: {' '.join(why)}" for place, why in part.refused[:MOST_MEMBERS]]
                raise Conflict(DONE_OF(done=part.done, count=len(places)), *refused)
        except (Conflict, Invalid, NotFound) as error:
            return await self._page(asked, error)
        return self._site.back("/", _REPAIRED[repair])

    async def mute(self) -> Response:
        form = await self._site.form()
        name, now = form.get("mute"), self._gateway.clock.wall()
        asked = self._asked()
        entered = {"mute": name, "reason": form.get(f"reason-{name}"), "until": form.get(f"until-{name}")}
        try:
            until = parse_moment(entered["until"], "Until", now, reader_zone(), is_ahead=True)
            await self._gateway.views.mutes.mute(await self._group(name), entered["reason"], until)
        except (Invalid, NotFound) as error:
            return await self._page(asked, error, entered)
        return self._site.back("/", "muted")

    async def unmute(self) -> Response:
        form = await self._site.form()
        await self._gateway.views.mutes.unmute(form.get("unmute"))
        return self._site.back("/", "unmuted")

    async def _charts(self, principal: Principal) -> str:
        """Return the charts of what a key reaches; empty if that is nothing yet, or too much to add up."""
        registry = self._gateway.registry
        names = names_within(registry, principal)
        has_webhook = any(registry.page(("", ""), 1, names))
        try:
            series = await self._gateway.figures.within(principal, (), asked_span()) if has_webhook else None
        except Invalid:
            series = None
        if series is None:
            return ""
        return await figure_part(self._site, series, here="/", target="/deliveries", more="/figures")


def _of_system(problem: Problem) -> ShownProblem:
    """Return a problem of the process, or of a node, if there is a fleet."""
    node, why = problem.node, sentence_text(problem.why)
    title = _("Plugin {name}", name=problem.plugin) if problem.plugin else _("Storage")
    if not node:
        return ShownProblem(title, "/system", why, problem.since)
    title = _("{what} on node {node}", what=title, node=node)
    return ShownProblem(title, f"/system?node={quote(node)}", why, problem.since)


def _shown(problem: Problem) -> ShownProblem:
    if not problem.instance:
        return _of_system(problem)
    instance, label, why, since = problem.instance, problem.label, sentence_text(problem.why), problem.since
    if instance == GLOBAL_INSTANCE:
        title = _("Webhook {webhook} of every instance", webhook=label)
        return ShownProblem(title, "/lanes", why, since, problem.detail, problem.delivery)
    if not label:
        return ShownProblem(instance, instance_path(instance), why, since)
    title = _("Webhook {webhook} of {instance}", webhook=label, instance=instance)
    path = webhook_path(instance, label)
    return ShownProblem(title, path, why, since, problem.detail, problem.delivery)
