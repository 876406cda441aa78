"""What a consumer has of a lane whose receiver fetches. No I/O."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import msgspec

from hookgw.kernel.schemes import PULL_URL
from hookgw.lanes.services import DeliveryPlan
from hookgw.records.deliveries import Attempt, Delivery, Outcome, Settlement
from hookgw.records.registrations import Registration

lease_numbers = count(1)


class Leased(NamedTuple):
    """A delivery in the hands of a consumer, with the exact bytes that it got."""

    delivery: Delivery
    body: bytes
    headers: dict[str, str] | None
    plan: DeliveryPlan


class Lease(msgspec.Struct):
    """What a consumer has of a lane.

    Attributes:
        number: counts the leases of all lanes, so that each has its own.
        length: in seconds. It begins anew with each acknowledgement: who makes progress needs the time.
        ends_at: by the steady clock.
        at, began: the time of the first hand-over, in seconds since the epoch and by the steady clock.
        leased: what is not settled, in order.
    """

    number: int
    consumer: str
    length: float
    ends_at: float
    at: float
    began: float
    leased: list[Leased]


class Report(NamedTuple):
    attempt: Attempt | None
    delivery: Delivery
    registration: Registration | None
    settlement: Settlement


def attempt_of(
    delivery: Delivery, at: float, duration: float, outcome: Outcome, error: str | None = None
) -> Attempt:
    return Attempt(
        number=delivery.attempts + 1, at=at, duration=duration, outcome=outcome, error=error, url=PULL_URL
    )
