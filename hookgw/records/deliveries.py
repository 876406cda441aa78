"""Deliveries, attempts and their outcomes, as plain records. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from hookgw.kernel.language import N_
from hookgw.kernel.masking import repr_without
from hookgw.records.events import Event
from hookgw.records.registrations import Registration


class DeliveryState(StrEnum):
    """The state of a delivery. Every state but ``pending`` is final until the delivery is replayed.

    Attributes:
        PENDING: it waits for an attempt, or is in one.
        DELIVERED: the receiver took it.
        DEAD: it was given up; it can be sent again.
        DROPPED: a filter or a plugin dropped it.
    """

    PENDING = N_("pending")
    DELIVERED = N_("delivered")
    DEAD = N_("dead")
    DROPPED = N_("dropped")


class Outcome(StrEnum):
    """The result of one attempt; docs/guarantees.md says which answer leads to which outcome.

    Attributes:
        DELIVERED: a 2xx.
        REJECTED: the receiver will never accept this body: a dead letter at once.
        FAILED: another answer, or a failure of a plugin: retried on the schedule.
        UNANSWERED: the whole request was sent, and no answer came. The receiver may have done the work:
            retried on the schedule.
        UNREACHABLE: the receiver cannot have seen the event, or said that it is down or busy: the lane waits.
        GONE: 410: the registration is disabled.
        BLOCKED: the settings refuse this address: the lane waits until they allow it.
    """

    DELIVERED = N_("delivered")
    REJECTED = N_("rejected")
    FAILED = N_("failed")
    UNANSWERED = N_("unanswered")
    UNREACHABLE = N_("unreachable")
    GONE = N_("gone")
    BLOCKED = N_("blocked")

    @classmethod
    def of_text(cls, text: str) -> Outcome:
        """Return the outcome of a stored name, or ``FAILED`` for the name of a later version."""
        try:
            return cls(text)
        except ValueError:
            return cls.FAILED


FAILURES = (Outcome.FAILED, Outcome.UNANSWERED, Outcome.UNREACHABLE, Outcome.BLOCKED)
"""Outcomes of a lane that fails: it may send the delivery again."""
# Each delivery asks for these, and Python 3.11 takes six times as long to find a member in its Enum.
DELIVERED_STATE, DELIVERED_OUTCOME = DeliveryState.DELIVERED, Outcome.DELIVERED


class LaneState(StrEnum):
    """The state of a lane.

    Attributes:
        IDLE: it has nothing to deliver.
        DELIVERING: it makes an attempt, or is about to.
        WAITING: it waits for the next attempt of the delivery at its head.
        PAUSED: it waits until its registration may deliver again, or until the outbox can be read again.
    """

    IDLE = N_("idle")
    DELIVERING = N_("delivering")
    WAITING = N_("waiting")
    PAUSED = N_("paused")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request of a delivery.

    Attributes:
        number: counts from 1 over the whole life of the delivery, replays included.
        at: the start, in seconds since the epoch.
        duration: in seconds.
        outcome: the result.
        status: the response status; ``None`` without a response.
        error: a sentence that says why the attempt did not deliver; ``None`` if it did.
        answer: the start of the response body, at most ``delivery.kept_answer``, decoded leniently.
        url: what it was sent to, with user and password masked; ``None`` if nothing was to be sent, because a
            plugin failed or the host was known to be unreachable.
        request_head: of a request that was sent and did not deliver, its first line and its headers, a line
            each, with secrets masked, at most ``delivery.kept_heads``. ``None`` for others, and in lists.
        response_headers: the same of the response to it, without its first line.
    """

    number: int
    at: float
    duration: float
    outcome: Outcome
    status: int | None = None
    error: str | None = None
    answer: str = ""
    url: str | None = None
    request_head: str | None = None
    response_headers: str | None = None


Position: TypeAlias = int
"""A delivery's place in its lane. A later place is greater; nothing else can be told from it."""

FIRST: Position = 0
"""Before the first position of every lane."""


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The request of a delivery's first attempt, made while the delivery before was in flight.

    Attributes:
        registration: what it was made for. A registration that was changed is another object.
        timestamp: it is signed as of this second since the epoch.
        body: the rendered body.
        head: the head, with the blank line that ends it.
    """

    registration: Registration
    timestamp: int
    body: bytes
    head: bytes

    __repr__ = repr_without("head")


# Not frozen: the lane that holds a delivery updates its attempts, failures, next_at and body.
# gc=False: deliveries form no cycles, and a batch makes tens of thousands, which the collector would walk.
class Delivery(msgspec.Struct, kw_only=True, gc=False):
    """One event on its way to one registration.

    The steady clock counts seconds since the epoch, and never goes back.

    Attributes:
        seq: the permanent number of the delivery; numbers grow in the order of appending.
        event: the event to deliver.
        registration: the id of the target registration.
        lane: the key of the delivery's lane.
        accepted_at: the time of appending, in seconds since the epoch (steady clock).
        position: the place in the lane, which is the order of sending. It equals ``seq`` until a replay
            gives the delivery a later number from the same sequence.
        queued_at: the time of entering the outbox (steady clock): ``accepted_at`` until a replay.
            ``max_age`` counts from here.
        attempts: the number of attempts so far.
        failures: how many attempts followed the retry schedule (*failed* and *unanswered*): the place in it.
        next_at: the earliest time of the next attempt (steady clock); 0 for at once.
        body: the bytes to send, fixed by the first attempt that did not deliver; ``None`` before.
        charge: how many bytes of ``delivery.memory`` the lane that holds this delivery was charged for it.
        prepared: its request, if it was prepared and no attempt was begun since.
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
    charge: int = 0
    prepared: PreparedRequest | None = None

    @property
    def id(self) -> str:
        """The delivery's name in the HTTP API."""
        return f"dlv_{self.seq}"


class Page(NamedTuple):
    """Pending deliveries of a lane, in order.

    Attributes:
        more: whether further deliveries follow on disk.
        needed: the bytes of payload and body of the first delivery, if there is one.
    """

    deliveries: list[Delivery]
    more: bool
    needed: int = 0


def parse_delivery_id(text: str) -> int | None:
    digits = text.removeprefix("dlv_")
    # str.isdigit accepts digits of every script, and 18 digits always fit SQLite's 64-bit integers.
    if digits == text or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        return None
    return int(digits)


class KnownDelivery(msgspec.Struct, frozen=True, gc=False):
    """What a lane knows of a delivery that it settles, so that the store need not read the delivery.

    Of a delivery that has never been replayed: none of this changes, but for the name of a deleted instance.

    Attributes:
        registration: the id of the target registration.
        instance: the name of the event's instance.
        size: the bytes of the event's payload.
        queued_at: as of the delivery.
    """

    registration: str
    instance: str
    size: int
    queued_at: float


def known_of(delivery: Delivery) -> KnownDelivery | None:
    """Return what spares the store a read when a delivery is settled; ``None`` after a replay."""
    if delivery.position != delivery.seq:
        return None
    event = delivery.event
    return KnownDelivery(delivery.registration, event.instance, len(event.data_json), delivery.queued_at)


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt, or of a decision without an attempt, for the store.

    Attributes:
        state: the new state; ``pending`` if the delivery will be retried.
        at: the time of the decision (steady clock).
        attempt: the attempt to store; ``None`` without one (parked, dropped, expired).
        failures: the delivery's new number of attempts that follow the retry schedule.
        next_at: for ``pending``, the earliest time of the next attempt (steady clock).
        body: the bytes to store for the next attempt; ``None`` keeps the stored ones.
        reason: why the delivery is dead or dropped, if no attempt says it.
        known: of a delivery that its first attempt delivered; it only spares the store a read. Not the
            delivery itself: settlements wait for the disk, and its payload may be large.
    """

    seq: int
    state: DeliveryState
    at: float
    attempt: Attempt | None = None
    failures: int = 0
    next_at: float = 0.0
    body: bytes | None = None
    reason: str | None = None
    known: KnownDelivery | None = None


class Outgoing(msgspec.Struct, kw_only=True):
    """The request of one attempt, as plugins may change it before hookgw signs it.

    Attributes:
        url: the target; read-only.
        body: the bytes to send; read-only here (see ``hookgw_encode``).
        headers: the registration's headers, with lower-case names; plugins add to them. The
            ``webhook-*`` headers, ``host`` and ``content-length`` are not included: hookgw sets them.
        attempt: counts from 1.
    """

    url: str
    body: bytes
    headers: dict[str, str]
    attempt: int

    __repr__ = repr_without("headers")


WaitsFor: TypeAlias = Literal["rate", "memory", "connection", "descriptor", "order", "backfill", "fetch"]
"""What a lane may wait for, beside the time of a retry."""


class LaneStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a lane.

    Attributes:
        lane: the lane's key; see :mod:`hookgw.records.lanes`.
        registration: the id of the registration that the lane belongs to.
        partition: which of the registration's lanes it is; ``None`` if there is only one.
        url: the registration's URL, without user and password; ``None`` if the registration was deleted.
        state: the lane's state.
        backlog: the number of pending deliveries, on disk and in memory.
        held: the number of deliveries beside these that the storage holds back: no lane may read them yet.
        head: the sequence number of the delivery at the head; ``None`` for an empty lane.
        head_since: the time at which the head entered the outbox (steady clock); ``None`` without a head.
        head_instance: the instance of the head's event.
        tried_since: the beginning of the first failed attempt at the head (steady clock), as far as this
            process knows; ``None`` if none has failed.
        waiting_until: the time of the next attempt, or of the next look at the rate (steady clock); ``None``
            unless the lane is waiting.
        waits_for: the ``rate`` of its registration, ``memory`` to read its next delivery, ``connection`` of
            the host of its URL, file ``descriptor`` for that connection, the ``order`` with other partitions
            by chat, the ``backfill`` before what is pending, or the next ``fetch`` of its receiver; ``None``
            if it waits for none of them.
        last_outcome: the outcome of the last attempt.
        last_error: why the last attempt did not deliver.
        has_reached: whether the receiver may have seen some of the event in the last attempt.
        is_throttled: whether the receiver answered it with 429: it limits its callers.
        fetched_at: of a lane whose receiver fetches, when it did so last, since the start of the process.
        consumer: who has leased its first deliveries now.
    """

    lane: str
    registration: str
    partition: str | None
    url: str | None
    state: LaneState
    backlog: int
    held: int = 0
    head: int | None = None
    head_since: float | None = None
    head_instance: str | None = None
    tried_since: float | None = None
    waiting_until: float | None = None
    waits_for: WaitsFor | None = None
    last_outcome: Outcome | None = None
    last_error: str | None = None
    has_reached: bool = True
    is_throttled: bool = False
    fetched_at: float | None = None
    consumer: str | None = None


_URGENCY = {LaneState.WAITING: 0, LaneState.PAUSED: 1, LaneState.DELIVERING: 2, LaneState.IDLE: 3}


class ReportedLane(msgspec.Struct, frozen=True, array_like=True):
    """A lane, with the instance and the label of its registration, or ``None`` if that was deleted."""

    lane: LaneStatistics
    instance: str | None
    label: str | None

    @property
    def urgency(self) -> tuple[int, int]:
        """The sort key of lanes: the most urgent has the least."""
        lane = self.lane
        # An idle lane with deliveries that are held back waits, too.
        return _URGENCY[LaneState.WAITING if lane.held else lane.state], -lane.backlog - lane.held

    @property
    def is_idle(self) -> bool:
        return self.lane.state is LaneState.IDLE and not self.lane.backlog and not self.lane.held

    def matches(self, search: str) -> bool:
        """Return whether a text, in lower case, is in its instance, label, URL or last error."""
        texts = (self.instance, self.label, self.lane.url, self.lane.last_error)
        return any(search in text.casefold() for text in texts if text)
