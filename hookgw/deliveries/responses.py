"""Responses about deliveries and lanes."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hookgw.events.responses import Event, LoggedEvent
from hookgw.kernel.schema_parts import Time
from hookgw.records.deliveries import DeliveryState
from hookgw.web.responses import Count
from hookgw.webhooks.lane_responses import Attempt
from hookgw.webhooks.responses import Registration


class Summary(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that every response about a delivery has.

    Attributes:
        id: the delivery's id.
        state: its state.
        reason: why it is dead or dropped.
        kind: the event's kind.
        event_id: the event's id.
        registration_id: the id of the registration.
        label: the registration's label; ``null`` if it was deleted.
        url: the registration's URL; ``null`` if it was deleted.
        accepted_at: when the event was accepted.
        finished_at: when the delivery finished; ``null`` while it is pending.
        next_attempt_at: the earliest time of the next attempt; ``null`` if it is finished, due or in line.
    """

    id: str
    state: DeliveryState
    reason: str | None
    kind: str
    event_id: str
    registration_id: str
    label: str | None
    url: str | None
    accepted_at: Time
    finished_at: Time | None
    next_attempt_at: Time | None


class Delivery(Summary, frozen=True, kw_only=True, rename="camel"):
    """One event on its way to one registration.

    Attributes:
        attempts: the number of attempts so far.
        last_attempt: the newest attempt.
    """

    attempts: int
    last_attempt: Attempt | None


class DeliveryOfAny(Delivery, frozen=True, kw_only=True, rename="camel"):
    """A delivery in a list of several instances.

    Attributes:
        instance: the name of its instance.
    """

    instance: str


class Report(Summary, frozen=True, kw_only=True, rename="camel"):
    """A delivery with its event, its registration and every attempt.

    Attributes:
        attempts: every attempt, oldest first; of more than 1,000, or of more than 2 MiB, the newest.
        last_attempt: the newest attempt.
        event: the event with its payload.
        registration: the registration as it is now; ``null`` if it was deleted.
    """

    attempts: list[Attempt]
    last_attempt: Attempt | None
    event: Event
    registration: Registration | None


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """A page of deliveries, the newest first.

    Attributes:
        deliveries: the deliveries on this page. A search that takes long ends early, and a page ends after
            2 MiB: then they are fewer than `limit`, perhaps none, and there is a `cursor`.
        cursor: selects the next page; ``null`` on the last page.
    """

    deliveries: list[Delivery]
    cursor: str | None


class DeliveryOfAnyPage(Struct, frozen=True, kw_only=True):
    """A page of deliveries of several instances, as a page of one instance's.

    Attributes:
        deliveries: the deliveries on this page.
        cursor: selects the next page; ``null`` on the last page.
    """

    deliveries: list[DeliveryOfAny]
    cursor: str | None


class EventReport(Struct, frozen=True, kw_only=True):
    """An event of the log, and what became of it.

    Attributes:
        event: the event with its payload.
        deliveries: those that it made, the newest first; of more than 1,000, or more than 2 MiB, the newest.
        note: says that there are none, and why.
    """

    event: LoggedEvent
    deliveries: list[Delivery]
    note: str | UnsetType = UNSET


class Replayed(Struct, frozen=True, kw_only=True):
    """The result of a replay.

    Attributes:
        replayed: the number of deliveries that are sent again, so far if there is a `job`.
        matching: with `dryRun`, the number of deliveries that would be sent; 100,000 stands for so many or
            more.
        instances: with `dryRun`, that number for each instance and label.
        complete: ``false`` if the count ended early: there may be more.
        job: the job that goes on with the replay, if it takes long.
    """

    replayed: Count
    matching: Count | UnsetType = UNSET
    instances: dict[str, dict[str, Count]] | UnsetType = UNSET
    complete: bool | UnsetType = UNSET
    job: str | UnsetType = UNSET


class Cancelled(Struct, frozen=True, kw_only=True):
    """The result of a cancellation.

    Attributes:
        cancelled: the number of deliveries that became dead letters, so far if there is a `job`.
        matching: with `dryRun`, the number of deliveries that would be cancelled; 100,000 stands for so many
            or more.
        instances: with `dryRun`, that number for each instance and label.
        complete: ``false`` if the count ended early: there may be more.
        job: the job that goes on with the cancellation, if it takes long.
    """

    cancelled: Count
    matching: Count | UnsetType = UNSET
    instances: dict[str, dict[str, Count]] | UnsetType = UNSET
    complete: bool | UnsetType = UNSET
    job: str | UnsetType = UNSET


class PulledDelivery(Struct, frozen=True, kw_only=True, rename="camel"):
    """A delivery that was fetched.

    Attributes:
        id: the delivery's id.
        headers: what a request to a URL would have had; `webhook-signature` is of this body.
        body: the exact text that the signature covers; `null` if a plugin encoded it as bytes that are no
            UTF-8.
        body_base64: these bytes; only if `body` is `null`.
        cursor: its place. An acknowledgement of it is one of everything before it, too.
    """

    id: str
    headers: dict[str, str]
    body: str | None
    cursor: str
    body_base64: str | UnsetType = UNSET


class PulledDeliveries(Struct, frozen=True):
    """The next deliveries.

    Attributes:
        deliveries: in order; empty if there were none in time, or at the end of the server.
        cursor: that of the last one; without one, the `after` of the request.
    """

    deliveries: list[PulledDelivery]
    cursor: str | None


class Acknowledged(Struct, frozen=True):
    """The result of an acknowledgement.

    Attributes:
        acknowledged: the number of deliveries that are delivered now.
        failed: the number of failures that were noted. One that was reported together with one before it
            returns without an attempt.
    """

    acknowledged: Count
    failed: Count
