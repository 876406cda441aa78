"""Finds out why nothing arrives: follows the way of an event, from the network to the receiver.

Commands, programs and the MCP server show the same. An instance's key sees what concerns its instance.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET

from hookgw._version import __version__
from hookgw.delivery.http.errors import Phase
from hookgw.delivery.outbound import Reach
from hookgw.kernel.schemes import is_http
from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import DAY, at_a_glance
from hookgw.operations.clock_watch import difference
from hookgw.operations.responses import Check, CheckName, CheckState, Diagnosis
from hookgw.operations.views import MOST_GROUPED
from hookgw.records.connectors import ConnectionState
from hookgw.records.deliveries import DeliveryState, LaneState, LaneStatistics, Outcome
from hookgw.records.problems import ProblemKind, group_problems, held_back
from hookgw.records.registrations import DEFAULT_LABEL, Registration
from hookgw.records.stuck_lanes import advice_for, skippable
from hookgw.store import DeliveryQuery

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.records.instances import Instance

EXAMINE_WITHIN = 15.0
"""Seconds for connecting to all receivers of an instance."""
EXPIRES_SOON = 14 * DAY
_TELL = "Tell the operator."
MOST_PROBLEMS = 50
MOST_DEAD = 100

_REFUSED_ADVICE = "Change the URL. If a setting is named, the operator can allow the address there."
_ADVICE = {
    Outcome.BLOCKED: _REFUSED_ADVICE,
    Outcome.UNREACHABLE: "Start the receiver, or correct the URL. hookgw goes on trying.",
    Outcome.UNANSWERED: "Let the receiver answer before it does the work, or set a longer timeout.",
    Outcome.FAILED: "Correct the receiver: only a status from 200 to 299 counts as delivered.",
    Outcome.REJECTED: "Correct the receiver: it refuses this payload.",
}
_REACH_ADVICE = {
    None: _REFUSED_ADVICE,
    Phase.RESOLVE: "Correct the host of the URL, or its DNS records.",
    Phase.CONNECT: "Start the receiver, or open its port for this machine.",
    Phase.TLS: "Renew or correct the receiver's certificate; for an authority of your own, set tls.ca.",
}
_PROXY_ADVICE = (
    "Start the receiver, or correct delivery.proxy: it must run, and may connect to the receiver's port."
)
_REACH_CHECK = {
    None: CheckName.ADDRESS,
    Phase.RESOLVE: CheckName.DNS,
    Phase.CONNECT: CheckName.REACH,
    Phase.TLS: CheckName.CERTIFICATE,
}


async def diagnose(gateway: Gateway, name: str, *, is_operator: bool) -> Diagnosis:
    """Follow the way of an instance's events. Nothing is sent.

    Args:
        is_operator: whether to include what concerns all instances.
    """
    instance = gateway.instances.get(name)
    checks = [_connection(gateway, instance), await _last_event(gateway, instance)]
    registrations = gateway.registrations.of_instance(name)
    reaches = await _reaches(gateway, registrations)
    lanes: dict[str, list[LaneStatistics]] = defaultdict(list)
    for _, reported in (await gateway.views.lanes(among=(name,))).lanes:
        lanes[reported.lane.registration].append(reported.lane)
    if not registrations:
        advice = f"hookgw webhook set {shlex.quote(name)} URL"
        checks.append(_check(CheckName.WEBHOOK, CheckState.FAILED, "No URL is registered.", advice, name))
    for registration in registrations:
        checks.append(_webhook(gateway, registration))
        if registration.enabled:
            reach = reaches.get(registration.id)
            advice = "See which one: hookgw doctor" if is_operator else _TELL
            checks += _lane(gateway, registration, lanes[registration.id], reach, advice)
            if is_http(registration.url):
                checks += _reach(gateway, registration, reach)
    checks.append(await _dead_letters(gateway, name))
    checks += _of_system(gateway, name, is_operator=is_operator)
    return _as_of_now(gateway, checks)


async def diagnose_all(gateway: Gateway, among: tuple[str, ...] | None) -> Diagnosis:
    """Return the problems of all nodes, instances and webhooks, one of each cause. Nobody is connected to.

    Args:
        among: only those of these instances; ``None`` for all.
    """
    overview = await gateway.views.overview(among, MOST_GROUPED)
    # Those of the storage and of plugins follow.
    of_instances = (one for one in overview.problems if one.instance)
    groups = group_problems(of_instances, {}, gateway.clock.wall())
    checks = []
    for group in groups[:MOST_PROBLEMS]:
        problem, several = group.problems[0], len(group.problems)
        place = shlex.quote(problem.instance)
        found = problem.why
        if several > 1:  # a receiver that is down may be that of all accounts
            found += f" It is one of {several:,} problems with this cause: hookgw problem list"
        check = CheckName.WEBHOOK if problem.label else CheckName.CONNECTION
        advice = f"hookgw doctor {place}" if problem.instance != "*" else None
        where = problem.instance, problem.label, problem.delivery
        checks.append(_check(check, CheckState.FAILED, found, advice, *where))
    if (left := len(groups) - MOST_PROBLEMS) > 0:
        found = f"There are {left:,} more causes: hookgw problem list"
        checks.append(_check(CheckName.WEBHOOK, CheckState.FAILED, found))
    checks += _paused(gateway, among)
    checks += _of_system(gateway, None, is_operator=among is None)
    for problem in overview.problems:
        is_here = problem.node == gateway.views.nodes.node.label
        if problem.instance or (is_here and problem.kind is not ProblemKind.DATABASE):
            continue  # a lane's or a connection's, or told above with advice
        found = f"Plugin {problem.plugin}. {problem.why}" if problem.plugin else problem.why
        if not is_here:
            found = f"On the node {problem.node}: {found}"
        name = CheckName.PLUGIN if problem.plugin else CheckName.STORAGE
        checks.append(_check(name, CheckState.FAILED, found))
    for node in overview.silent if among is None else ():
        found = f"The node {node} does not answer."
        if node in overview.refusing:
            found += " It refuses to: its clock may be wrong."
        advice = "Look at its log, and at its clock: hookgw node list"
        checks.append(_check(CheckName.NODE, CheckState.FAILED, found, advice))
    return _as_of_now(gateway, checks)


def _paused(gateway: Gateway, among: tuple[str, ...] | None) -> Iterator[Check]:
    paused = [
        one
        for one in gateway.registry.registrations()
        if one.is_paused and one.enabled and (among is None or one.instance in among)
    ]
    if paused:
        many = f"{len(paused):,} webhooks are paused; this is one" if len(paused) > 1 else "Paused"
        advice = _command("resume", paused[0])
        yield _of(
            paused[0], CheckName.WEBHOOK, CheckState.WARNING, f"{many}: deliveries wait, in order.", advice
        )


def _as_of_now(gateway: Gateway, checks: list[Check]) -> Diagnosis:
    return Diagnosis(checks=checks, at=rfc3339(gateway.clock.wall()), version=__version__)


def _connection(gateway: Gateway, instance: Instance) -> Check:
    name = instance.name
    state, reason = gateway.instances.connection_state(name), gateway.instances.close_reason(name)
    if not instance.integration and (state is ConnectionState.OPEN or reason is None):
        found = f"No connector: events come by POST /event/emit/{name}."
        return _check(CheckName.CONNECTION, CheckState.OK, found, instance=name)
    if state is ConnectionState.OPEN:
        account = gateway.instances.account(name)
        who = account.jid or account.profile_name
        found = f"Connected as {who}." if who else "Connected."
        return _check(CheckName.CONNECTION, CheckState.OK, found, instance=name)
    advice = f"hookgw instance connect {shlex.quote(name)}"
    if gateway.connectors.missing(instance):
        advice = "Install the plugin of this connector, or switch it on, and restart hookgw."
    if state is ConnectionState.CONNECTING:
        found = f"Connecting. {reason or 'The network may wait for a code to be scanned.'}"
        return _check(CheckName.CONNECTION, CheckState.WARNING, found, advice, name)
    found = f"Not connected. {reason or ''}".rstrip()
    return _check(CheckName.CONNECTION, CheckState.FAILED, found, advice, name)


async def _last_event(gateway: Gateway, instance: Instance) -> Check:
    name, now = instance.name, gateway.clock.steady()
    newest = (await gateway.history.newest([name])).get(name)
    if newest is None:
        found = "No event is stored: none has come that a webhook wanted."
        emit = f"hookgw emit {shlex.quote(name)} MESSAGES_UPSERT --data '{{}}'"
        advice = f"Send the account a message, or emit one: {emit}"
        return _check(CheckName.EVENTS, CheckState.WARNING, found, advice, name)
    found = f"The last stored event came {at_a_glance(now - newest)} ago."
    if gateway.quiet.quiet_since(name) is None:
        return _check(CheckName.EVENTS, CheckState.OK, found, instance=name)
    found += " The connection is open, and the account is quieter than usual."
    advice = f"If messages are missing: hookgw instance restart {shlex.quote(name)}"
    return _check(CheckName.EVENTS, CheckState.WARNING, found, advice, name)


def _webhook(gateway: Gateway, registration: Registration) -> Check:
    advice: str | None
    if not registration.enabled:
        state, found = CheckState.FAILED, f"Disabled. {registration.disabled_reason or ''}".rstrip()
        advice = _command("enable", registration)
        if registration.disabled_reason:  # enabled as it is, it would be disabled again
            advice = f"Correct the receiver, or the URL; then: {advice}"
    elif registration.is_paused:
        state, found = CheckState.WARNING, "Paused: deliveries wait, in order."
        advice = _command("resume", registration)
    elif missing := gateway.hooks.absent_plugin(registration) or gateway.hooks.missing_plugin(registration):
        state, found, advice = CheckState.FAILED, str(missing), None
    elif registration.events and not any(one in gateway.catalog for one in registration.events):
        names = ", ".join(registration.events[:3])
        found = f"No plugin adds the kinds that it is for ({names}): nothing comes."
        state, advice = CheckState.WARNING, "Install the plugin, or choose other kinds."
    else:
        kinds = len(registration.events)
        which = f"{kinds} kinds" if kinds > 3 else ", ".join(registration.events) or "every kind"
        state, found, advice = CheckState.OK, f"Enabled, for {which}: {registration.address}", None
        if registration.filter:
            found += ", with a filter"
    return _of(registration, CheckName.WEBHOOK, state, found, advice)


def _command(command: str, registration: Registration) -> str:
    label = registration.label
    end = "" if label == DEFAULT_LABEL else f" --label {shlex.quote(label)}"
    return f"hookgw webhook {command} {shlex.quote(registration.instance)}{end}"


def _lane(
    gateway: Gateway,
    registration: Registration,
    lanes: list[LaneStatistics],
    reach: Reach | None,
    held_advice: str,
) -> Iterator[Check]:
    """Yield the state of the lane that is worst off, as of now.

    Args:
        held_advice: what to do if the database holds deliveries back.
    """
    backlog, now = sum(lane.backlog for lane in lanes), gateway.clock.steady()
    failing = [lane for lane in lanes if lane.last_error is not None and lane.state is not LaneState.IDLE]
    if not failing and (held := sum(lane.held for lane in lanes)):
        found = f"{backlog:,} pending. {held_back(held)}"
        yield _of(registration, CheckName.LANE, CheckState.FAILED, found, held_advice)
        return
    if not failing:
        found = f"{backlog:,} pending." if backlog else "Nothing is pending."
        if any(lane.state is LaneState.WAITING and lane.waits_for for lane in lanes):
            waits = next(lane.waits_for for lane in lanes if lane.waits_for)
            found += f" The next one waits for: {waits}."
        yield _of(registration, CheckName.LANE, CheckState.OK, found)
        return
    lane = min(failing, key=lambda one: one.head_since or now)
    delivery = "" if lane.head is None else f"dlv_{lane.head}"
    found = f"{backlog:,} pending."
    if lane.head_since is not None:
        found += f" The head, {delivery}, waits for {at_a_glance(now - lane.head_since)}."
    if lane.waiting_until is not None:
        found += f" The next attempt is in {at_a_glance(lane.waiting_until - now)}."
    found += f" Last answer: {lane.last_error}"
    advice = advice_for(lane, now) or _lane_advice(gateway, registration, lane, reach)
    yield _of(registration, CheckName.LANE, CheckState.FAILED, found, advice, skippable(lane))


def _lane_advice(
    gateway: Gateway, registration: Registration, lane: LaneStatistics, reach: Reach | None
) -> str | None:
    if lane.last_outcome is Outcome.UNREACHABLE and lane.has_reached:
        rate = f"{_command('update', registration)} --rate 5/s"
        return f"The receiver, or a proxy before it, is down or busy. If hookgw asks too much of it: {rate}"
    if not lane.has_reached and reach is not None:
        if reach.why:
            return _reach_advice(gateway, reach)
        return f"It accepts connections now. To try again at once: {_command('resume', registration)}"
    return _ADVICE.get(lane.last_outcome) if lane.last_outcome else None


def _reach_advice(gateway: Gateway, reach: Reach) -> str | None:
    if reach.failed is Phase.CONNECT and gateway.outbound.has_proxy:
        return _PROXY_ADVICE
    return _REACH_ADVICE.get(reach.failed)


async def _reaches(gateway: Gateway, registrations: list[Registration]) -> dict[str, Reach]:
    found: dict[str, Reach] = {}
    with trio.move_on_after(EXAMINE_WITHIN):
        for registration in registrations:
            if registration.enabled and is_http(registration.url):
                found[registration.id] = await gateway.outbound.examine(registration)
    return found


def _reach(gateway: Gateway, registration: Registration, reach: Reach | None) -> Iterator[Check]:
    if reach is None:
        found = f"Not tried: the receivers before this one took more than {EXAMINE_WITHIN:g} s."
        yield _of(registration, CheckName.REACH, CheckState.WARNING, found)
        return
    if reach.why:
        yield _of(
            registration,
            _REACH_CHECK.get(reach.failed, CheckName.REACH),
            CheckState.FAILED,
            reach.why,
            _reach_advice(gateway, reach),
        )
        return
    many = "1 address" if reach.addresses == 1 else f"{reach.addresses} addresses"
    yield _of(registration, CheckName.DNS, CheckState.OK, f"The host has {many}.")
    yield _of(registration, CheckName.ADDRESS, CheckState.OK, "The settings allow it.")
    yield _of(registration, CheckName.REACH, CheckState.OK, "It accepts connections.")
    if reach.certificate_expires is not None:
        left = reach.certificate_expires - gateway.clock.wall()
        state, advice = CheckState.OK, None
        if left < EXPIRES_SOON:
            state, advice = CheckState.WARNING, "Renew the receiver's certificate."
        found = f"Valid until {rfc3339(reach.certificate_expires)}, for {at_a_glance(left)}."
        yield _of(registration, CheckName.CERTIFICATE, state, found, advice)


async def _dead_letters(gateway: Gateway, name: str) -> Check:
    # By when they died: after days without a receiver, their events are older than a day.
    since = gateway.clock.steady() - DAY
    query = DeliveryQuery(
        instance=name, state=DeliveryState.DEAD, finished_since=since, without_global=True, limit=MOST_DEAD
    )
    page = await gateway.history.list(query)
    if not page.deliveries:
        return _check(CheckName.DEAD_LETTERS, CheckState.OK, "None in the last day.", instance=name)
    found = f"{len(page.deliveries):,}{' or more' if page.cursor else ''} in the last day."
    place = f"{shlex.quote(name)} --finished-since 1d"
    advice = f"hookgw delivery dead {place}; then hookgw delivery replay {place}"
    return _check(CheckName.DEAD_LETTERS, CheckState.WARNING, found, advice, name)


def _of_system(gateway: Gateway, name: str | None, *, is_operator: bool) -> Iterator[Check]:
    for task in gateway.restarts.failing():
        if is_operator or task.instance == name:
            found = f"{task.plugin} failed {task.failures} times, and starts again: {task.reason}"
            advice = "Look at the log; correct the plugin or its options."
            yield _check(CheckName.PLUGIN, CheckState.FAILED, found, advice, task.instance)
    if is_operator:
        for plugin in gateway.hooks.plugins():
            if plugin.error is not None:
                advice = "Correct the plugin or its options, and restart hookgw: hookgw check-config"
                found = f"{plugin.name} does not run: {plugin.error}"
                yield _check(CheckName.PLUGIN, CheckState.FAILED, found, advice)
        if (apart := difference(gateway.clock)) is not None:
            advice = "The machine's clock was set, or the machine slept: restart hookgw."
            yield _check(CheckName.CLOCK, CheckState.WARNING, apart, advice)
    for reason, why, advice in (
        (gateway.disk.shortage, "no room is left", "Make room on the disk."),
        (gateway.metrics.disk_failure, "the storage fails", "Look at the log, and at the disk or database."),
    ):
        if reason is not None:
            found = f"{reason} Events are refused." if is_operator else f"Events are refused: {why}."
            advice = advice if is_operator else _TELL
            yield _check(CheckName.STORAGE, CheckState.FAILED, found, advice)
            return
    free = gateway.disk.found
    found = "Events are stored."
    if is_operator and free is not None:
        found = f"Events are stored; {free.free / 2**30:,.1f} GiB of the disk are free."
    yield _check(CheckName.STORAGE, CheckState.OK, found)


def _of(
    registration: Registration,
    check: CheckName,
    state: CheckState,
    found: str,
    advice: str | None = None,
    delivery: str = "",
) -> Check:
    return _check(check, state, found, advice, registration.instance, registration.label, delivery)


def _check(
    check: CheckName,
    state: CheckState,
    found: str,
    advice: str | None = None,
    instance: str | None = None,
    label: str = "",
    delivery: str = "",
) -> Check:
    return Check(
        check=check,
        state=state,
        found=found,
        advice=advice or UNSET,
        instance=instance or UNSET,
        label=label or UNSET,
        delivery=delivery or UNSET,
    )
