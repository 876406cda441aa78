"""A lane's memory of its receiver and of its head, and the decision about an attempt. No I/O."""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec
import structlog

from hookgw.delivery.sender import AttemptResult
from hookgw.lanes.retry_policy import Decision, Policy, decide
from hookgw.records.deliveries import (
    DELIVERED_OUTCOME,
    FIRST,
    Attempt,
    Delivery,
    DeliveryState,
    Outcome,
    Position,
    Settlement,
)

logger = structlog.get_logger("hookgw.lane")

HANGS = (
    "The delivery before died without a response, too, so the receiver hangs: this one is tried until it is "
    "older than max_age."
)

_WAITED_FOR = (Outcome.UNANSWERED, Outcome.UNREACHABLE, Outcome.BLOCKED)


class Head(NamedTuple):
    """A head that waits on disk, with the facts that are shown of it."""

    seq: int
    position: Position
    instance: str
    queued_at: float
    next_at: float
    is_out_of_turn: bool = False


def head_of(delivery: Delivery, *, is_out_of_turn: bool = False) -> Head:
    return Head(
        delivery.seq,
        delivery.position,
        delivery.event.instance,
        delivery.queued_at,
        delivery.next_at,
        is_out_of_turn,
    )


class LaneMemory(msgspec.Struct, kw_only=True, gc=False):
    """The state of a lane that outlives its task.

    Attributes:
        until: when a retired lane is forgotten, by ``trio.current_time()``.
        last: the highest position that the lane has taken.
        streak: how many attempts in a row waited for the receiver, and not on a schedule.
        hangs: whether the previous delivery died *unanswered*, without any answer since; ``None`` if it has
            made no attempt yet, and the history must be asked (:mod:`hookgw.lanes.hanging`).
        broken_seq, broken_sends: the delivery whose requests broke or stalled in mid-body, and how many did.
        outcome, error: of the last attempt.
        has_reached: whether the receiver may have seen some of its event.
        is_throttled: whether the receiver answered with 429.
        tried, tried_since: the delivery whose attempts failed last, and when the first of them began.
        stuck: the delivery that was reported to hold the lane up.
    """

    until: float = 0.0
    last: Position = FIRST
    streak: int = 0
    hangs: bool | None = None
    broken_seq: int = 0
    broken_sends: int = 0
    outcome: Outcome | None = None
    error: str | None = None
    has_reached: bool = True
    is_throttled: bool = False
    tried: int | None = None
    tried_since: float = 0.0
    stuck: int | None = None

    def redirected(self) -> None:
        """Forget what belongs to the registration's former target."""
        self.streak = self.broken_sends = 0
        self.hangs, self.tried = False, None

    def delivered(self) -> None:
        self.streak, self.hangs, self.has_reached = 0, False, True
        self.outcome, self.error = DELIVERED_OUTCOME, None

    def note(self, attempt: Attempt, *, is_pending: bool) -> None:
        """Note an attempt that did not deliver, as the lane shows it."""
        self.outcome, self.error = attempt.outcome, attempt.error
        if self.hangs and is_pending and attempt.outcome is Outcome.UNANSWERED:
            self.error = f"{attempt.error} {HANGS}"

    def recall(self, attempt: Attempt) -> None:
        """Note the last attempt at the head, which another process made."""
        self.outcome, self.error, self.has_reached = attempt.outcome, attempt.error, _has_reached(attempt)
        self.is_throttled = attempt.status == 429

    def decide(self, delivery: Delivery, policy: Policy, result: AttemptResult, now: float) -> Decision:
        """Return what follows from an attempt that did not deliver, and remember its consequences."""
        attempt = result.attempt
        unanswered = attempt.outcome is Outcome.UNANSWERED
        self.has_reached = result.broke_off or _has_reached(attempt)
        self.is_throttled = attempt.status == 429
        if attempt.status is not None and not unanswered:
            self.hangs = False
        if result.broke_off:
            before = self.broken_sends if self.broken_seq == delivery.seq else 0
            self.broken_seq, self.broken_sends = delivery.seq, before + 1
        decision = decide(
            attempt.outcome,
            policy,
            failures=delivery.failures,
            streak=self.streak,
            age=policy.age(delivery.queued_at, now),
            retry_after=result.retry_after,
            chance=random.random(),  # noqa: S311  (jitter, not a secret)
            status=attempt.status,
            timed_out=result.timed_out,
            hangs=self.hangs is True,
            broken_sends=self.broken_sends if result.broke_off else 0,
        )
        waits = attempt.outcome in _WAITED_FOR and decision.failures == delivery.failures
        if waits and unanswered and not self.streak:
            logger.warning("receiver hangs", lane=delivery.lane, delivery=delivery.id, reason=HANGS)
        self.streak = self.streak + 1 if waits else 0
        if unanswered and decision.state is DeliveryState.DEAD:
            self.hangs = True
        return decision


def _has_reached(attempt: Attempt) -> bool:
    is_outside = attempt.outcome in (Outcome.BLOCKED, Outcome.UNREACHABLE)
    return attempt.status is not None or not is_outside


def settlement_of(
    delivery: Delivery, attempt: Attempt, decision: Decision, body: bytes | None, now: float
) -> Settlement:
    """Return the settlement of an attempt that did not deliver, by the decision about it."""
    return Settlement(
        seq=delivery.seq,
        state=decision.state,
        at=now,
        attempt=attempt,
        failures=decision.failures,
        next_at=now + decision.wait if decision.state is DeliveryState.PENDING else 0.0,
        # The first attempt that does not deliver fixes the bytes for every later one.
        body=body if delivery.body is None else None,
        reason=decision.reason,
    )
