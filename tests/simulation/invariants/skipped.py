"""A delivery that was skipped is not tried again, unless somebody sends it again."""

from collections.abc import Iterator

from tests.simulation.history import Arrived, Skipped, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """Nothing arrives of a delivery after the answer, except the attempt that the call cut off."""
    skips: dict[tuple[str, str], list[Skipped]] = {}
    for skipped in index.history.of(Skipped):
        skips.setdefault((skipped.registration, skipped.event), []).append(skipped)
    for arrived in index.history.of(Arrived):
        for skipped in skips.get((arrived.registration, arrived.event), ()):
            # A replay or a resend that is under way may reach the delivery after the skip (seed 15093).
            since = 0.0 if skipped.is_replayed else skipped.began
            if (
                arrived.at > skipped.at
                and arrived.attempt > skipped.attempts
                and not index.was_requeued(arrived.event, skipped.instance, arrived.at, since=since)
                and not index.was_accepted_anew(arrived.event, skipped.instance, skipped.began, arrived.at)
            ):
                yield Violation(
                    "skipped",
                    f"{arrived.event} was skipped, and went to {arrived.registration}",
                    frozenset((arrived.event, arrived.registration)),
                )
