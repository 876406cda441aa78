"""A change of a registration that was answered is there after every start."""

from collections.abc import Iterator

from tests.simulation.history import Known, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """What the gateway knows after a start is what it answered last, unless hookgw disabled it since."""
    for known in index.history.of(Known):
        registrations = dict(known.registrations)
        for registration, changes in index.changes.items():
            before = [change for change in changes if change.life < known.life]
            if not before or any(change.call == "maybe" for change in before[-2:]):
                continue
            last = before[-1]
            if any(other is not last and last.began <= other.at for other in before):
                continue  # they overlapped: either may be the last
            names = frozenset({registration})
            if last.call == "delete":
                if registration in registrations:
                    yield Violation("records", f"{registration} was deleted, and is there again", names)
            elif registration not in registrations:
                yield Violation("records", f"{registration} is gone after a start", names)
            elif registrations[registration] != last.version:
                yield Violation(
                    "records",
                    f"{registration} has URL {registrations[registration]}, not {last.version}",
                    names,
                )
