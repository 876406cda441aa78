"""After an erasure, nothing of the person is delivered or listed, and nothing comes back."""

from collections.abc import Iterator
from itertools import dropwhile

from tests.simulation.history import Arrived, Erased, Listed, Removed, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """What was accepted before a call that is done is neither sent, nor listed, nor in the data file."""
    erasures = [one for one in index.history.of(Erased) if one.answered]
    stored = {row.event for row in index.final.rows} if index.final else set()
    for erased in erasures:
        events = _concerned(index, erased)
        if erased.done:
            yield from _seen_again(index, erased, events)
        # An erasure that takes long is done by the end, unless its instance is gone.
        if erased.done or not _was_removed_after(index, erased):
            for event in sorted(events & stored):
                yield _violation(f"{event} is in the data file", erased, event)


def _seen_again(index: Index, erased: Erased, events: set[str]) -> Iterator[Violation]:
    for arrived in index.history.of(Arrived):
        if arrived.at > erased.at and arrived.event in events:
            yield _violation(f"{arrived.event} went to {arrived.registration}", erased, arrived.event)
    # By the place in the history, too: much happens in one moment of the simulated time.
    later = dropwhile(lambda record: record is not erased, index.history.records)
    for listed in later:
        if isinstance(listed, Listed) and listed.began >= erased.at and listed.instance == erased.instance:
            for event in sorted(events.intersection(listed.events)):
                yield _violation(f"{event} was listed", erased, event)


def _concerned(index: Index, erased: Erased) -> set[str]:
    """Return the events that an erasure must have found."""
    # Those of a former instance of the same name are not the present one's.
    removed = [one.at for one in index.history.of(Removed) if one.instance == erased.instance]
    since = max((at for at in removed if at <= erased.at), default=-1.0)
    return {
        event
        for event, accepted in index.accepted.items()
        if accepted.instance == erased.instance
        and since < accepted.began
        and accepted.at < erased.began
        and erased.person in accepted.chats[accepted.events.index(event)].split()
    }


def _was_removed_after(index: Index, erased: Erased) -> bool:
    removed = index.history.of(Removed)
    return any(one.instance == erased.instance and one.at >= erased.began for one in removed)


def _violation(trouble: str, erased: Erased, event: str) -> Violation:
    message = f"{trouble}, though {erased.person} was erased at {erased.at:.6f}"
    return Violation("erasing", message, frozenset({event}))
