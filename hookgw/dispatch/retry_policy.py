"""What follows an attempt. Pure: outcome and history in, decision out; no clock, no I/O.

Two kinds of failure wait in two ways. A *failed* delivery has a retry schedule and becomes a dead letter
after its last entry. An *unreachable* receiver is down or busy, and the event is not at fault: the lane
waits, twice as long each time, and tries its head again until the event is older than ``max_age``. In both
cases the head stays the head, so the order holds.
"""

from __future__ import annotations

import msgspec

from hookgw.config.settings import DeliverySettings
from hookgw.models.deliveries import DeliveryState, Outcome
from hookgw.models.registrations import Registration

# Outcomes after which another attempt cannot help, and why.
_FINAL = {
    Outcome.REJECTED: "The receiver rejected this payload; sending it again would not help.",
    Outcome.GONE: "The receiver answered 410 Gone: the registration is disabled.",
    Outcome.BLOCKED: "The target address is refused.",
}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The retry rules of one registration. All times are in seconds.

    Attributes:
        counts_from: the end of the registration's last pause, in seconds since the epoch: what is older is as
            old as that.
    """

    schedule: tuple[float, ...]
    jitter: float
    first_wait: float
    max_wait: float
    retry_after_max: float
    max_age: float
    counts_from: float = 0.0
    disable_after: float
    timeout: float

    def age(self, queued_at: float, now: float) -> float:
        """Return the age of a delivery for ``max_age``, in seconds: a pause of its registration is no age.

        Args:
            queued_at: when it entered the outbox.
            now: the time, on the same clock.
        """
        return now - max(queued_at, self.counts_from)


def policy_of(registration: Registration, settings: DeliverySettings) -> Policy:
    """Return the rules of a registration; the gateway's settings fill in what it leaves open."""
    retry = registration.retry
    return Policy(
        schedule=tuple(settings.schedule) if retry.schedule is None else retry.schedule,
        jitter=settings.jitter,
        first_wait=settings.unreachable_first_wait,
        max_wait=settings.unreachable_max_wait,
        retry_after_max=settings.retry_after_max,
        max_age=settings.max_age if retry.max_age is None else retry.max_age,
        counts_from=registration.resumed_at,
        disable_after=settings.disable_after if retry.disable_after is None else retry.disable_after,
        timeout=settings.timeout if registration.timeout is None else registration.timeout,
    )


class Decision(msgspec.Struct, frozen=True):
    """The fate of a delivery after an attempt.

    Attributes:
        state: ``pending`` for another attempt.
        wait: for ``pending``, the seconds until the next attempt.
        failures: the delivery's new count of *failed* attempts.
        reason: for ``dead``, a sentence that says why no further attempt follows; else ``None``.
        disables: whether the registration must be disabled.
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
    """Return what follows from one attempt.

    Args:
        outcome: of the attempt.
        policy: the registration's rules.
        failures: how many attempts of this delivery ended as *failed* before.
        streak: how many attempts of this lane ended as *unreachable* in a row before.
        age: of the delivery; see :meth:`Policy.age`.
        retry_after: the wait that the receiver asked for, in seconds, or ``None``.
        chance: a random number from 0 to 1, for the jitter.
    """
    if outcome is Outcome.DELIVERED:
        return Decision(DeliveryState.DELIVERED, failures=failures)
    if outcome in _FINAL:
        is_gone = outcome is Outcome.GONE
        return Decision(DeliveryState.DEAD, failures=failures, reason=_FINAL[outcome], disables=is_gone)
    if outcome is Outcome.FAILED:
        failures += 1
        if failures > len(policy.schedule):
            reason = f"The retry schedule is exhausted (failed attempts: {failures})."
            return Decision(DeliveryState.DEAD, failures=failures, reason=reason)
        wait = policy.schedule[failures - 1]
    else:
        if age > policy.max_age:
            return Decision(DeliveryState.DEAD, failures=failures, reason=expiry_reason(policy))
        # The exponent is capped: 2.0 ** 1024 overflows, and a receiver that is down for four days gets there.
        wait = min(policy.first_wait * 2.0 ** min(streak, 64), policy.max_wait)
    # Jitter only ever adds, so that no wait is shorter than the schedule, or than the receiver asked for.
    asked = min(retry_after or 0.0, policy.retry_after_max)
    wait = max(wait * (1.0 + policy.jitter * chance), asked)
    return Decision(DeliveryState.PENDING, wait=wait, failures=failures)


def longest_wait(policy: Policy) -> float:
    """Return the longest wait that :func:`decide` gives under this policy, in seconds."""
    usual = max((policy.max_wait, *policy.schedule))
    return max(usual * (1.0 + policy.jitter), policy.retry_after_max)


def is_expired(policy: Policy, *, age: float, streak: int) -> bool:
    """Return whether a delivery becomes a dead letter without another attempt."""
    # Only with a streak: after a downtime of hookgw itself, however long, the receiver is tried once before
    # anything in the lane expires. Once that has failed, what is too old expires untried: a dead receiver
    # must not get an attempt for each delivery of a long backlog.
    return age > policy.max_age and streak > 0


def expiry_reason(policy: Policy) -> str:
    """Return why an expired delivery is dead, as a sentence."""
    return f"The receiver was unreachable until the event was older than max_age ({policy.max_age:g} s)."
