"""Decides who is told what, and when. No I/O.

::

    a problem ──lasts for `for`──> raised ──lasts for `remind`──> still there (again and again)
                                     │
                                     └──gone for CLEAR_AFTER──> over

Each of these makes a notice, which stays in the state until a channel has taken it. The state is stored
before a notice is sent, so that a restart neither forgets a notice nor raises one again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from hookgw import Problem, ProblemKind

from .options import Options, Rule

CLEAR_AFTER = 120.0
"""Seconds for which a problem is gone before it is over. After a restart, a connection is made again, or a
receiver was not tried yet, for about a minute."""

MOST_SHOWN = 10
"""The most problems that a notice names."""

KEPT = 86_400.0
"""Seconds after which a notice that no channel has taken is given up, and a lost node is forgotten."""

LONGEST_WAIT = 1800.0
"""Seconds between two attempts to send a notice that no channel takes."""

NOTED_EVERY = 300.0
"""Seconds between two notes that a node is there."""

GROUPED = frozenset({"webhook_failing", "webhook_disabled", "backlog"})
"""Kinds with one alert for each host of the receivers: more webhooks of it are no news."""

MOST_HOSTS, TOGETHER = 5, 600.0
"""If more hosts than these fail within so many seconds, the rest is one alert: hookgw may have no network."""

MANY = "*"
"""The host of such an alert."""


class Line(msgspec.Struct, frozen=True):
    """A problem in a notice."""

    instance: str
    label: str
    detail: str
    node: str
    plugin: str
    why: str
    since: float | None


class Notice(msgspec.Struct, kw_only=True):
    """What is to be told.

    Attributes:
        id: the same for each repetition.
        count: how many problems there are; ``lines`` has the first ones.
        tried: how many channels of ``to`` have failed since the last wait.
        failed: how often all of them have failed.
        error: why the last one has failed.
        due: when to try next.
    """

    id: str
    state: Literal["raised", "still", "over"]
    alert: str
    rule: str
    on: str
    host: str
    at: float
    since: float
    count: int
    lines: list[Line]
    to: tuple[str, ...]
    tried: int = 0
    failed: int = 0
    error: str = ""
    due: float = 0.0


class Alert(msgspec.Struct, kw_only=True):
    """Problems that somebody is told of together.

    Attributes:
        keys: of its problems, each with the time since when it is gone, or 0.
        most: how many it had before some of them were over; 0 if none was.
        told: when the last notice was made.
    """

    id: str
    rule: str
    on: str
    host: str
    opened: float
    told: float
    keys: dict[str, float]
    lines: list[Line]
    most: int = 0


class State(msgspec.Struct, kw_only=True):
    """What is remembered.

    Attributes:
        seen: the problems that exist but were not announced yet. For each key, the times at which the problem
            was first and last seen.
        nodes: nodes of the fleet, and when they last answered, within some minutes.
        number: of the last alert or notice.
    """

    seen: dict[str, tuple[float, float]] = {}
    alerts: dict[str, Alert] = {}
    notices: dict[str, Notice] = {}
    nodes: dict[str, float] = {}
    number: int = 0


def lost_nodes(state: State, nodes: Iterable[str], now: float) -> list[Problem]:
    """Note the nodes that have answered, and return a problem for each that no longer does."""
    present = set(nodes)
    for name in present:
        # Not at each look: each change of the state is a write.
        if now - state.nodes.get(name, 0.0) >= NOTED_EVERY:
            state.nodes[name] = now
    state.nodes = {name: at for name, at in state.nodes.items() if now - at < KEPT}
    lost = sorted(state.nodes.keys() - present)
    return [Problem(ProblemKind.NODE_LOST, "The node does not answer.", node=name) for name in lost]


def advance(  # noqa: C901 -- reads once from top to bottom
    state: State,
    rules: Sequence[Rule],
    problems: Mapping[str, Sequence[Problem]],
    options: Options,
    now: float,
) -> None:
    """Bring the state up to date.

    Args:
        problems: the present ones, by the id of the rule that they concern.
    """
    _bring_back(state, now)
    local = options.local(now)
    by_id = {rule.id: rule for rule in rules}
    for alert in list(state.alerts.values()):
        if alert.rule not in by_id:  # nobody asks for it any more
            del state.alerts[alert.id]
    for rule in by_id.values():
        current = {_key(rule, problem): problem for problem in problems[rule.id]}
        due = _due(state, rule, current, now)
        alerts = [alert for alert in state.alerts.values() if alert.rule == rule.id]
        for alert in alerts:
            for key, gone in alert.keys.items():
                if key in current:
                    alert.keys[key] = 0.0
                elif not gone:
                    alert.keys[key] = now
        if rule.is_quiet(local):
            continue
        for alert in alerts:
            left = {key: gone for key, gone in alert.keys.items() if not gone or now - gone < CLEAR_AFTER}
            if not left:
                del state.alerts[alert.id]
                _tell(state, rule, alert, "over", now)
            elif len(left) < len(alert.keys) and not all(left.values()):
                # The others are over: they are told anew if they come back.
                alert.most, alert.keys = max(alert.most, len(alert.keys)), left
                alert.lines = _lines(alert, current)
        told = _told(state)
        due = {key: problem for key, problem in due.items() if key not in told}
        _raise(state, rule, due, current, now)
        for alert in state.alerts.values():
            if alert.rule == rule.id and rule.remind is not None and now - alert.told >= rule.remind:
                alert.lines = _lines(alert, current) or alert.lines
                alert.told = now
                _tell(state, rule, alert, "still", now)
    told = _told(state)
    state.seen = {
        key: (first, last)
        for key, (first, last) in state.seen.items()
        if now - last < CLEAR_AFTER and key not in told
    }
    state.notices = {name: one for name, one in state.notices.items() if now - one.at < KEPT}


def _bring_back(state: State, now: float) -> None:
    """Let nothing wait for a time that lies ahead only because the clock was ahead, before a restart."""
    state.nodes = {name: min(at, now) for name, at in state.nodes.items()}
    for alert in state.alerts.values():
        alert.opened, alert.told = min(alert.opened, now), min(alert.told, now)
        alert.keys = {key: min(gone, now) for key, gone in alert.keys.items()}
    for notice in state.notices.values():
        notice.at = min(notice.at, now)
        if notice.due > now + LONGEST_WAIT:
            notice.due = now


def _due(state: State, rule: Rule, current: Mapping[str, Problem], now: float) -> dict[str, Problem]:
    due = {}
    for key, problem in current.items():
        first, _ = state.seen.get(key, (now, now))
        first = min(first, problem.since or now)
        state.seen[key] = first, now
        if now - first >= rule.wait:
            due[key] = problem
    return due


def _told(state: State) -> set[str]:
    return {key for alert in state.alerts.values() for key in alert.keys}


def _raise(
    state: State, rule: Rule, due: Mapping[str, Problem], current: Mapping[str, Problem], now: float
) -> None:
    groups: dict[tuple[str, str], dict[str, Problem]] = {}
    for key, problem in due.items():
        groups.setdefault((problem.kind, _host(problem)), {})[key] = problem
    of_hosts = {(one.on, one.host): one for one in state.alerts.values() if one.host and one.rule == rule.id}
    for kind in GROUPED:
        new = {host for on, host in groups if on == kind and (kind, host) not in of_hosts}
        hosts = new | {
            host for (on, host), one in of_hosts.items() if on == kind and now - one.told < TOGETHER
        }
        if many := of_hosts.get((kind, MANY)):
            # Only hosts that still fail count: once the network is back, one of them must not hide others.
            hosts |= {_host(current[key]) for key in many.keys if key in current}
        if len(hosts - {MANY}) > MOST_HOSTS:
            for host in sorted(new):
                groups.setdefault((kind, MANY), {}).update(groups.pop((kind, host)))
    for (kind, host), found in groups.items():
        keys = dict.fromkeys(found, 0.0)
        if known := of_hosts.get((kind, host)):
            known.keys |= keys
            continue
        state.number += 1
        alert = Alert(
            id=f"alert_{state.number}",
            rule=rule.id,
            on=kind,
            host=host,
            opened=min(problem.since or now for problem in found.values()),
            told=now,
            keys=keys,
            lines=[_line(problem) for problem in [*found.values()][:MOST_SHOWN]],
        )
        state.alerts[alert.id] = alert
        _tell(state, rule, alert, "raised", now)


def _tell(
    state: State, rule: Rule, alert: Alert, what: Literal["raised", "still", "over"], now: float
) -> None:
    # What waits is replaced by what is true now: told later, it would be wrong by then. If it is over, nobody
    # need hear of it, unless a channel was tried and may have passed it on.
    waiting = [one for one in state.notices.values() if one.alert == alert.id]
    for former in waiting:
        del state.notices[former.id]
    if what == "over" and any(former.state == "raised" and not former.failed for former in waiting):
        return
    state.number += 1
    notice = Notice(
        id=f"notice_{state.number}",
        state=what,
        alert=alert.id,
        rule=rule.id,
        on=alert.on,
        host=alert.host,
        at=now,
        since=alert.opened,
        count=max(alert.most if what == "over" else 0, len(alert.keys)),
        lines=alert.lines,
        to=rule.to,
    )
    state.notices[notice.id] = notice


def failed(state: State, notice: Notice, now: float, error: str) -> None:
    """Note that a channel has not taken a notice: the next one is tried at once, or all of them later."""
    notice.tried += 1
    notice.error = error
    if notice.tried >= len(notice.to):
        notice.tried = 0
        notice.failed += 1
        notice.due = now + min(60.0 * 2 ** (notice.failed - 1), LONGEST_WAIT)
    state.notices[notice.id] = notice


def _host(problem: Problem) -> str:
    return (urlsplit(problem.detail).hostname or "") if problem.kind in GROUPED else ""


def _key(rule: Rule, problem: Problem) -> str:
    parts = (problem.kind, problem.instance, problem.label, problem.plugin, problem.node)
    return f"{rule.id[:6]}{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:14]}"


def _lines(alert: Alert, current: Mapping[str, Problem]) -> list[Line]:
    present = [current[key] for key in alert.keys if key in current]
    return [_line(problem) for problem in present[:MOST_SHOWN]]


def _line(problem: Problem) -> Line:
    return Line(
        problem.instance,
        problem.label,
        problem.detail,
        problem.node,
        problem.plugin,
        problem.why[:300],
        problem.since,
    )
