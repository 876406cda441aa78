"""Every accepted event is in the log of its instance, once and in order, whoever wanted it."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation.history import Accepted, Logged, Removed, Unanswered, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """Look for events that are missing in the log, there twice, or before one that was accepted earlier."""
    is_complete = index.final is not None and index.final.complete
    # A client that did not read the answers to requests that it sent one after the other has missed that one
    # was refused, and those behind it were not. It sends all of them again.
    missed = {one.events[0] for one in index.history.of(Unanswered) if len(one.events) == 1}
    for logged in index.history.of(Logged):
        for event, count in Counter(logged.events).items():
            if count > 1:
                yield _violation(logged, f"has {event} {count} times", event)
        # The events of a former instance of the same name are not the present one's.
        removed = [one.at for one in index.history.of(Removed) if one.instance == logged.instance]
        since = max(removed, default=-1.0)
        known = {
            event: accepted
            for event, accepted in index.accepted.items()
            if accepted.instance == logged.instance and accepted.began > since
        }
        for event in known.keys() - set(logged.events):
            if is_complete and not index.may_be_erased(event):
                yield _violation(logged, f"lacks {event}", event)
        # Of the events so far, the one whose call began last. Calls at the same time are stored in any order.
        latest: tuple[float, int, Accepted | None] = (-1.0, -1, None)
        for event in logged.events:
            accepted = known.get(event)
            if accepted is None:
                continue
            place = accepted.events.index(event)
            began, before, call = latest
            if accepted.at < began or (accepted is call and place < before and event not in missed):
                yield _violation(logged, f"has {event} behind a later event", event)
            if accepted is call or accepted.began >= began:
                latest = accepted.began, place, accepted


def _violation(logged: Logged, trouble: str, event: str) -> Violation:
    return Violation("logged", f"the log of {logged.instance} {trouble}", frozenset({event}))
