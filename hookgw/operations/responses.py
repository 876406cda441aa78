"""Responses to operators: jobs, audit, nodes, backups."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from hookgw.kernel.language import N_
from hookgw.kernel.schema_parts import Time
from hookgw.records.audit import ActorKind
from hookgw.records.jobs import JobKind
from hookgw.records.problems import ProblemKind, Repair
from hookgw.web.responses import Count


class Actor(Struct, frozen=True, kw_only=True):
    """Who made a change.

    Attributes:
        kind: `key` for the holder of an API key; `hookgw` itself, a `plugin`, or the `configuration`.
        name: the name of the key or of the plugin; ``null`` for the others.
        instance: the instance that the key belongs to; ``null`` for a key of no instance, and for the others.
        address: the client's IP address; ``null`` over a Unix socket and without a client, and, of a key of
            no instance, unless a global key asks.
        via: what the client used, for example `dashboard`; ``null`` for the HTTP API.
        person: who was signed in at the reverse proxy; ``null`` for nobody, and, with a key of no instance,
            unless a global key asks.
    """

    kind: ActorKind
    name: str | None
    instance: str | None
    address: str | None
    via: str | None
    person: str | None


class FieldChange(Struct, frozen=True, kw_only=True):
    """A field that changed.

    Attributes:
        field: its name, with dots for a part of it, such as `headers.authorization`.
        before: its former value; ``null`` if there was none, or if the audit does not keep it.
        after: its new value; likewise.
    """

    field: str
    before: str | None
    after: str | None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change.

    Attributes:
        at: when it was made.
        action: what was done, such as `registration.change`.
        instance: the instance that it concerned; ``null`` for none.
        subject: the label of the registration, the name of the key or of the file, or the id of the delivery
            that it concerned; ``null`` for the instance itself.
        actor: who made it.
        changes: the fields that changed.
        details: further facts, such as the `reason`.
    """

    at: Time
    action: str
    instance: str | None
    subject: str | None
    actor: Actor
    changes: list[FieldChange]
    details: dict[str, str]


class AuditPage(Struct, frozen=True):
    """A page of the audit.

    Attributes:
        entries: the newest first.
        cursor: the cursor of the next page; ``null`` on the last one.
    """

    entries: list[AuditEntry]
    cursor: str | None


ShownJobState: TypeAlias = Literal["running", "paused", "done", "cancelled", "failed"]


class JobInstances(Struct, frozen=True):
    """How far a job over several instances is.

    Attributes:
        done: how many instances it is done with.
        total: how many there are.
    """

    done: Count
    total: Count


class Job(Struct, frozen=True, kw_only=True):
    """Work on many deliveries, which goes on after the response to the call that asked for it.

    Attributes:
        id: the job's id.
        kind: what it does.
        instance: the instance that it works on; `*` for a webhook of the configuration, and for a backup.
        state: whether it runs, and how it ended.
        done: how many deliveries became dead letters, are sent again, are made from the log, or are erased,
            so far; of a backup, the pages.
        total: the pages that a backup copies, as far as known; ``null`` for other jobs.
        events: how many events an erasure has removed so far; not of other kinds.
        started: when it began.
        finished: when it ended; ``null`` while it runs.
        error: why it failed; while it runs, why it is delayed.
        warning: what it has left behind, for example bytes of what was erased.
        by: who asked for it, such as `key default, dashboard`, or `hookgw` itself.
        parent: the id of the job over several instances that it is a part of.
        instances: of a job over several instances, how many it is done with, and how many there are.
    """

    id: str
    kind: JobKind
    instance: str
    state: ShownJobState
    done: Count
    total: Count | None
    events: Count | UnsetType = UNSET
    started: Time
    finished: Time | None
    error: str | None
    warning: str | UnsetType = UNSET
    by: str
    parent: str | UnsetType = UNSET
    instances: JobInstances | UnsetType = UNSET


class Node(Struct, frozen=True, kw_only=True, rename="camel"):
    """A node: a process of hookgw that shares its database with others.

    Attributes:
        node: its name.
        url: where other nodes reach it; null for a node that is alone.
        shards: how many of the 256 shards it holds. The instances of a shard are on its node.
        heartbeat_age: seconds since its last heartbeat.
        leaving: whether it takes no shards: it stops, and hands them over, or it starts.
        is_here: whether it is the node that answers.
    """

    node: str
    url: str | None
    shards: int
    heartbeat_age: float
    leaving: bool
    is_here: bool


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong with a webhook, an instance, a plugin, a node or the storage.

    Attributes:
        why: the problem, in sentences.
        since: when it began; ``null`` if that is not known.
        pending: how many deliveries wait for its end.
        instance: the instance; `*` for a webhook of the configuration; missing if it is none's.
        label: the label of the webhook; missing if it is none's.
        url: the URL of the webhook, with user and password masked.
        delivery: the id of the delivery that is tried in vain and may be skipped.
        plugin: the plugin that has the problem.
        node: the node that has it, in a fleet.
    """

    why: str
    since: Time | None
    pending: Count
    instance: str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    delivery: str | UnsetType = UNSET
    plugin: str | UnsetType = UNSET
    node: str | UnsetType = UNSET


class Mute(Struct, frozen=True, kw_only=True):
    """Nobody wants to see a problem for now.

    Attributes:
        reason: why.
        until: until when.
        by: the name of the key that muted it; ``null`` if hookgw does not know it.
    """

    reason: str
    until: Time
    by: str | None


class ProblemGroup(Struct, frozen=True, kw_only=True):
    """Problems with one cause.

    Attributes:
        id: the same for the same cause, also after a restart.
        kind: what it is about.
        cause: what the problems have in common; ``null`` if there is one, which stands alone.
        loss: what it costs: `events` become dead letters or are missed; an `account` is out; deliveries wait
            for some `time`.
        since: when the first problem began; ``null`` if that is not known.
        pending: how many deliveries wait for its end.
        webhooks: how many webhooks it concerns.
        instances: how many instances it concerns.
        problems: the longest first.
        repairs: what the dashboard can do about all of them at once.
        mute: until when it is muted, and why; ``null`` unless it is muted, and for a key that does not reach
            everything.
    """

    id: str
    kind: ProblemKind
    cause: str | None
    loss: Literal["events", "account", "time", "unknown"]
    since: Time | None
    pending: Count
    webhooks: Count
    instances: Count
    problems: list[Problem]
    repairs: list[Repair]
    mute: Mute | None


class ProblemPage(Struct, frozen=True):
    """What is wrong now.

    Attributes:
        problems: by cause, what loses most first; muted ones come last.
        others: how many did not fit into the response.
    """

    problems: list[ProblemGroup]
    others: Count


class CheckName(StrEnum):
    """A step on an event's way from the network to a receiver, or what all of it needs."""

    CONNECTION = "connection"
    EVENTS = "events"
    WEBHOOK = "webhook"
    LANE = "lane"
    DEAD_LETTERS = "dead letters"
    DNS = "dns"
    ADDRESS = "address"
    REACH = "reach"
    CERTIFICATE = "certificate"
    STORAGE = "storage"
    PLUGIN = "plugin"
    NODE = "node"
    CLOCK = "clock"


class CheckState(StrEnum):
    """Whether a step is in order; `warning`: it may be the reason why nothing arrives."""

    OK = N_("ok")
    WARNING = N_("warning")
    FAILED = N_("failed")


class Check(Struct, frozen=True, kw_only=True):
    """One step on an event's way, and whether it is in order.

    Attributes:
        check: which step.
        state: whether it is in order; `warning` if it may be the reason why nothing arrives.
        found: what was found, in sentences.
        advice: what to do, with the command; missing if there is nothing to do.
        instance: the instance that it concerns; missing for what concerns all of them.
        label: the label of the registration that it concerns; missing for none.
        delivery: the delivery that is tried in vain; missing for none.
    """

    check: CheckName
    state: CheckState
    found: str
    advice: str | UnsetType = UNSET
    instance: str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    delivery: str | UnsetType = UNSET


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Why nothing arrives.

    Attributes:
        checks: in the order of an event's way: what comes first explains what follows.
        at: when this was found, by the clock of the gateway.
        version: of the gateway.
    """

    checks: list[Check]
    at: Time
    version: str


class Backup(Struct, frozen=True, kw_only=True):
    """A backup in `storage.backup_folder`.

    Attributes:
        name: the name of the file.
        job: the id of the job that makes it, if that takes more than 2 s; absent once the file is there.
    """

    name: str
    job: str | UnsetType = UNSET


class Percentiles(Struct, frozen=True):
    """Durations in milliseconds, within 5 %, that so many of the others do not exceed.

    Attributes:
        p50: half of them.
        p95: 95 of 100.
        p99: 99 of 100.
    """

    p50: float
    p95: float
    p99: float


class Figures(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of events and deliveries in some time.

    Attributes:
        accepted: accepted events; for a webhook, the accepted events that it wanted.
        delivered: deliveries that were delivered; a delivery that is sent again is counted again.
        dead: deliveries that became dead letters.
        dropped: deliveries that a filter or a plugin dropped.
        failed: attempts that did not deliver, by the status of the response, or by their outcome without one.
        receiver: how long receivers took to respond; ``null`` without a response.
        whole: how long deliveries took, from acceptance to the response; ``null`` if nothing was delivered.
        oldest_pending: the age that the oldest pending delivery reached, in seconds, as looked at once a
            minute; ``null`` if nothing was pending then.
    """

    accepted: Count
    delivered: Count
    dead: Count
    dropped: Count
    failed: dict[str, int]
    receiver: Percentiles | None
    whole: Percentiles | None
    oldest_pending: float | None


class FigureStep(Figures, frozen=True, kw_only=True, rename="camel"):
    """The figures of one step.

    Attributes:
        at: when it began.
    """

    at: Time


class FigureSeries(Struct, frozen=True, kw_only=True, rename="camel"):
    """Figures over a span of time.

    Attributes:
        span: how long it is, as asked for: `1h`, `24h`, `7d` or `30d`.
        since: when it began.
        until: when its last step will have ended.
        step: the length of a step in seconds.
        steps: the oldest first, without steps in which nothing happened and nothing was pending.
        total: of the whole span.
        oldest_pending: since when the oldest pending delivery is pending now; ``null`` if none is.
    """

    span: str
    since: Time
    until: Time
    step: Count
    steps: list[FigureStep]
    total: Figures
    oldest_pending: Time | None
