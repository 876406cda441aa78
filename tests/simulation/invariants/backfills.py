"""A backfill that was answered gives its registration every event that it owes it."""

from collections.abc import Iterator

from tests.simulation.history import Answered, Backfilled, Dead, Raised, Removed, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """Each of them has a delivery at the end; that it has one only, ``accounting`` says."""
    final = index.final
    if final is None or not final.complete:
        return
    rows = {(row.event, row.registration) for row in final.rows}
    # The end of a registration, or a change of what it wants, ends its backfill or changes it.
    ended = {one.registration for one in index.history.of(Answered) if one.outcome == "gone"}
    ended |= {one.registration for one in index.history.of(Dead) if "disabled" in one.reason}
    ended |= {one.about for one in index.history.of(Raised) if one.kind == "REGISTRATION_DISABLED"}
    removed = {one.instance for one in index.history.of(Removed)}
    for call in index.history.of(Backfilled):
        registration = call.registration
        if (
            registration in ended
            or registration.split("-")[0] in removed
            or any(
                change.at >= call.began and (not change.enabled or change.call in ("set", "delete", "maybe"))
                for change in index.changes[registration]
            )
        ):
            continue
        for event in call.events:
            if (event, registration) not in rows and not index.may_be_erased(event):
                yield Violation(
                    "backfills",
                    f"{registration} had missed {event} at {call.began:.6f}, and never got it",
                    frozenset({event, registration}),
                )
