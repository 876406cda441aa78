"""A receiver that fetches: one consumer has the deliveries at a time, and an acknowledgement is on disk."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.history import (
    Cancelled,
    Changed,
    Ended,
    Erased,
    Fetched,
    LeaseLeft,
    Removed,
    Requeued,
    Violation,
)
from tests.simulation.invariants.index import Index

ROUNDING = 0.001
TAKES = 10.0
"""Seconds that a change of what is pending takes at most. It is noted as it begins."""


def check(index: Index) -> Iterator[Violation]:
    """Leases of different consumers do not overlap, and nothing comes again that was acknowledged."""
    fetched: dict[str, list[Fetched]] = defaultdict(list)
    for record in index.history.of(Fetched):
        fetched[record.registration].append(record)
    for registration, leases in fetched.items():
        yield from _overlaps(index, registration, leases)
        for (event, name), exchanges in index.exchanges.items():
            if name != registration:
                continue
            for before, after in pairwise(exchanges):
                answered, at = before.answered, after.arrived.at
                if answered is None or answered.outcome != "delivered":
                    continue
                # Also after a kill: the answer came when it was on disk.
                if not index.was_requeued(event, index.instance_of(name, event), at):
                    yield Violation(
                        "pulled",
                        f"{event} was acknowledged at {answered.at:.6f}, and {name} got it again",
                        frozenset({event, name}),
                    )


def _overlaps(index: Index, registration: str, leases: list[Fetched]) -> Iterator[Violation]:
    left = {record.lease: record.at for record in reversed(list(index.history.of(LeaseLeft)))}
    # What changes deliveries that are pending takes them from a lease.
    changes = [
        record.at
        for kind in (Cancelled, Changed, Erased, Removed, Requeued, Ended)
        for record in index.history.of(kind)
    ]
    # So does a full backlog that drops its oldest deliveries: their consumer may hear of it, or say nothing.
    dropped_at = {
        exchange.arrived.at
        for (_, name), exchanges in index.exchanges.items()
        for exchange in exchanges
        if index.rules.drops
        and name == registration
        and (exchange.answered is None or exchange.answered.outcome == "unknown")
    }
    # A consumer that fetches again within its lease has a further record of it.
    dropped = {record.lease for record in leases if record.at in dropped_at}
    for before, after in pairwise(leases):
        if before.consumer == after.consumer or before.life != after.life or before.lease in dropped:
            continue
        is_over = after.at >= before.until - ROUNDING or left.get(before.lease, after.at + 1) <= after.at
        if not is_over and not any(before.at - TAKES <= at <= after.at for at in changes):
            yield Violation(
                "pulled",
                f"{after.consumer} got a lease of {registration} while {before.consumer} had one",
                frozenset({registration}),
            )
