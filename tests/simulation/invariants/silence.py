"""Nothing goes to a deleted, disabled or paused registration, or to a former URL, after the answer."""

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.history import Arrived, Changed, Violation
from tests.simulation.invariants.index import Index, earliest


def check(index: Index) -> Iterator[Violation]:
    """No attempt begins after the answer of a call that ends attempts, until another call allows them."""
    arrivals: dict[str, list[Arrived]] = defaultdict(list)
    for record in index.history.of(Arrived):
        arrivals[record.registration].append(record)
    for registration, changes in index.changes.items():
        for number, change in enumerate(changes):
            if change.call == "maybe":
                continue
            # From the moment that the next change begins, either may count.
            until = min((later.began for later in changes[number + 1 :]), default=float("inf"))
            # An overlapping call that is answered later may count, too.
            if any(other is not change and other.began <= change.at <= other.at for other in changes):
                continue
            if any(change.at <= other.began <= change.at for other in changes[:number]):
                continue
            for arrived in arrivals[registration]:
                trouble = _trouble(arrived, change)
                if trouble and change.at < arrived.at < until and _begins_after(arrived, change):
                    yield Violation(
                        "silence",
                        f"{arrived.event} went to {registration}, which {trouble} at {change.at:.6f}",
                        frozenset({registration, arrived.event}),
                    )


def _begins_after(arrived: Arrived, change: Changed) -> bool:
    """Return whether an attempt certainly began after a change."""
    return arrived.life > change.life or earliest(arrived) > change.at


def _trouble(arrived: Arrived, change: Changed) -> str:
    if change.call == "delete":
        return "was deleted"
    if not change.enabled:
        return "was disabled"
    if change.paused:
        return "was paused"
    return "has had another URL" if arrived.version != change.version else ""
