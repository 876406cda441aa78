"""Operational events are delivered in the order in which they were raised, one at a time."""

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.history import Arrived, Committed, Dead, Ended, Faulted, Raised, Violation
from tests.simulation.invariants.index import Index

OPERATIONS = "operations-operations-0"
SOON = 3600.0
"""Seconds after which an operational event is on disk, if the disk works: it waits for a few slow commits,
and the clock of a quiet time moves on by minutes at once."""


def check(index: Index) -> Iterator[Violation]:
    """What plugins heard of comes to ``operations.url`` in the same order, and nothing is left out."""
    if not index.rules.reports:
        return
    raised = {record.event: (number, record) for number, record in enumerate(index.history.of(Raised))}
    exchanges = {event: found for (event, name), found in index.exchanges.items() if name == OPERATIONS}
    newest = (-1, "", 0.0)
    died = {one.event: one.at for one in index.history.of(Dead) if one.registration == OPERATIONS}
    for event in sorted(exchanges, key=lambda one: exchanges[one][0].arrived.number):
        # One that was raised just before a kill may be on disk, and no plugin has heard of it. One that was
        # given up, by a plugin or for its age, may be there again after a kill, and after a stop if the disk
        # refused until then.
        at = exchanges[event][0].arrived.at
        if event in raised and not (index.rules.alters and index.was_killed(raised[event][1].at, at)):
            place = raised[event][0], event, at
            may_be_back = index.rules.alters or died.get(event, at) <= newest[2]
            if place < newest and not (may_be_back and index.was_lost(newest[2], at)):
                message = f"{newest[1]} came to operations.url before {event}, which was raised before it"
                yield Violation("operational", message, frozenset({event, newest[1], OPERATIONS}))
            newest = max(place, newest)
    yield from _one_at_a_time(index)
    if index.final is None:
        return
    stored = {row.event for row in index.final.rows if row.registration == OPERATIONS}
    for event, (_, record) in raised.items():
        is_known = event in stored or event in exchanges or not index.final.complete
        if not is_known and not _may_be_lost(index, record):
            message = f"the operational event {event} was raised, and is nowhere"
            yield Violation("operational", message, frozenset({event, OPERATIONS}))


def _one_at_a_time(index: Index) -> Iterator[Violation]:
    arrivals = [one for one in index.history.of(Arrived) if one.registration == OPERATIONS]
    answers = {
        found.arrived.number: found.answered
        for (_, name), all_found in index.exchanges.items()
        if name == OPERATIONS
        for found in all_found
    }
    for before, after in pairwise(arrivals):
        answered = answers[before.number]
        if answered is not None and answered.outcome == "delivered" and after.at < answered.at:
            message = f"{after.event} came to operations.url during the attempt of {before.event}"
            yield Violation("operational", message, frozenset({before.event, after.event, OPERATIONS}))


def _may_be_lost(index: Index, raised: Raised) -> bool:
    """Return whether the process may have ended before an event was on disk."""
    faults = (one for one in index.history.of(Faulted) if one.life == raised.life)
    if any(one.what.startswith("the disk") for one in faults):
        return True
    ends = (end for end in index.history.of(Ended) if end.life == raised.life and end.how == "kill")
    commits = [one for one in index.history.of(Committed) if one.life == raised.life]
    return any(
        end.at < raised.at + SOON
        # Each takes one move of the clock in a quiet time. The first may have the events before it.
        or sum(raised.at < one.began and one.at <= end.at for one in commits) < 2
        for end in ends
    )
