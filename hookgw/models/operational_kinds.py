"""The kinds of operational events: what hookgw tells of itself. No I/O.

They are in the catalog, so that they have a meaning, a schema and an example, but no producer can emit
them and no instance's registration hears them. ``docs/operations.md`` describes each.
"""

from __future__ import annotations

from typing import Any

from hookgw.models.events import Catalog, EventKind

REGISTRATION_DISABLED = "REGISTRATION_DISABLED"
LANE_FAILING = "LANE_FAILING"
LANE_RECOVERED = "LANE_RECOVERED"
BACKLOG_HIGH = "BACKLOG_HIGH"
BACKLOG_NORMAL = "BACKLOG_NORMAL"
DELIVERY_DEAD = "DELIVERY_DEAD"

_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_ABOUT: dict[str, Any] = {
    "registration": _TEXT,
    "instance": _TEXT_OR_NULL,
    "label": _TEXT_OR_NULL,
    "url": _TEXT_OR_NULL,
}
_ABOUT_EXAMPLE = {
    "registration": "reg_5f0c1a2b3c4d5e6f70818293",
    "instance": "shop",
    "label": "default",
    "url": "https://crm.example/hook",
}


def _kind(name: str, meaning: str, example: dict[str, Any], **properties: Any) -> EventKind:
    """A kind that is about a registration, with further fields; each of them is always there."""
    fields = {**_ABOUT, **properties}
    return EventKind(
        name=name,
        meaning=meaning,
        schema={"type": "object", "properties": fields, "required": list(fields)},
        example={**_ABOUT_EXAMPLE, **example},
        operational=True,
    )


OPERATIONAL_KINDS: tuple[EventKind, ...] = (
    _kind(
        REGISTRATION_DISABLED,
        "A registration was disabled by hookgw: its receiver answered 410, or failed for too long.",
        {"reason": "The receiver answered 410 Gone."},
        reason=_TEXT,
    ),
    _kind(
        LANE_FAILING,
        "A lane began to wait because its receiver is unreachable or fails.",
        {
            "lane": "reg_5f0c1a2b3c4d5e6f70818293:0",
            "partition": None,
            "since": "2026-11-20T12:00:00.000Z",
            "outcome": "unreachable",
            "status": 503,
            "error": "The receiver answered 503 Service Unavailable.",
        },
        lane=_TEXT,
        partition=_TEXT_OR_NULL,
        since=_TEXT,
        outcome={"enum": ["failed", "unreachable"]},
        status={"type": ["integer", "null"]},
        error=_TEXT_OR_NULL,
    ),
    _kind(
        LANE_RECOVERED,
        "A lane that failed delivered again.",
        {
            "lane": "reg_5f0c1a2b3c4d5e6f70818293:0",
            "partition": None,
            "since": "2026-11-20T12:00:00.000Z",
            "seconds": 42.5,
        },
        lane=_TEXT,
        partition=_TEXT_OR_NULL,
        since=_TEXT,
        seconds={"type": "number", "minimum": 0},
    ),
    _kind(
        BACKLOG_HIGH,
        "More deliveries are pending for a registration than operations.backlog_threshold.",
        {"deliveries": 10_001, "bytes": 5_200_520, "threshold": 10_000},
        deliveries=_COUNT,
        bytes=_COUNT,
        threshold=_COUNT,
    ),
    _kind(
        BACKLOG_NORMAL,
        "What is pending for a registration has fallen to 80 % of operations.backlog_threshold.",
        {"deliveries": 8_000, "bytes": 4_160_000, "threshold": 10_000},
        deliveries=_COUNT,
        bytes=_COUNT,
        threshold=_COUNT,
    ),
    _kind(
        DELIVERY_DEAD,
        "Deliveries of a registration were given up; the dead letters can be replayed.",
        {
            "count": 1,
            "reason": "Gave up after 8 failed attempts, the last of the schedule.",
            "delivery": "dlv_17",
            "eventId": "msg_019aa1b2c3d4e5f60718293a4b5c6d7e",
            "kind": "MESSAGES_UPSERT",
        },
        count={"type": "integer", "minimum": 1},
        reason=_TEXT,
        delivery=_TEXT_OR_NULL,
        eventId=_TEXT_OR_NULL,
        kind=_TEXT_OR_NULL,
    ),
)
"""Every operational kind."""

OPERATIONAL_NAMES = frozenset(kind.name for kind in OPERATIONAL_KINDS)


OPERATIONS_ID = "operations"
"""The id of the registration; those of others begin with ``reg_`` or ``global_``."""


OPERATIONAL_CATALOG = Catalog(OPERATIONAL_KINDS)
