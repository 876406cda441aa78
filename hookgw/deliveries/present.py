"""Shows deliveries, attempts and lanes as responses."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from hookgw.deliveries import responses
from hookgw.events import responses as event_responses
from hookgw.kernel.fields import write_time
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.secret_options import SecretOptions
from hookgw.kernel.times import rfc3339
from hookgw.records.deliveries import DeliveryState
from hookgw.records.events import Catalog, Event, edited_from
from hookgw.records.registrations import Registration
from hookgw.store import DeliveryReport, DeliverySummary
from hookgw.webhooks import lane_responses
from hookgw.webhooks.fields import Showing
from hookgw.webhooks.lane_responses import present_attempt
from hookgw.webhooks.responses import present_registration

WITHHELD = "This key does not have the right 'payloads'."
"""Why there is no data."""


def present_delivery(delivery: DeliverySummary, registration: Registration | None) -> responses.Delivery:
    """Return a delivery as in a list; ``registration`` is ``None`` if it was deleted."""
    pending = delivery.state is DeliveryState.PENDING
    return responses.Delivery(
        id=delivery.id,
        state=delivery.state,
        reason=delivery.reason,
        kind=delivery.kind,
        event_id=delivery.event_id,
        registration_id=delivery.registration,
        label=registration.label if registration else None,
        url=with_masked_user(registration.url) if registration else None,
        accepted_at=rfc3339(delivery.accepted_at),
        finished_at=write_time(delivery.finished_at),
        next_attempt_at=write_time(delivery.next_at) if pending else None,  # stale once it is settled
        attempts=delivery.attempts,
        last_attempt=present_attempt(delivery.last_attempt) if delivery.last_attempt else None,
    )


def present_of_any(delivery: responses.Delivery, instance: str) -> responses.DeliveryOfAny:
    """Return a delivery as in a list of several instances."""
    return responses.DeliveryOfAny(**msgspec.structs.asdict(delivery), instance=instance)


def present_report(
    report: DeliveryReport,
    attempts: list[lane_responses.Attempt],
    registration: Registration | None,
    instance_id: str,
    catalog: Catalog,
    secret_options: SecretOptions,
    *,
    shows_data: bool,
) -> responses.Report:
    """Return a delivery with its event, its registration, and the shown attempts."""
    event = report.event
    fields = msgspec.structs.asdict(present_delivery(report.summary, registration))
    fields["attempts"] = attempts
    fields["registration"] = (
        # As it is now. What it was at the time of the attempts is not kept.
        None
        if registration is None
        else present_registration(registration, Showing(instance_id, catalog, secret_options))
    )
    fields["event"] = event_responses.Event(**_fields_of(event, shows_data=shows_data))
    return responses.Report(**fields)


def present_logged_event(
    event: Event, accepted_at: float, *, shows_data: bool
) -> event_responses.LoggedEvent:
    fields = _fields_of(event, shows_data=shows_data)
    return event_responses.LoggedEvent(**fields, accepted_at=rfc3339(accepted_at))


def _fields_of(event: Event, *, shows_data: bool) -> dict[str, Any]:
    # The bytes that were emitted: key order and digits survive.
    data = {"data": msgspec.Raw(event.data_json)} if shows_data else {"withheld": WITHHELD}
    return {
        **data,
        "id": event.id,
        "event": event.kind,
        "instance": event.instance,
        "date_time": event.date_time,
        "sender": event.sender,
        "server_url": event.server_url,
        "edited_from": edited_from(event.id) or UNSET,
    }
