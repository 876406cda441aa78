"""Records as the JSON that callers see; ``docs/http.md`` describes each shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hookgw.clock import rfc3339
from hookgw.connectors import ConnectionState, QRCode
from hookgw.deliveries import Attempt, DeliveryState
from hookgw.dialects import MASK
from hookgw.events import Catalog, Event, EventKind
from hookgw.registrations import Instance, Registration, RetryOptions
from hookgw.store import DeliveryReport, DeliverySummary
from hookgw.units import Duration

if TYPE_CHECKING:
    from hookgw.dispatch.services import LaneStatistics

SUCCESS = "SUCCESS"


def present_done(message: str) -> dict[str, Any]:
    """The answer of calls that delete or end something."""
    return {"status": SUCCESS, "error": False, "response": {"message": message}}


def present_registration(
    registration: Registration, instance_id: str, catalog: Catalog, warnings: list[str]
) -> dict[str, Any]:
    """A registration as ``set`` and ``find`` give it. Values of headers are masked, secrets left out."""
    return {
        "id": registration.id,
        "instance": registration.instance,
        "label": registration.label,
        "url": registration.url,
        "enabled": registration.enabled,
        "events": list(registration.events) or [kind.name for kind in catalog if not kind.operational],
        "webhookByEvents": registration.by_events,
        "webhookBase64": registration.base64,
        "headers": dict.fromkeys(registration.headers, MASK),
        "ordering": registration.ordering,
        "concurrency": registration.concurrency,
        "timeout": present_duration(registration.timeout),
        "retry": _retry(registration.retry),
        "plugins": registration.plugins,
        "createdAt": rfc3339(registration.created_at),
        "updatedAt": rfc3339(registration.updated_at),
        "instanceId": instance_id,
        **_state(registration),
        "warnings": warnings,
    }


def _state(registration: Registration) -> dict[str, Any]:
    if registration.enabled:
        return {"state": "active", "stateReason": None}
    return {
        "state": "disabled",
        "stateReason": registration.disabled_reason or "It was set with enabled false.",
    }


def _retry(retry: RetryOptions) -> dict[str, Any]:
    schedule = None if retry.schedule is None else [present_duration(wait) for wait in retry.schedule]
    return {
        "schedule": schedule,
        "maxAge": present_duration(retry.max_age),
        "disableAfter": present_duration(retry.disable_after),
    }


def present_duration(seconds: float | None) -> str | None:
    """A length of time with its unit, as ``set`` takes it."""
    return None if seconds is None else str(Duration(seconds))


def present_time(seconds: float | None) -> str | None:
    """A moment as RFC 3339; ``None`` for none, which the records also write as 0."""
    return rfc3339(seconds) if seconds else None


def present_instance(instance: Instance, state: ConnectionState) -> dict[str, Any]:
    """An instance, in the names that clients of such gateways read."""
    return {
        "instanceName": instance.name,
        "instanceId": instance.id,
        "integration": instance.integration or None,
        "status": state,
        "createdAt": rfc3339(instance.created_at),
    }


def present_listed_instance(instance: Instance, state: ConnectionState) -> dict[str, Any]:
    """An instance in a list: older clients read ``instance``, newer ones ``name`` and its like."""
    return {
        "id": instance.id,
        "name": instance.name,
        "connectionStatus": state,
        "instance": present_instance(instance, state),
    }


def present_state(instance: str, state: ConnectionState) -> dict[str, Any]:
    """The state of an instance's connection."""
    return {"instance": {"instanceName": instance, "state": state}}


def present_qr_code(code: QRCode | None) -> dict[str, Any]:
    """A QR code; nothing where there is none."""
    if code is None:
        return {}
    return {"code": code.code, "base64": code.base64, "pairingCode": code.pairing_code}


def present_attempt(attempt: Attempt) -> dict[str, Any]:
    """One attempt; ``duration`` is in milliseconds."""
    return {
        "number": attempt.number,
        "at": rfc3339(attempt.at),
        "duration": round(attempt.duration * 1000, 1),
        "outcome": attempt.outcome,
        "status": attempt.status,
        "error": attempt.error,
        "answer": attempt.answer,
    }


def present_kind(kind: EventKind) -> dict[str, Any]:
    """An event kind of the catalog."""
    return {
        "name": kind.name,
        "dotted": kind.dotted_name,
        "aliases": list(kind.aliases),
        "meaning": kind.meaning,
        "schema": kind.schema,
        "example": kind.example,
        "plugin": kind.plugin or None,
        "operational": kind.operational,
    }


def present_delivery(delivery: DeliverySummary, registration: Registration | None) -> dict[str, Any]:
    """A delivery as a list shows it; ``registration`` is what is stored of it now, if anything is."""
    pending = delivery.state is DeliveryState.PENDING
    return {
        "id": delivery.id,
        "state": delivery.state,
        "reason": delivery.reason,
        "kind": delivery.kind,
        "eventId": delivery.event_id,
        "registrationId": delivery.registration,
        "label": registration.label if registration else None,
        "url": registration.url if registration else None,
        "acceptedAt": rfc3339(delivery.accepted_at),
        "finishedAt": present_time(delivery.finished_at),
        "nextAttemptAt": present_time(delivery.next_at) if pending else None,
        "attempts": delivery.attempts,
        "lastAttempt": present_attempt(delivery.last_attempt) if delivery.last_attempt else None,
    }


def present_report(
    report: DeliveryReport, registration: Registration | None, instance_id: str, catalog: Catalog
) -> dict[str, Any]:
    """A delivery with its event, its registration, and every attempt, the first one first."""
    shown = registration and present_registration(registration, instance_id, catalog, [])
    return {
        **present_delivery(report.summary, registration),
        "event": _event(report.event),
        "registration": shown,
        "attempts": [present_attempt(attempt) for attempt in report.attempts],
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "id": event.id,
        "event": event.kind,
        "instance": event.instance,
        "data": msgspec.Raw(event.data_json),
        "date_time": event.date_time,
        "sender": event.sender,
        "server_url": event.server_url,
    }


def present_lane(lane: LaneStatistics, now: float) -> dict[str, Any]:
    """A lane; ``now`` is the steady clock's, ``headAge`` in seconds."""
    return {
        "lane": lane.lane,
        "state": lane.state,
        "backlog": lane.backlog,
        "headAge": None if lane.head_since is None else round(max(0.0, now - lane.head_since), 3),
        "waitingUntil": present_time(lane.waiting_until),
        "lastOutcome": lane.last_outcome,
        "lastError": lane.last_error,
    }
