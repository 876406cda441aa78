"""Only what was in flight when the process ended is repeated, with the same id and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.history import Violation
from tests.simulation.invariants.index import Exchange, Index

FINAL = ("delivered", "rejected", "gone")


def check(index: Index) -> Iterator[Violation]:
    """Nothing comes again after an answer that ends its delivery, and every retry has the same bytes."""
    for (event, registration), exchanges in index.exchanges.items():
        instance = index.instance_of(registration)
        names = frozenset({event, registration})
        fixed: Exchange | None = None
        for before, after in pairwise(exchanges):
            answered, at = before.answered, after.arrived.at
            if answered is not None and answered.outcome in FINAL and answered.at <= at:
                is_target_changed = answered.outcome != "delivered" and _has_changed(
                    index, registration, before, at
                )
                if not (
                    index.was_lost(answered.at, at)
                    or index.was_requeued(event, instance, at)
                    or is_target_changed
                ):
                    yield Violation(
                        "repeats",
                        f"{event} came to {registration} again after it was {answered.outcome}",
                        names,
                    )
            # The first attempt that fails fixes the bytes, once that is on disk.
            if (
                fixed is None
                and answered is not None
                and answered.outcome in ("failed", "unreachable")
                and not index.was_lost(answered.at, at)
            ):
                fixed = before
            if fixed is not None and after.arrived.body != fixed.arrived.body:
                yield Violation("repeats", f"{event} came to {registration} with other bytes", names)
            elif (
                not index.rules.alters
                and not _has_changed(index, registration, before, at)
                and after.arrived.body != before.arrived.body
            ):
                yield Violation("repeats", f"{event} was repeated to {registration} with other bytes", names)
        for exchange in exchanges:
            if not exchange.arrived.signed:
                yield Violation("repeats", f"{event} came to {registration} without a valid signature", names)


def _has_changed(index: Index, registration: str, before: Exchange, until: float) -> bool:
    """Return whether the registration was changed at or after an attempt."""
    changes = index.changes[registration]
    return any(before.arrived.at - 15 <= change.at and change.began <= until for change in changes)
