"""The figures of ``/metrics`` agree with what happened since the start, and with the data file."""

from collections.abc import Iterator

from tests.simulation.history import (
    Accepted,
    Answered,
    Arrived,
    Metered,
    Removed,
    Skipped,
    Unanswered,
    Violation,
)
from tests.simulation.invariants.index import LONGEST, Index
from tests.simulation.invariants.limits import agree

DOUBTFUL = ("delivered", "unknown")
"""Outcomes of attempts that hookgw may count as delivered."""


def check(index: Index) -> Iterator[Violation]:
    """Counters lie between what is certain and what is possible, and gauges are exact while nobody emits."""
    for metered in index.history.of(Metered):
        for trouble in (*_accepted(index, metered), *_delivered(index, metered), *_pending(metered)):
            yield Violation("metrics", f"at {metered.at:.6f}, {trouble}")


def _accepted(index: Index, metered: Metered) -> Iterator[str]:
    """What was answered with 202 is accepted, and what was not answered may be."""
    certain: set[str] = set()
    possible: set[str] = set()
    again = 0  # an instance that is deleted and made again has other events of the same ids
    for record in index.history.records:
        if record.life == metered.life and record.at <= metered.at:
            if isinstance(record, Accepted):
                # Of a request that is sent again, the first part may have been taken in this life, too.
                again += len((certain | possible).intersection(record.events))
                certain.update(record.events)
            elif isinstance(record, Unanswered):
                again += len((certain | possible).intersection(record.events))
                possible.update(record.events)
    if not any(one.life == metered.life for one in index.history.of(Removed)):
        again = 0
    if not len(certain) <= metered.accepted <= len(certain | possible) + again:
        yield f"{metered.accepted} events count as accepted, and {len(certain)} were, {len(possible)} may be"


def _delivered(index: Index, metered: Metered) -> Iterator[str]:
    """Each 2xx is a delivery, unless it came at the same time, too late, or while its attempt was cut off."""
    certain = possible = 0
    # A receiver that drips notes its answer later than hookgw has read what it needs of it.
    arrivals = {record.number: record.at for record in index.history.of(Arrived)}
    skips = {(one.registration, one.event): one for one in index.history.of(Skipped)}
    for record in index.history.of(Answered):
        began = arrivals.get(record.number, record.at)
        if record.life == metered.life and began <= metered.at and record.outcome in DOUBTFUL:
            possible += 1
            # One that was answered late is unanswered, and its delivery waits for the end of a pause.
            is_late = record.is_late
            skip = skips.get((record.registration, record.event))
            is_cut_off = skip is not None and skip.began <= record.at <= skip.at
            exchanges = index.exchanges.get((record.event, record.registration), ())
            if again := [one.arrived.at for one in exchanges if one.arrived.number > record.number]:
                instance = index.instance_of(record.registration, record.event)
                is_cut_off = is_cut_off or index.was_cut_off_in_vain(instance, record.at, again[0])
            certain += (
                record.outcome == "delivered"
                and not (is_late or is_cut_off)
                and record.at < metered.at - LONGEST
            )
    # In the other order, an attempt may be counted and its delivery not yet.
    for name, count in (("attempts", metered.taken), ("deliveries", metered.delivered)):
        if not certain <= count <= possible:
            yield f"{count} {name} count as delivered, and {certain} certainly were, {possible} at most"


def _pending(metered: Metered) -> Iterator[str]:
    if not agree(metered.registrations, metered.pending):
        shown, pending = dict(metered.registrations), dict(metered.pending)
        yield f"the metrics show {shown} as pending, and the data file has {pending}"
