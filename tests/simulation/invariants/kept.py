"""Nothing that was answered with 202 is lost."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.history import Accepted, Dead, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """Each accepted event has a delivery for each registration that wanted it."""
    final = index.final
    if final is None:
        return
    rows = {(row.event, row.registration) for row in final.rows}
    dead = {(record.event, record.registration) for record in index.history.of(Dead)}
    for accepted in index.history.of(Accepted):
        for registration in accepted.wanted:
            for event in accepted.events:
                key = event, registration
                # Without a history, a finished delivery leaves no row. A plugin may have dropped it unseen.
                if key in rows or (
                    not final.complete and (key in dead or key in index.exchanges or index.rules.alters)
                ):
                    continue
                yield Violation(
                    "kept", f"{event} was accepted for {registration}, and is nowhere", frozenset(key)
                )
