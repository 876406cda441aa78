"""At a webhook of the configuration, a refused event of one instance holds up that instance only."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.history import Accepted, Ended, Faulted, Violation
from tests.simulation.invariants.index import GLOBAL, Index

SOON = 60.0
"""Seconds within which an event is sent while everything but the refused event works."""
TAKES = ("healthy", "busy", "failing", "picky", "gone")
"""Moods in which a receiver answers every request at once."""


def check(index: Index) -> Iterator[Violation]:
    """While an event waits for its next attempt, those of other instances are sent."""
    if index.rules.alters:
        return
    waits = _waits(index)
    if not waits:
        return
    spans = _quiet_spans(index)
    for accepted in index.history.of(Accepted):
        concerned = [
            (name, *wait)
            for name in accepted.wanted
            for wait in waits.get(name, ())
            if wait[0] != accepted.instance and wait[1] < accepted.at < wait[2] - SOON
        ]
        for name, refused, _, until in concerned:
            first = accepted.events[0]
            found = index.exchanges.get((first, name))
            if (
                found
                and found[0].arrived.at >= until
                and _is_quiet(spans, accepted.at, accepted.at + SOON)
                and _has_free_lane(index, name, accepted)
            ):
                yield Violation(
                    "blocking",
                    f"{name} got {first} only after an event of {refused} that it had refused",
                    frozenset({first, name}),
                )


def _waits(index: Index) -> dict[str, list[tuple[str, float, float]]]:
    """Return the waits after refused events at each registration: of which instance, from when, and until."""
    waits: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for (event, registration), exchanges in index.exchanges.items():
        if registration.startswith(GLOBAL) and _is_by_instance(index, registration):
            instance = index.instance_of(registration, event)
            for before, after in pairwise(exchanges):
                if before.answered is not None and before.answered.outcome == "failed":
                    waits[registration].append((instance, before.answered.at, after.arrived.at))
    return waits


def _is_by_instance(index: Index, registration: str) -> bool:
    return all(change.ordering == "instance" for change in index.changes[registration])


def _has_free_lane(index: Index, registration: str, accepted: Accepted) -> bool:
    """Return whether what was sent of an instance before has been taken."""
    last = [
        [one.answered for one in exchanges if one.arrived.at <= accepted.at][-1:]
        for (event, name), exchanges in index.exchanges.items()
        if name == registration and index.instance_of(name, event) == accepted.instance
    ]
    return all(one is not None and one.outcome in ("delivered", "rejected") for [one] in filter(None, last))


def _quiet_spans(index: Index) -> list[tuple[float, float]]:
    """Return the times in which a process runs, and nothing around it but refusals disturbs it."""
    moods: dict[str, str] = {}
    names: dict[str, str] = {}
    spans, since, has_room = [], 0.0, True
    for record in index.history.records:
        if isinstance(record, Ended):
            is_quiet = False
        elif isinstance(record, Faulted):
            first, _, state = record.what.rpartition(" is ")
            if first.startswith("the name "):
                names[first] = state
            elif record.what.startswith("the disk"):
                has_room = "all" in record.what
            elif first:
                moods[first] = state
            is_quiet = (
                has_room
                and all(mood in TAKES for mood in moods.values())
                and all(name == "found" for name in names.values())
            )
        else:
            continue
        if not is_quiet:
            spans.append((since, record.at))
        since = min(since, record.at) if is_quiet else float("inf")
    spans.append((since, float("inf")))
    return [(first, last) for first, last in spans if first < last]


def _is_quiet(spans: list[tuple[float, float]], first: float, last: float) -> bool:
    number = bisect.bisect_right(spans, (first, float("inf"))) - 1
    return number >= 0 and spans[number][0] <= first and last <= spans[number][1]
