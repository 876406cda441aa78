"""Responses about deliveries and lanes."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hookgw.events.responses import Event
from hookgw.kernel.schema_parts import Time
from hookgw.records.deliveries import DeliveryState, LaneState, Outcome, WaitsFor
from hookgw.web.responses.common import Count
from hookgw.webhooks.responses import Registration


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP request of a delivery.

    Attributes:
        number: counts from 1.
        at: when it began.
        duration: in milliseconds.
        outcome: its outcome.
        status: the status of the receiver's response; ``null`` without a response.
        error: why the attempt failed.
        answer: the start of the response's body, at most 4 KiB.
        url: what it was sent to, with user and password masked; ``null`` if nothing was to be sent, because a
            plugin failed or the host was known to be unreachable, and for attempts of earlier versions.
    """

    number: int
    at: Time
    duration: float
    outcome: Outcome
    status: int | None
    error: str | None
    answer: str
    url: str | None


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
        next_attempt_at: the earliest time of the next attempt; ``null`` if it is due or finished.
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


class Replayed(Struct, frozen=True, kw_only=True):
    """The result of a replay.

    Attributes:
        replayed: the number of deliveries that are sent again, so far if there is a `job`.
        job: the job that goes on with the replay, if it takes long.
    """

    replayed: Count
    job: str | UnsetType = UNSET


class Cancelled(Struct, frozen=True, kw_only=True):
    """The result of a cancellation.

    Attributes:
        cancelled: the number of deliveries that became dead letters, so far if there is a `job`.
        matching: with `dryRun`, the number of deliveries that would be cancelled; 100,000 stands for so many
            or more.
        job: the job that goes on with the cancellation, if it takes long.
    """

    cancelled: Count
    matching: Count | UnsetType = UNSET
    job: str | UnsetType = UNSET


class Lane(Struct, frozen=True, kw_only=True, rename="camel"):
    """The in-order queue of a registration, or of one of its partitions.

    Attributes:
        lane: the lane's key.
        registration: the id of its registration.
        instance: the registration's instance; `*` for a webhook of the configuration, `null` if the
            registration was deleted.
        label: the registration's label; `null` if it was deleted.
        partition: a number, or with ordering `instance` an instance's name; `null` for a registration's
            only lane.
        url: the registration's URL, without user and password; `null` if it was deleted.
        state: its state.
        backlog: the number of pending deliveries.
        held: the number of deliveries beside these that wait for an older transaction in the database; 0 with
            a data file.
        head: the id of the delivery at its head, which it tries or is about to; `null` if there is none.
        head_instance: the instance of that delivery's event.
        head_age: the age of the oldest pending delivery, in seconds.
        waiting_until: the time of the next attempt, while the lane waits.
        waits_for: what the lane waits for, if not for the time of a retry: the `rate` of its registration,
            `memory`, a `connection` of its host, or a file `descriptor`.
        last_outcome: the outcome of its last attempt.
        last_error: why that attempt failed.
        advice: what holds the lane up and what to do, if its head has been tried for more than 10 minutes and
            100 deliveries or more wait behind it; `null` otherwise.
        node: the node that the lane is on; only in a fleet.
    """

    lane: str
    registration: str
    instance: str | None
    label: str | None
    partition: str | None
    url: str | None
    state: LaneState
    backlog: Count
    held: Count
    head: str | None
    head_instance: str | None
    head_age: float | None
    waiting_until: Time | None
    waits_for: WaitsFor | None
    last_outcome: Outcome | None
    last_error: str | None
    advice: str | None
    node: str | UnsetType = UNSET
