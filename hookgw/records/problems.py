"""Present problems: what the overview lists, and alerts are about.

hookgw itself reports no lost nodes and dead letters as problems: the plugin of alerts makes them of what it
has seen.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


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
