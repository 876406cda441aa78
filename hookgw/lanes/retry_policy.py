"""Decides what follows an attempt. Pure: outcome and history in, decision out; no clock, no I/O.

Two kinds of failure wait in two ways. A *failed* or *unanswered* delivery has a retry schedule and becomes a
dead letter after its last entry. An *unreachable* receiver is down or busy, and the event is not at fault:
the lane waits, twice as long each time, and tries its head again until the event is older than ``max_age``.
The same goes while the settings refuse the address (*blocked*). In all cases the head stays the head, so the
order holds.

Two rules correct a wrong guess of who is at fault:

- If the delivery before died *unanswered*, and nothing has answered since, the receiver *hangs*: an
  unanswered head waits until ``max_age``, too. So one bad event costs one dead letter, and a receiver that
  hangs costs no more than one.
- If a request breaks or stalls in mid-body again and again, the event may be too large for a proxy on the
  way: from the third time on it follows the schedule.
"""

from __future__ import annotations

import msgspec

from hookgw.config.settings import DeliverySettings
from hookgw.records.deliveries import DeliveryState, Outcome
from hookgw.records.registrations import Registration

# Outcomes after which hookgw makes no other attempt, and why.
_FINAL = {
    Outcome.REJECTED: "The receiver rejected this payload. Once it takes such payloads, send this one again.",
    Outcome.GONE: "The receiver answered 410 Gone: the registration is disabled.",
}

_EXPIRED = {
    Outcome.BLOCKED: "The target address was refused",
    Outcome.UNANSWERED: "The receiver did not respond",
}

SECOND = 1.0
"""The first wait, in seconds, for a receiver that limits its callers (429), and for an address that is
refused: neither is over in 50 ms."""

BROKEN_SENDS = 3
"""If so many attempts broke or stalled in mid-body, the event is at fault."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The retry rules of one registration. All times are in seconds.

    Attributes:
        counts_from: the end of the registration's last pause, in seconds since the epoch: an older delivery
            counts as queued then.
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
        """Return the age of a delivery for ``max_age``, in seconds: a pause of its registration does not
        count.

        ``queued_at`` and ``now`` are by the same clock.
        """
        return now - max(queued_at, self.counts_from)


def policy_of(registration: Registration, settings: DeliverySettings) -> Policy:
    """Return the rules of a registration, with the gateway's settings as defaults."""
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
        wait: for ``pending``, the seconds until the next attempt.
        failures: the delivery's new number of *failed* attempts.
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
    status: int | None = None,
    timed_out: bool = False,
    hangs: bool = False,
    broken_sends: int = 0,
) -> Decision:
    """Return what follows from one attempt.

    Args:
        failures: how many attempts of this delivery followed the schedule before.
        streak: how many attempts of this lane in a row waited for the receiver before, and not on a schedule.
        age: of the delivery; see :meth:`Policy.age`.
        retry_after: the wait that the receiver asked for, in seconds, or ``None``.
        chance: a random number from 0 to 1, for the jitter.
        status: of the response; ``None`` without one.
        timed_out: whether the deadline of the attempt passed after the whole request was sent.
        hangs: whether the lane's previous delivery died *unanswered*, without any answer since.
        broken_sends: how many requests of this delivery broke or stalled in mid-body, this one among them; 0
            if this one did not.
    """
    if outcome is Outcome.DELIVERED:
        return Decision(DeliveryState.DELIVERED, failures=failures)
    if outcome in _FINAL:
        is_gone = outcome is Outcome.GONE
        return Decision(DeliveryState.DEAD, failures=failures, reason=_FINAL[outcome], disables=is_gone)
    # Without a schedule, each delivery has one attempt that was sent, whoever is at fault.
    waits_for_receiver = outcome is Outcome.UNANSWERED and hangs and bool(policy.schedule)
    if outcome is Outcome.UNREACHABLE or outcome is Outcome.BLOCKED:
        waits_for_receiver = broken_sends < BROKEN_SENDS
    if not waits_for_receiver:
        failures += 1
        if failures > len(policy.schedule):
            reason = f"The retry schedule is exhausted (failed attempts: {failures})."
            return Decision(DeliveryState.DEAD, failures=failures, reason=reason)
        wait = policy.schedule[failures - 1]
    else:
        if age > policy.max_age:
            return Decision(DeliveryState.DEAD, failures=failures, reason=expiry_reason(policy, outcome))
        if outcome is Outcome.UNANSWERED:
            wait = policy.schedule[-1]
        else:
            is_slow = outcome is Outcome.BLOCKED or status == 429
            first = max(policy.first_wait, SECOND) if is_slow else policy.first_wait
            # The exponent is capped: 2.0 ** 1024 overflows, and a receiver that is down for four days gets
            # there.
            wait = min(first * 2.0 ** min(streak, 64), max(first, policy.max_wait))
    if timed_out:
        # The receiver is slow, and its response may still come: see hookgw.lanes.late_response.
        wait = max(wait, policy.timeout)
    # Jitter only ever adds, so that no wait is shorter than the schedule, or than the receiver asked for.
    asked = min(retry_after or 0.0, policy.retry_after_max)
    wait = max(wait * (1.0 + policy.jitter * chance), asked)
    return Decision(DeliveryState.PENDING, wait=wait, failures=failures)


def longest_wait(policy: Policy) -> float:
    """Return the longest wait that :func:`decide` gives under this policy, in seconds."""
    usual = max((policy.max_wait, policy.first_wait, SECOND, policy.timeout, *policy.schedule))
    return max(usual * (1.0 + policy.jitter), policy.retry_after_max)


def is_expired(policy: Policy, *, age: float, streak: int) -> bool:
    """Return whether a delivery becomes a dead letter without another attempt."""
    # Only with a streak: after a downtime of hookgw itself, however long, the receiver is tried once before
    # anything in the lane expires. Once that has failed, older deliveries expire untried: a dead receiver
    # must not get an attempt for each delivery of a long backlog.
    return age > policy.max_age and streak > 0


def expiry_reason(policy: Policy, outcome: Outcome | None) -> str:
    """Return why an expired delivery is dead, as a sentence. ``outcome`` is of the lane's last attempt."""
    what = (
        _EXPIRED.get(outcome, "The receiver was unreachable") if outcome else "The receiver was unreachable"
    )
    return f"{what} until the event was older than max_age ({policy.max_age:g} s)."
