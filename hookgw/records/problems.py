"""Present problems: what the overview lists, and alerts are about.

hookgw itself reports no lost nodes and dead letters as problems: the plugin of alerts makes them of what it
has seen.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum

import msgspec

from hookgw.records.api_keys import Right
from hookgw.records.registrations import GLOBAL_INSTANCE


class ProblemKind(StrEnum):
    """What a problem is about.

    Attributes:
        WEBHOOK_FAILING: the attempts of a webhook fail, or one of its lanes is held up.
        WEBHOOK_DISABLED: hookgw has disabled a webhook.
        INSTANCE_CLOSED: the network has ended the connection of an instance.
        INSTANCE_QUIET: an instance is connected, and no event comes.
        BACKLOG: a webhook has too many pending deliveries.
        DISK: the disk fills up, or refuses writes.
        DATABASE: deliveries wait for an old transaction in the database.
        PLUGIN: a background task of a plugin fails.
        NODE_LOST: a node no longer answers.
        DEAD_LETTERS: an instance has many dead letters.
    """

    WEBHOOK_FAILING = "webhook_failing"
    WEBHOOK_DISABLED = "webhook_disabled"
    INSTANCE_CLOSED = "instance_closed"
    INSTANCE_QUIET = "instance_quiet"
    BACKLOG = "backlog"
    DISK = "disk"
    DATABASE = "database"
    PLUGIN = "plugin"
    NODE_LOST = "node_lost"
    DEAD_LETTERS = "dead_letters"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem of a webhook, an instance, a plugin, a node, or else of the storage.

    Attributes:
        kind: what it is about.
        why: the problem, in sentences.
        since: seconds since the epoch; ``None`` if that is not known.
        instance: its name; ``*`` for a webhook of the configuration.
        label: of the webhook.
        detail: helps to recognise it: a URL.
        plugin: its name, if a plugin has the problem.
        delivery: the delivery that is tried in vain and may be skipped, as ``<instance>/<id>``.
        node: the node that has it, where nodes must be told apart.
        cause: what it has in common with others, in a sentence; empty if it stands alone.
        pending: how many deliveries wait for it to end.
        loses: whether events become dead letters meanwhile.
    """

    kind: ProblemKind
    why: str
    since: float | None = None
    instance: str = ""
    label: str = ""
    detail: str = ""
    plugin: str = ""
    delivery: str = ""
    node: str = ""
    cause: str = ""
    pending: int = 0
    loses: bool = False


def held_back(count: int) -> str:
    """Return that deliveries are stored, and that the database does not show them to their lanes yet."""
    if count == 1:
        return "1 stored delivery waits for the end of an older transaction in the database server."
    return f"{count:,} stored deliveries wait for the end of an older transaction in the database server."


class Loss(IntEnum):
    """What a problem costs, the worst first."""

    EVENTS = 0
    ACCOUNT = 1
    TIME = 2
    UNKNOWN = 3


LOSSES = {
    ProblemKind.WEBHOOK_DISABLED: Loss.EVENTS,
    ProblemKind.DISK: Loss.EVENTS,
    ProblemKind.DEAD_LETTERS: Loss.EVENTS,
    ProblemKind.INSTANCE_CLOSED: Loss.ACCOUNT,
    ProblemKind.NODE_LOST: Loss.ACCOUNT,
    ProblemKind.WEBHOOK_FAILING: Loss.TIME,
    ProblemKind.BACKLOG: Loss.TIME,
    ProblemKind.DATABASE: Loss.TIME,
}


class Repair(StrEnum):
    """What can be done about all problems of a group.

    Attributes:
        TRY: end pauses and waits, and try now.
        PAUSE: let deliveries wait until somebody resumes.
        ENABLE: enable webhooks, and send them what they have missed.
        CONNECT: connect accounts.
        DISABLE: disable webhooks; of no problem, but over a filter.
    """

    TRY = "try"
    PAUSE = "pause"
    ENABLE = "enable"
    CONNECT = "connect"
    DISABLE = "disable"

    @property
    def rights(self) -> tuple[Right, ...]:
        """What a caller needs, all of it: enabling may send what a webhook has missed."""
        if self is Repair.ENABLE:
            return Right.WEBHOOKS, Right.REPLAY
        return (Right.CONNECT,) if self is Repair.CONNECT else (Right.WEBHOOKS,)


REPAIRS = {
    ProblemKind.WEBHOOK_FAILING: (Repair.TRY, Repair.PAUSE),
    ProblemKind.BACKLOG: (Repair.TRY, Repair.PAUSE),
    ProblemKind.WEBHOOK_DISABLED: (Repair.ENABLE,),
    ProblemKind.INSTANCE_CLOSED: (Repair.CONNECT,),
}


class Mute(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group of problems that nobody wants to see for now.

    Attributes:
        until: in seconds since the epoch.
        by: the name of the key that muted it.
    """

    reason: str
    until: float
    by: str = ""


class ProblemGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """Problems with one cause.

    Attributes:
        id: the same for the same kind and cause, also after a restart.
        title: the cause, in a few words.
        problems: the longest first.
        mute: ``None`` unless it is muted now.
    """

    id: str
    kind: ProblemKind
    title: str
    problems: tuple[Problem, ...]
    mute: Mute | None = None

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What can be done about it here; a webhook of the configuration is changed there."""
        is_ours = any(one.instance not in ("", GLOBAL_INSTANCE) for one in self.problems)
        return REPAIRS.get(self.kind, ()) if is_ours else ()

    @property
    def webhooks(self) -> int:
        return sum(bool(one.label) for one in self.problems)

    @property
    def instances(self) -> int:
        return len({one.instance for one in self.problems if one.instance})

    @property
    def loss(self) -> Loss:
        if any(one.loses for one in self.problems):
            return Loss.EVENTS
        return LOSSES.get(self.kind, Loss.UNKNOWN)

    @property
    def pending(self) -> int:
        return sum(one.pending for one in self.problems)

    @property
    def since(self) -> float | None:
        """When the first of them began, in seconds since the epoch; ``None`` if that is not known."""
        return min((one.since for one in self.problems if one.since is not None), default=None)


MOST_HOSTS = 5
"""If more hosts than these do not answer, that is one group: the fault may be on this side of them."""
_OF_A_NETWORK = (" does not answer in time", " cannot be reached")


def group_problems(problems: Iterable[Problem], mutes: Mapping[str, Mute], now: float) -> list[ProblemGroup]:
    """Return problems by their cause, what loses most first; muted groups come last.

    Hosts that fail as they do without a network are one group, if they are many.
    """
    muted = {name: mute for name, mute in mutes.items() if mute.until > now}
    groups: dict[str, list[Problem]] = {}
    for one in problems:
        # A problem without a known cause is a group of its own.
        cause = (
            one.cause
            or f"{one.node} {one.plugin} {one.instance}/{one.label} {one.why if not one.instance else ''}"
        )
        groups.setdefault(_id_of(one.kind, cause), []).append(one)
    for kind, what in itertools.product(ProblemKind, _OF_A_NETWORK):
        alike = [
            name
            for name, (one, *_) in groups.items()
            if one.kind is kind and one.cause.endswith(what) and name not in muted
        ]
        if len(alike) > MOST_HOSTS:
            members = [one for name in alike for one in groups.pop(name)]
            cause = f"Each of {len(alike):,} hosts{what}"
            groups[_id_of(kind, f"*{what}")] = [msgspec.structs.replace(one, cause=cause) for one in members]
    found = []
    for name, members in groups.items():
        members.sort(key=lambda one: one.since or now)
        found.append(
            ProblemGroup(
                name,
                members[0].kind,
                members[0].cause,
                tuple(members),
                muted.get(name),
            )
        )
    return sorted(
        found,
        key=lambda one: (
            one.mute is not None,
            one.loss,
            one.kind is not ProblemKind.WEBHOOK_DISABLED,  # nothing at all goes to it
            -one.pending,
            -len(one.problems),
            one.since or now,
        ),
    )


def _id_of(kind: ProblemKind, cause: str) -> str:
    return hashlib.sha256(f"{kind}\n{cause}".encode()).hexdigest()[:12]


class ProblemReport(msgspec.Struct, frozen=True):
    """The present problems of all nodes.

    Attributes:
        at: when it was made, in seconds since the epoch.
        problems: at most 10,000 of webhooks, and as many of instances.
        nodes: the names of the nodes that have answered; none without a fleet.
    """

    at: float
    problems: list[Problem]
    nodes: list[str]
