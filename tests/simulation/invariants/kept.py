"""Nothing that was answered with 202 is lost."""

from collections.abc import Iterator

from tests.simulation.history import Accepted, Answered, Cancelled, Dead, Raised, Violation
from tests.simulation.invariants.index import Index

AGE = 3600.0
"""Seconds that a delivery waits at least before it is too old."""


def check(index: Index) -> Iterator[Violation]:
    """Each accepted event has a delivery for each registration that wanted it."""
    final = index.final
    if final is None:
        return
    rows = {(row.event, row.registration) for row in final.rows}
    dead = {(record.event, record.registration) for record in index.history.of(Dead)}
    cancelled = {record.instance for record in index.history.of(Cancelled)}
    # A 410 disables a registration, and parks what is pending.
    gone = {one.registration for one in index.history.of(Answered) if one.outcome == "gone"}
    # So do failures for too long; parking is silent.
    gone |= {record.registration for record in index.history.of(Dead) if "disabled" in record.reason}
    gone |= {one.about for one in index.history.of(Raised) if one.kind == "REGISTRATION_DISABLED"}
    for accepted in index.history.of(Accepted):
        for registration in accepted.wanted:
            for event in accepted.events:
                key = event, registration
                if key in rows or index.may_be_erased(event):
                    continue
                # Without a history, a finished delivery leaves no row, and its end may have been silent.
                if not final.complete and (
                    key in dead
                    or key in index.exchanges
                    or index.rules.alters
                    or index.rules.drops
                    or registration in gone
                    or accepted.instance in cancelled
                    # It became too old, and nobody heard of that before the kill.
                    or index.was_killed(accepted.at + AGE, final.at)
                    or any(
                        not change.enabled or change.call == "maybe" for change in index.changes[registration]
                    )
                ):
                    continue
                yield Violation(
                    "kept", f"{event} was accepted for {registration}, and is nowhere", frozenset(key)
                )
