"""A connector's state is committed with its events: neither is ever ahead of the other."""

from collections.abc import Iterator

from tests.simulation.history import Accepted, Resumed, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """A start finds the state that was stored last."""
    stored = 1
    for record in index.history.records:
        if isinstance(record, Accepted):
            numbers = [int(event[1:]) for event in record.events if event.startswith("n")]
            stored = max(stored, *(number + 1 for number in numbers)) if numbers else stored
        elif isinstance(record, Resumed) and record.following < stored:
            yield Violation(
                "state",
                f"the connector begins with n{record.following}, and n{stored - 1} is stored",
                frozenset({f"n{stored - 1}"}),
            )
    final, seen = index.final, {row.event for row in index.final.rows} if index.final else set()
    last = max((record.following for record in index.history.of(Resumed)), default=1)
    if final is None or not final.complete:
        return
    # An event that nobody answered is stored, too, if the state says so. It was wanted if the answered ones
    # before and after it were, and nothing changed.
    answered = {event: one.wanted for one in index.history.of(Accepted) for event in one.events}
    for number in range(1, last):
        event, wanted = f"n{number}", answered.get(f"n{number - 1}")
        following = next((answered[one] for n in range(number, last) if (one := f"n{n}") in answered), None)
        if event in answered or event in seen or not wanted or wanted != following or index.erasures:
            continue
        if not any(index.changes[name][1:] for name in wanted):
            message = f"the state says that {event} is stored, and it is nowhere"
            yield Violation("state", message, frozenset({event}))
