"""What the store has to write, from what came of a delivery. Pure."""

from __future__ import annotations

from hookgw.delivery.sender import AttemptResult
from hookgw.dispatch.retry_policy import Decision
from hookgw.models.deliveries import Delivery, DeliveryState, Outcome, Settlement


def settlement_of(
    delivery: Delivery, sent: AttemptResult, body: bytes | None, decision: Decision, now: float
) -> Settlement:
    """After an attempt.

    Args:
        delivery: as it was before the attempt.
        sent: what came of it.
        body: the bytes that were sent; they are kept by the first attempt that did not deliver them.
        decision: what becomes of the delivery.
        now: the time by the steady clock.
    """
    is_new_body = delivery.body is None and sent.attempt.outcome is not Outcome.DELIVERED
    return Settlement(
        seq=delivery.seq,
        state=decision.state,
        at=now,
        attempt=sent.attempt,
        failures=decision.failures,
        next_at=now + decision.wait if decision.state is DeliveryState.PENDING else 0.0,
        body=body if is_new_body else None,
        reason=decision.reason,
    )


def settlement_without_attempt(
    delivery: Delivery, state: DeliveryState, reason: str, now: float
) -> Settlement:
    """After a decision that no attempt led to; ``reason`` is a sentence that says why."""
    return Settlement(seq=delivery.seq, state=state, at=now, failures=delivery.failures, reason=reason)
