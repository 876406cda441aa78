"""One action on the webhooks of all lanes that match a filter: first a plan, then the action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from quart import Response

from hookgw.core.access import check_right, names_within, within
from hookgw.core.registry import Registry
from hookgw.kernel.errors import Conflict, HookgwError, Invalid
from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import with_masked_user
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import LaneState
from hookgw.records.lane_lists import LaneFilter
from hookgw.records.problems import Repair
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration
from hookgw.records.sentences import DONE_OF
from hookgw.site.list_view import MOST_SEARCH
from hookgw.site.site import Form, Page, Site, visitor
from hookgw.web.auth import check_named
from hookgw.web.needs import within_reach

MOST_WEBHOOKS = 500
"""The most webhooks that one action is for."""
MOST_NAMED = 5
"""The most receivers that a plan names."""
MOST_REFUSED = 5


class Action(NamedTuple):
    """What can be done.

    Attributes:
        words: on the button.
        effect: what it does to all of them, in a sentence.
        states: of the lanes that it is for; empty for all.
        done: the notice behind it.
    """

    repair: Repair
    words: str
    effect: str
    done: str
    states: tuple[LaneState, ...] = ()


ACTIONS = {
    "try": Action(
        Repair.TRY,
        N_("Try them now"),
        N_("Their lanes do not wait for their next attempts."),
        "resumed",
        (LaneState.WAITING,),
    ),
    "resume": Action(Repair.TRY, N_("Resume them"), N_("Their pauses end."), "resumed", (LaneState.PAUSED,)),
    "pause": Action(
        Repair.PAUSE,
        N_("Pause them"),
        N_("Their deliveries wait, in order, until somebody resumes them."),
        "paused",
        (LaneState.IDLE, LaneState.DELIVERING, LaneState.WAITING),
    ),
    "disable": Action(
        Repair.DISABLE,
        N_("Disable them"),
        N_("What is pending becomes dead letters, which can be sent again later."),
        "disabled",
    ),
    "enable": Action(
        Repair.ENABLE,
        N_("Enable them"),
        N_("They are sent what they missed while they were disabled, before anything newer."),
        "backfilling_all",
    ),
}


class Plan(NamedTuple):
    """What a confirmed action would do.

    Attributes:
        places: the webhooks, as ``<instance>/<label>``.
        instances, pending: how many there are of these.
        receivers: how many of the webhooks, and of the pending deliveries, go to which URL; most first.
        others: how many webhooks go elsewhere.
        is_complete: whether these are all that match.
    """

    name: str
    action: Action
    places: list[str]
    instances: int
    pending: int
    receivers: list[tuple[str, int, int]]
    others: int
    is_complete: bool


class LaneActions(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/lanes/all", self.act, within_reach(Right.WEBHOOKS), "POST", page="/lanes")

    async def act(self) -> Response:
        """Show the plan of an ``action``, or carry it out for each ``webhook`` that was confirmed."""
        form = await self._site.form()
        principal, gateway = visitor().principal, self._gateway
        name = form.get("action")
        try:
            action = ACTIONS.get(name)
            if action is None:
                raise Invalid.of(
                    "lanes.unknown_action", "action must be one of {actions}.", actions=", ".join(ACTIONS)
                )
            for right in action.repair.rights:
                check_right(principal, right)
            places = form.all("webhook")[:MOST_WEBHOOKS]
            if not places:
                return await self._page(await self._plan(name, action, form, principal))
            named = [(instance, label) for instance, _slash, label in (one.partition("/") for one in places)]
            for instance, label in named:
                check_named(gateway.registry, principal, Right.WEBHOOKS, instance, label)
            part = await gateway.views.repair(action.repair, named)
            if part.refused:
                refused = [f"{place}: {' '.join(why)}" for place, why in part.refused[:MOST_REFUSED]]
                raise Conflict(DONE_OF(done=part.done, count=len(named)), *refused)
        except (Conflict, Invalid) as error:
            return await self._page(None, error)
        return self._site.back("/lanes", action.done)

    async def _page(self, plan: Plan | None, error: HookgwError | None = None) -> Response:
        return await self._site.render(
            "lanes_plan.html",
            plan=plan,
            error=error,
        )

    async def _plan(self, name: str, action: Action, form: Form, principal: Principal) -> Plan:
        search = form.get("search")[:MOST_SEARCH].casefold()
        if action.repair is Repair.ENABLE:
            found = _webhooks(self._gateway.registry, principal, search, lambda one: not one.enabled)
        else:
            found = await self._lanes(action, form, principal, search)
        if name == "resume" and form.get("state") in ("", LaneState.PAUSED):
            # Without work they have no lane, and what comes next would wait.
            found = _webhooks(self._gateway.registry, principal, search, lambda one: one.is_paused) | found
        chosen = dict(sorted(found.items())[:MOST_WEBHOOKS])
        webhooks: Counter[str] = Counter(url for url, _pending in chosen.values())
        pending: Counter[str] = Counter()
        for url, count in chosen.values():
            pending[url] += count
        urls = sorted(webhooks, key=lambda url: (-pending[url], -webhooks[url], url))
        return Plan(
            name,
            action,
            [f"{instance}/{label}" for instance, label in chosen],
            len({instance for instance, _label in chosen}),
            pending.total(),
            [(url or _("an unknown URL"), webhooks[url], pending[url]) for url in urls[:MOST_NAMED]],
            sum(webhooks[url] for url in urls[MOST_NAMED:]),
            len(chosen) == len(found),
        )

    async def _lanes(
        self, action: Action, form: Form, principal: Principal, search: str
    ) -> dict[tuple[str, str], tuple[str, int]]:
        """Return the webhooks of lanes that match, each with its URL and how much is pending."""
        state = form.get("state")
        only = LaneFilter(
            state=state if state in list(LaneState) else "", search=search, with_idle=form.has("idle")
        )
        names = names_within(self._gateway.registry, principal)
        lanes = await self._gateway.views.lanes(among=names, only=only)
        found: dict[tuple[str, str], tuple[str, int]] = {}
        for _node, one in lanes.lanes:
            is_meant = only.has(one) and (not action.states or one.lane.state in action.states)
            # Those of the configuration change with the configuration.
            if not is_meant or one.instance in (None, GLOBAL_INSTANCE) or one.label is None:
                continue
            key = one.instance or "", one.label
            url, pending = found.get(key, (one.lane.url or "", 0))
            found[key] = url, pending + one.lane.backlog
        return found


def _webhooks(
    registry: Registry, principal: Principal, search: str, is_meant: Callable[[Registration], bool]
) -> dict[tuple[str, str], tuple[str, int]]:
    """Return those webhooks that have a text in their instance, label or URL, each with its URL."""
    found = {}
    for instance in within(registry, principal):
        for one in registry.of_instance(instance.name):
            url = with_masked_user(one.url)
            texts = (one.instance, one.label, url)
            if is_meant(one) and any(search in text.casefold() for text in texts):
                found[one.instance, one.label] = url, 0
    return found
