"""The lanes of registrations, and attempts, in responses."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hookgw.kernel.fields import write_time
from hookgw.kernel.schema_parts import Time
from hookgw.kernel.times import rfc3339
from hookgw.records import deliveries as records
from hookgw.records.deliveries import LaneState, Outcome, WaitsFor
from hookgw.records.stuck_lanes import advice_for
from hookgw.web.present import shown
from hookgw.web.responses import Count


class Attempt(Struct, frozen=True, kw_only=True, rename="camel"):
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
            plugin failed or the host was known to be unreachable.
        request_head: the first line and the headers of the request, a line each, as they were sent, with the
            values of secret ones masked; only of an attempt that was sent and did not deliver, and not in
            lists.
        response_headers: the headers of the response to it, in the same form.
    """

    number: int
    at: Time
    duration: float
    outcome: Outcome
    status: int | None
    error: str | None
    answer: str
    url: str | None
    request_head: str | UnsetType = UNSET
    response_headers: str | UnsetType = UNSET


class Lane(Struct, frozen=True, kw_only=True, rename="camel"):
    """The in-order queue of a registration, or of one of its partitions.

    Attributes:
        lane: the lane's key.
        registration: the id of its registration.
        instance: the registration's instance; `*` for a webhook of the configuration, `null` if the
            registration was deleted.
        label: the registration's label; `null` if it was deleted.
        partition: a number, with ordering `chat` also `all` (for events about several chats), or with
            ordering `instance` an instance's name; `null` for a registration's only lane.
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
            `memory`, a `connection` of its host, a file `descriptor`, the `order` with other partitions, or
            the `backfill` that comes before what is pending, or the next `fetch` of its receiver.
        last_outcome: the outcome of its last attempt.
        last_error: why that attempt failed.
        advice: what holds the lane up and what to do, if its head has been tried for more than 10 minutes and
            100 deliveries or more wait behind it; `null` otherwise.
        fetched_at: of a webhook whose URL is `pull:`, when its receiver fetched last, since the start of the
            process; `null` if it did not.
        consumer: who has its first deliveries now; `null` if nobody has.
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
    fetched_at: Time | None
    consumer: str | None
    node: str | UnsetType = UNSET


def present_attempt(attempt: records.Attempt) -> Attempt:
    return Attempt(
        number=attempt.number,
        at=rfc3339(attempt.at),
        duration=round(attempt.duration * 1000, 1),  # milliseconds
        outcome=attempt.outcome,
        status=attempt.status,
        error=attempt.error,
        answer=attempt.answer,
        url=attempt.url,
        request_head=attempt.request_head or UNSET,
        response_headers=attempt.response_headers or UNSET,
    )


def present_lane(
    lane: records.LaneStatistics, instance: str | None, label: str | None, now: float, node: str = ""
) -> Lane:
    """Return the state of a lane. ``now`` is by the steady clock, ``node`` is empty without a fleet."""
    return shown(
        Lane,
        lane,
        instance=instance,
        label=label,
        head=None if lane.head is None else f"dlv_{lane.head}",
        # The steady clock of the snapshot may be a moment behind: never negative.
        head_age=None if lane.head_since is None else round(max(0.0, now - lane.head_since), 3),
        waiting_until=write_time(lane.waiting_until),
        advice=advice_for(lane, now),
        fetched_at=write_time(lane.fetched_at),
        node=node or UNSET,
    )
