"""``Retry-After`` and the schedules are never undercut."""

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.history import Dead, Violation
from tests.simulation.invariants.index import Exchange, Index

ROUNDING = 0.001
"""Seconds: times on disk are in microseconds, and ``Retry-After`` dates in whole seconds."""
LIMITED = 1.0
"""Seconds for which a receiver that answers 429 is left alone at least."""
FREE = ("set", "resume", "pause", "maybe", "rotate")
"""Calls after which a waiting delivery may be tried at once."""
OTHER_TARGET = ("set", "maybe", "rotate")
"""Calls after which failures count anew, as they may have changed the target."""


def check(index: Index) -> Iterator[Violation]:
    """Between the end of an attempt and the next one lies the wait that follows from its outcome."""
    for (event, registration), exchanges in index.exchanges.items():
        failed: list[Exchange] = []
        for before, after in pairwise(exchanges):
            answered = before.answered
            if answered is None:
                continue
            least = 0.0
            if answered.outcome in ("failed", "unanswered"):
                # A failure that a kill made hookgw forget does not count.
                known = [
                    one
                    for one in failed
                    if not (one.answered and index.was_forgotten(one.answered, after.arrived.at))
                    and not _has_other_target(index, registration, one.earliest, answered.at)
                ]
                least = _shortest(index, registration, len(known))
                # Of a receiver that hangs, what it leaves unanswered does not count, and an attempt that goes
                # on with another connection has not ended.
                goes_on = before.may_go_on and before.arrived.attempt == after.arrived.attempt
                counts = answered.outcome == "failed" or not _may_hang(index, registration, answered.at)
                if counts and not goes_on:
                    failed.append(before)
            elif answered.outcome == "unreachable":
                least = index.rules.first_wait
                if answered.status == 429:
                    least = max(least, LIMITED)
            if answered.outcome in ("failed", "unanswered", "unreachable"):
                least = max(least, min(answered.wait, index.rules.retry_after_max))
            waited = after.arrived.at - answered.at
            if (
                least
                and waited < least - ROUNDING
                and not _is_excused(index, event, registration, before, after)
            ):
                yield Violation(
                    "waits",
                    f"{registration} got {event} again after {waited:.3f} s, not {least:.3f} s",
                    frozenset({event, registration}),
                )


def _shortest(index: Index, registration: str, failures: int) -> float:
    """Return the shortest wait that may follow so many failures.

    Failures of plugins, which are no requests, may have come in between.
    """
    waits = [wait for change in index.changes[registration] for wait in change.schedule[failures:]]
    return min(waits, default=0.0)


def _may_hang(index: Index, registration: str, until: float) -> bool:
    """Return whether a delivery may have died unanswered before, so that the receiver counts as hanging."""
    return any(
        one.registration == registration and one.at <= until and "exhausted" in one.reason
        for one in index.history.of(Dead)
    )


def _has_other_target(index: Index, registration: str, since: float, until: float) -> bool:
    return any(
        change.call in OTHER_TARGET and since <= change.at and change.began <= until
        for change in index.changes[registration]
    )


def _is_excused(index: Index, event: str, registration: str, before: Exchange, after: Exchange) -> bool:
    answered, at = before.answered, after.arrived.at
    assert answered is not None
    is_same = before.arrived.attempt == after.arrived.attempt
    if before.may_go_on and after.arrived.dialled is not None and is_same:
        return True
    # An attempt that waited for its connection may end by its timeout soon after it has sent the request, and
    # a receiver that is about to close the connection does not notice.
    if not is_same and before.arrived.dialled is not None and at < answered.at and not answered.status:
        return True
    if index.was_forgotten(answered, at) or index.was_requeued(
        event, index.instance_of(registration, event), at
    ):
        return True
    # After a start, there is only the machine's clock.
    first, second = answered.life, after.arrived.life
    offsets = {index.offsets.get(life) for life in range(first, second + 1)}
    if first != second and len(offsets) > 1:
        return True
    return any(
        change.call in FREE and before.earliest <= change.at and change.began <= at
        for change in index.changes[registration]
    )
