"""Answers about deliveries and lanes."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hookgw.api.responses.common import Count, Time
from hookgw.api.responses.events import Event
from hookgw.api.responses.registrations import Registration
from hookgw.models.deliveries import DeliveryState, LaneState, Outcome


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP request of a delivery.

    Attributes:
        number: 1 and up.
        at: when it began.
        duration: in milliseconds.
        outcome: what came of it.
        status: of the answer; ``null`` where there was none.
        error: why it is no delivery.
        answer: the start of the answer's body, at most 4 KiB.
    """

    number: int
    at: Time
    duration: float
    outcome: Outcome
    status: int | None
    error: str | None
    answer: str


class Summary(Struct, frozen=True, kw_only=True, rename="camel"):
    """What every answer about a delivery says of it.

    Attributes:
        id: its name.
        state: where it stands.
        reason: why it is dead or dropped.
        kind: of the event.
        event_id: the event's id.
        registration_id: where it goes.
        label: of the registration; ``null`` where it was deleted.
        url: of the registration; ``null`` where it was deleted.
        accepted_at: when its event was accepted.
        finished_at: when it stopped being pending.
        next_attempt_at: not before this time.
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
        attempts: how many it has had.
        last_attempt: the newest.
    """

    attempts: int
    last_attempt: Attempt | None


class Report(Summary, frozen=True, kw_only=True, rename="camel"):
    """Everything that is known of a delivery.

    Attributes:
        attempts: every attempt, the first one first.
        last_attempt: the newest.
        event: the event with its payload.
        registration: what is stored of it now; ``null`` where it was deleted.
    """

    attempts: list[Attempt]
    last_attempt: Attempt | None
    event: Event
    registration: Registration | None


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """Deliveries, the newest first.

    Attributes:
        deliveries: of this page.
        cursor: of the next page; ``null`` on the last one.
    """

    deliveries: list[Delivery]
    cursor: str | None


class Replayed(Struct, frozen=True, kw_only=True):
    """What was sent again.

    Attributes:
        replayed: how many deliveries.
        warnings: what was ignored of the request.
    """

    replayed: Count
    warnings: list[str] | UnsetType = UNSET


class Lane(Struct, frozen=True, kw_only=True, rename="camel"):
    """The in-order queue of a registration, or of one of its partitions.

    Attributes:
        lane: the lane's key.
        registration: the id of the registration that it belongs to.
        instance: the registration's instance; `*` for one of the configuration, `null` if it was deleted.
        label: the registration's label; `null` if it was deleted.
        partition: a number, or with ordering `instance` an instance's name; `null` for the only lane.
        url: the registration's URL, without user and password; `null` if it was deleted.
        state: what it is doing.
        backlog: how many deliveries are pending in it.
        head_age: of the oldest of them, in seconds.
        waiting_until: when it tries again.
        last_outcome: of its last attempt.
        last_error: why that was no delivery.
    """

    lane: str
    registration: str
    instance: str | None
    label: str | None
    partition: str | None
    url: str | None
    state: LaneState
    backlog: Count
    head_age: float | None
    waiting_until: Time | None
    last_outcome: Outcome | None
    last_error: str | None
