"""Deliveries, attempts and their outcomes: the plain records. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from hookgw.models.events import Event
from hookgw.models.masking import repr_without


class DeliveryState(StrEnum):
    """Where a delivery stands. All but ``pending`` are final until somebody replays it."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    DROPPED = "dropped"


class Outcome(StrEnum):
    """What came of one attempt."""

    DELIVERED = "delivered"
    REJECTED = "rejected"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    GONE = "gone"
    BLOCKED = "blocked"


class LaneState(StrEnum):
    """What a lane is doing."""

    IDLE = "idle"
    DELIVERING = "delivering"
    WAITING = "waiting"
    PAUSED = "paused"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request of a delivery.

    Attributes:
        number: 1 and up, over the whole life of the delivery.
        at: when it began, in seconds since the epoch.
        duration: in seconds.
        outcome: what came of it.
        status: the answer's status; ``None`` where there was none.
        error: a sentence that says why it is no delivery; ``None`` for a delivered one.
        answer: the start of the answer's body, decoded leniently, at most 4 KiB.
    """

    number: int
    at: float
    duration: float
    outcome: Outcome
    status: int | None = None
    error: str | None = None
    answer: str = ""


Position: TypeAlias = int
"""A delivery's place in its lane. A later place is greater; nothing else can be told from it."""

FIRST: Position = 0
"""Before the first position of every lane."""


class Delivery(msgspec.Struct, kw_only=True):
    """One event on its way to one registration.

    Attributes:
        seq: its number, by which it is known for good; deliveries are numbered in the order of appending.
        event: what is delivered.
        registration: the id of the registration it goes to.
        lane: the key of the lane it is in.
        accepted_at: when it was appended, in seconds since the epoch (steady clock).
        position: its place in its lane, which is the order of sending: ``seq`` until it is sent again,
            then a later number of the same count.
        queued_at: since when it has been in the outbox (steady clock): ``accepted_at`` until it is sent
            again. Its age is counted from here.
        attempts: how many attempts it has had.
        failures: how many of those ended as *failed*: its place in the retry schedule.
        next_at: not before this time (steady clock); 0 for at once.
        body: the bytes to send, fixed by the first attempt that did not deliver them; else ``None``.
    """

    seq: int
    event: Event
    registration: str
    lane: str
    accepted_at: float
    position: Position
    queued_at: float
    attempts: int = 0
    failures: int = 0
    next_at: float = 0.0
    body: bytes | None = None

    @property
    def id(self) -> str:
        """The name by which the HTTP interface knows it."""
        return f"dlv_{self.seq}"


class Page(NamedTuple):
    """Pending deliveries of a lane, in order, and whether more of them follow."""

    deliveries: list[Delivery]
    more: bool


def parse_delivery_id(text: str) -> int | None:
    """The sequence number in a delivery id; ``None`` where the text is no delivery id."""
    digits = text.removeprefix("dlv_")
    if digits == text or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        return None
    return int(digits)


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What the store has to write after an attempt, or after a decision without one.

    Attributes:
        seq: the delivery.
        state: ``pending`` when it will be tried again.
        at: when it was decided (steady clock).
        attempt: the attempt to record; ``None`` where none was made (parked, dropped, expired).
        failures: the delivery's new count of *failed* attempts.
        next_at: for ``pending``, not before this time (steady clock).
        body: the bytes to keep for the next attempt; ``None`` leaves what is stored.
        reason: why it is dead or dropped, where no attempt says it.
    """

    seq: int
    state: DeliveryState
    at: float
    attempt: Attempt | None = None
    failures: int = 0
    next_at: float = 0.0
    body: bytes | None = None
    reason: str | None = None


class Outgoing(msgspec.Struct, kw_only=True):
    """One attempt's request as plugins may change it, before it is signed.

    Attributes:
        url: where it goes; read-only.
        body: the bytes that will be sent; read-only here (see ``hookgw_encode``).
        headers: further headers, over those of the registration; names in lower case. The
            ``webhook-*`` headers, ``host`` and ``content-length`` are the gateway's and are not here.
        attempt: 1 and up.
    """

    url: str
    body: bytes
    headers: dict[str, str]
    attempt: int

    __repr__ = repr_without("headers")


class LaneStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a lane.

    Attributes:
        lane: its key; see :mod:`hookgw.models.lanes`.
        registration: the id of the registration that it belongs to.
        partition: which of the registration's lanes it is; ``None`` if there is one.
        url: of the registration, without user and password; ``None`` if the registration was deleted.
        state: what it is doing.
        backlog: how many deliveries are pending in it, on disk or in memory.
        head: the sequence number of the delivery at its head, if it has one.
        head_since: since when the head is in the outbox (steady clock); ``None`` without a head.
        waiting_until: when it will try again (steady clock); ``None`` unless it waits.
        last_outcome: of its last attempt.
        last_error: why that was no delivery.
    """

    lane: str
    registration: str
    partition: str | None
    url: str | None
    state: LaneState
    backlog: int
    head: int | None = None
    head_since: float | None = None
    waiting_until: float | None = None
    last_outcome: Outcome | None = None
    last_error: str | None = None
