"""The kinds of operational events, which hookgw emits about itself. No I/O.

They are in the catalog, so that they have a meaning, a schema and an example. No producer can emit them, and
no registration of an instance receives them. ``docs/operations.md`` describes each kind.
"""

from __future__ import annotations

from typing import Any

from hookgw.records.deliveries import FAILURES
from hookgw.records.events import Catalog, EventKind

REGISTRATION_DISABLED = "REGISTRATION_DISABLED"
LANE_FAILING = "LANE_FAILING"
LANE_RECOVERED = "LANE_RECOVERED"
BACKLOG_HIGH = "BACKLOG_HIGH"
BACKLOG_NORMAL = "BACKLOG_NORMAL"
INSTANCE_BACKLOG_HIGH = "INSTANCE_BACKLOG_HIGH"
INSTANCE_BACKLOG_NORMAL = "INSTANCE_BACKLOG_NORMAL"
DELIVERY_DEAD = "DELIVERY_DEAD"
EVENT_LEFT_OUT = "EVENT_LEFT_OUT"
INSTANCE_QUIET = "INSTANCE_QUIET"
INSTANCE_HEARD = "INSTANCE_HEARD"
INSTANCE_GAP = "INSTANCE_GAP"
PLUGIN_FAILING = "PLUGIN_FAILING"

_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_SOME: dict[str, Any] = {"type": "integer", "minimum": 1}
_COUNT_OR_NULL: dict[str, Any] = {"type": ["integer", "null"], "minimum": 0}
_SECONDS: dict[str, Any] = {"type": "number", "minimum": 0}
_FIELDS: dict[str, dict[str, Any]] = {
    # null in events that are not about a registration. They have its fields, too, so that a receiver of
    # alerts reads all kinds alike.
    "registration": _TEXT_OR_NULL,
    # null if the registration was deleted in the meantime.
    "instance": _TEXT_OR_NULL,
    "label": _TEXT_OR_NULL,
    "url": _TEXT_OR_NULL,
    "lane": _TEXT,
    "partition": _TEXT_OR_NULL,
    "since": _TEXT,
    "seconds": _SECONDS,
    "from": _TEXT,
    "to": _TEXT,
    "outcome": {"enum": [outcome.value for outcome in FAILURES]},
    "status": {"type": ["integer", "null"]},
    "error": _TEXT_OR_NULL,
    "deliveries": _COUNT,
    "bytes": _COUNT,
    "threshold": _COUNT,
    # What an instance may hold now; null without a limit.
    "allowedDeliveries": _COUNT_OR_NULL,
    "allowedBytes": _COUNT_OR_NULL,
    "count": _SOME,
    "reason": _TEXT,
    "delivery": _TEXT_OR_NULL,
    "eventId": _TEXT_OR_NULL,
    "kind": _TEXT_OR_NULL,
    "connector": _TEXT,
    "plugin": _TEXT,
    "hook": _TEXT,
    "restartAfter": _SECONDS,
}
"""The fields of all kinds; a field means the same in each of them."""
_REGISTRATION = {
    "registration": "reg_5f0c1a2b3c4d5e6f70818293",
    "instance": "shop",
    "label": "default",
    "url": "https://crm.example/hook",
}
_ONLY_INSTANCE = {"registration": None, "instance": "shop", "label": None, "url": None}
_LANE = {
    "lane": "reg_5f0c1a2b3c4d5e6f70818293:0",
    "partition": None,
    "since": "2026-11-20T12:00:00.000Z",
}
_ALLOWED = {"allowedDeliveries": 4_000_000, "allowedBytes": 8_589_934_592}


def _kind(name: str, meaning: str, example: dict[str, Any]) -> EventKind:
    """Return a kind with the fields of its example."""
    fields = {field: _FIELDS[field] for field in example}
    if example["registration"] is not None:
        fields["registration"] = _TEXT
    return EventKind(
        name=name,
        meaning=meaning,
        # Every field is required: receivers of alerts should not have to handle missing ones.
        schema={"type": "object", "properties": fields, "required": list(fields)},
        example=example,
        operational=True,
    )


OPERATIONAL_KINDS: tuple[EventKind, ...] = (
    _kind(
        REGISTRATION_DISABLED,
        "hookgw disabled a registration: its receiver answered 410, or failed for too long.",
        {**_REGISTRATION, "reason": "The receiver answered 410 Gone."},
    ),
    _kind(
        LANE_FAILING,
        "A lane started waiting because its receiver is unreachable, is refused by the settings, or fails.",
        {
            **_REGISTRATION,
            **_LANE,
            "outcome": "unreachable",
            "status": 503,
            "error": "The receiver answered 503 Service Unavailable.",
        },
    ),
    _kind(LANE_RECOVERED, "A failing lane delivers again.", {**_REGISTRATION, **_LANE, "seconds": 42.5}),
    _kind(
        BACKLOG_HIGH,
        "The pending deliveries of a registration exceed operations.backlog_threshold.",
        {**_REGISTRATION, "deliveries": 10_001, "bytes": 5_200_520, "threshold": 10_000},
    ),
    _kind(
        BACKLOG_NORMAL,
        # Not 100 %: a backlog that hovers at the threshold must not send an event for each delivery.
        "The pending deliveries of a registration fell to 80 % of operations.backlog_threshold.",
        {**_REGISTRATION, "deliveries": 8_000, "bytes": 4_160_000, "threshold": 10_000},
    ),
    _kind(
        INSTANCE_BACKLOG_HIGH,
        "The pending deliveries of an instance's events exceed half of what the instance may hold.",
        {**_ONLY_INSTANCE, "deliveries": 2_000_001, "bytes": 1_040_000_520, **_ALLOWED},
    ),
    _kind(
        INSTANCE_BACKLOG_NORMAL,
        "The pending deliveries of an instance's events fell to 40 % of what the instance may hold.",
        {**_ONLY_INSTANCE, "deliveries": 1_600_000, "bytes": 832_000_000, **_ALLOWED},
    ),
    _kind(
        DELIVERY_DEAD,
        "Deliveries of a registration became dead letters; they can be replayed.",
        {
            **_REGISTRATION,
            "count": 1,
            "reason": "The retry schedule is exhausted (failed attempts: 8).",
            "delivery": "dlv_17",
            "eventId": "msg_019aa1b2c3d4e5f60718293a4b5c6d7e",
            "kind": "MESSAGES_UPSERT",
        },
    ),
    _kind(
        EVENT_LEFT_OUT,
        "Events of a network were left out, because they have too many JSON values.",
        {
            **_ONLY_INSTANCE,
            "connector": "matrix",
            "count": 1,
            "reason": "The event has too many JSON values: at most 20,000 are allowed.",
        },
    ),
    _kind(
        INSTANCE_QUIET,
        "An instance is connected, and no event has come from it for longer than quietAfter, or than usual.",
        {
            **_ONLY_INSTANCE,
            "since": "2026-11-20T12:00:00.000Z",
            "seconds": 21_604.2,
            "reason": "No event has come for 6h (quietAfter: 6h).",
        },
    ),
    _kind(
        INSTANCE_HEARD,
        "An event has come from an instance that was reported as quiet.",
        {**_ONLY_INSTANCE, "since": "2026-11-20T12:00:00.000Z", "seconds": 28_800.5},
    ),
    _kind(
        INSTANCE_GAP,
        "After an outage, an instance did not get all events of this time from its network.",
        {**_ONLY_INSTANCE, "from": "2026-11-18T08:00:00.000Z", "to": "2026-11-19T12:00:00.000Z"},
    ),
    _kind(
        PLUGIN_FAILING,
        "A connector or a background task of a plugin failed; hookgw starts it again.",
        {
            **_ONLY_INSTANCE,
            "plugin": "acme",
            "hook": "hookgw_connectors.run",
            "reason": "OSError: network down",
            "restartAfter": 1,
        },
    ),
)

OPERATIONAL_CATALOG = Catalog(OPERATIONAL_KINDS)

# The id of the registration for operational events. It cannot clash: all other ids start with "reg_" or
# "global_".
OPERATIONS_ID = "operations"
