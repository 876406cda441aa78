"""Limits hold: pending deliveries, memory, connections."""

from collections.abc import Iterable, Iterator

from tests.public.core import LEAST_BACKFILL
from tests.simulation.history import Measured, Violation
from tests.simulation.invariants.index import Index

OPERATIONS = "operations-operations-0"
"""Operational events are stored beyond any limit."""
LARGEST = 4096
"""Bytes of one delivery: the memory that everybody may exceed the limit by, because one always fits."""


def agree(counted: Iterable[tuple[str, int]], pending: Iterable[tuple[str, int]]) -> bool:
    """Return whether hookgw's count is what the data file has.

    An operational event may be raised at any moment, and is counted before it is written.
    """
    ours = {name: count for name, count in counted if count}
    stored = {name: count for name, count in pending if count}
    return ours.pop(OPERATIONS, 0) >= stored.pop(OPERATIONS, 0) and ours == stored


def check(index: Index) -> Iterator[Violation]:
    """No figure was ever above its limit, and at the end nothing is held."""
    for found in index.history.of(Measured):
        # A backfill goes beyond a full backlog, but only while nothing else of its registration can be sent.
        more = {
            name: LEAST_BACKFILL[0]
            for name, calls in index.backfills.items()
            if any(call.began <= found.at for call, _ in calls)
        }
        for registration, count in found.pending:
            if found.limit and count > found.limit + more.get(registration, 0) and registration != OPERATIONS:
                yield Violation(
                    "limits",
                    f"{registration} has {count} pending deliveries, not {found.limit}",
                    frozenset({registration}),
                )
        if found.counted is not None and not agree(found.counted, found.pending):
            yield Violation(
                "limits", f"{dict(found.counted)} count as pending, and {dict(found.pending)} are"
            )
        if found.total_limit and found.total > found.total_limit + sum(more.values()):
            yield Violation("limits", f"{found.total} deliveries are pending, not {found.total_limit}")
        if found.memory_limit and found.memory > found.memory_limit + LARGEST:
            yield Violation("limits", f"lanes hold {found.memory} bytes, not {found.memory_limit}")
        if found.lent_limit and found.lent > found.lent_limit:
            yield Violation("limits", f"{found.lent} connections lead to a host, not {found.lent_limit}")
    final = index.final
    if final is not None and final.lent:
        yield Violation("limits", f"at the end, {final.lent} connections are lent, though nothing is sent")
    if final is not None and final.memory and not any(row.state == "pending" for row in final.rows):
        yield Violation("limits", f"at the end, lanes hold {final.memory} bytes, though nothing is pending")
