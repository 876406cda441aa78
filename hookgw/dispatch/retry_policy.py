"""What follows an attempt. Pure: outcome and history in, decision out; no clock, no I/O.

Two kinds of failure wait in two ways. A *failed* delivery has a schedule of its own and ends as a
dead letter after its last entry. An *unreachable* receiver is nobody's fault but its own: the lane
waits, doubling, and tries its head again until the event is older than ``max_age``. Either way the
head stays the head, so order holds.
"""

from __future__ import annotations

import msgspec

from hookgw.config.settings import DeliverySettings
from hookgw.models.deliveries import DeliveryState, Outcome
from hookgw.models.registrations import Registration


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The retry rules of one registration. All times in seconds."""

    schedule: tuple[float, ...]
    jitter: float
    first_wait: float
    max_wait: float
    retry_after_max: float
    max_age: float
    disable_after: float
    timeout: float


def policy_of(registration: Registration, settings: DeliverySettings) -> Policy:
    """The registration's own rules, and the gateway's where it has none."""
    own = registration.retry
    return Policy(
        schedule=tuple(settings.schedule) if own.schedule is None else own.schedule,
        jitter=settings.jitter,
        first_wait=settings.unreachable_first_wait,
        max_wait=settings.unreachable_max_wait,
        retry_after_max=settings.retry_after_max,
        max_age=settings.max_age if own.max_age is None else own.max_age,
        disable_after=settings.disable_after if own.disable_after is None else own.disable_after,
        timeout=settings.timeout if registration.timeout is None else registration.timeout,
    )


class Decision(msgspec.Struct, frozen=True):
    """What becomes of the delivery.

    Attributes:
        state: ``pending`` for another try.
        wait: for ``pending``, the seconds until it.
        failures: the delivery's new count of *failed* attempts.
        reason: for ``dead``, a sentence that says why no further try follows; else ``None``.
        disables: whether the registration is to be disabled.
    """

    state: DeliveryState
    wait: float = 0.0
    failures: int = 0
    reason: str | None = None
    disables: bool = False


def decide(
    outcome: Outcome,
    policy: Policy,
    *,
    failures: int,
    streak: int,
    age: float,
    retry_after: float | None,
    chance: float,
) -> Decision:
    """Judge one attempt.

    Args:
        outcome: what came of it.
        policy: the registration's rules.
        failures: how many attempts of this delivery ended as *failed* before.
        streak: how many attempts of this lane ended as *unreachable* in a row before.
        age: of the event since it was accepted, in seconds.
        retry_after: what the receiver asked for, in seconds, or ``None``.
        chance: a random number from 0 to 1, for the jitter.
    """
    match outcome:
        case Outcome.DELIVERED:
            return Decision(DeliveryState.DELIVERED, failures=failures)
        case Outcome.FAILED:
            return _after_failure(policy, failures + 1, retry_after, chance)
        case Outcome.UNREACHABLE:
            return _after_silence(policy, failures, streak, age, retry_after, chance)
        case Outcome.GONE:
            reason = "The receiver answered 410 Gone: the registration is disabled."
            return Decision(DeliveryState.DEAD, failures=failures, reason=reason, disables=True)
        case Outcome.REJECTED:
            reason = "The receiver rejected this payload; sending it again would not help."
            return Decision(DeliveryState.DEAD, failures=failures, reason=reason)
        case Outcome.BLOCKED:
            reason = "The target address is refused."
            return Decision(DeliveryState.DEAD, failures=failures, reason=reason)


def longest_wait(policy: Policy) -> float:
    """No wait that :func:`decide` gives under this policy is longer, in seconds."""
    usual = max((policy.max_wait, *policy.schedule))
    return max(usual * (1.0 + policy.jitter), policy.retry_after_max)


def is_expired(policy: Policy, *, age: float, streak: int) -> bool:
    """Whether a delivery is given up before another attempt.

    Only what waits for a receiver that is down now expires: after a downtime of our own, however long,
    the receiver is tried once before anything is given up.
    """
    return age > policy.max_age and streak > 0


def expiry_reason(policy: Policy) -> str:
    """Why an expired delivery is dead, as a sentence."""
    return f"The receiver was unreachable until the event was older than max_age ({policy.max_age:g} s)."


def _after_failure(policy: Policy, failures: int, retry_after: float | None, chance: float) -> Decision:
    if failures > len(policy.schedule):
        reason = f"Gave up after {failures} failed attempts, the last of the schedule."
        return Decision(DeliveryState.DEAD, failures=failures, reason=reason)
    wait = _later(policy.schedule[failures - 1], policy, retry_after, chance)
    return Decision(DeliveryState.PENDING, wait=wait, failures=failures)


def _after_silence(
    policy: Policy, failures: int, streak: int, age: float, retry_after: float | None, chance: float
) -> Decision:
    if age > policy.max_age:
        return Decision(DeliveryState.DEAD, failures=failures, reason=expiry_reason(policy))
    doubled = policy.first_wait * 2.0 ** min(streak, 64)
    wait = _later(min(doubled, policy.max_wait), policy, retry_after, chance)
    return Decision(DeliveryState.PENDING, wait=wait, failures=failures)


def _later(wait: float, policy: Policy, retry_after: float | None, chance: float) -> float:
    """The wait with jitter, which only ever adds, and not under what the receiver asked for."""
    asked = min(retry_after or 0.0, policy.retry_after_max)
    return max(wait * (1.0 + policy.jitter * chance), asked)
