"""At a webhook of the configuration, a refused event of one instance holds up that instance only."""

import bisect
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from tests.simulation.history import Accepted, Cancelled, Dead, Ended, Faulted, Removed, Started, Violation
from tests.simulation.invariants.index import GLOBAL, Exchange, Index

SOON = 40.0
"""Seconds within which an event is sent while everything but the refused event works. Receivers take their
time for what is before it in its lane, and other lanes may have the host's connections."""
WAITS = 330.0
"""Seconds for which a lane may wait yet after a name no longer leads to a refused address."""
LONGEST_WAIT = 3600.0
"""Seconds for which a lane waits at most for an attempt that is due later, by a clock that was set back."""
TAKES = ("healthy", "busy", "failing", "picky", "gone")
"""Moods in which a receiver answers every request at once."""


class Wait(NamedTuple):
    """The time from the first refusal of an event until the attempt that follows the last one."""

    instance: str
    since: float
    until: float


def check(index: Index) -> Iterator[Violation]:
    """While a refused event waits for its attempts, those of other instances are sent."""
    if index.rules.alters:
        return
    for registration in [name for name in index.changes if name.startswith(GLOBAL)]:
        waits = list(_waits(index, registration))
        if not waits or _may_be_disabled(index, registration):
            continue
        spans = _quiet_spans(index, index.changes[registration][0].host)
        for accepted in index.history.of(Accepted):
            first = accepted.events[0]
            found = index.exchanges.get((first, registration))
            if registration not in accepted.wanted or not found:
                continue
            held_by = [
                wait.instance
                for wait in waits
                if wait.since < accepted.at < wait.until - SOON
                and wait.instance not in ("", accepted.instance)
                and found[0].arrived.at >= wait.until
            ]
            if (
                held_by
                and not _was_parked(index, accepted, found[0])
                and _is_quiet(spans, accepted.at, accepted.at + SOON)
                and _has_free_lane(index, registration, accepted, found[0])
            ):
                yield Violation(
                    "blocking",
                    f"{registration} got {first} only after an event of {held_by[0]} that it had refused",
                    frozenset({first, registration}),
                )


def _waits(index: Index, registration: str) -> Iterator[Wait]:
    """Yield the waits at a registration whose instances have lanes of their own."""
    if any(change.ordering != "instance" for change in index.changes[registration]):
        return
    for (event, name), exchanges in index.exchanges.items():
        if name != registration:
            continue
        since: float | None = None
        for before, after in pairwise(exchanges):
            if before.answered is None or before.answered.outcome != "failed":
                since = None
                continue
            since = before.answered.at if since is None else since
            is_last = after is exchanges[-1] or after.answered is None or after.answered.outcome != "failed"
            if is_last:
                yield Wait(index.instance_of(registration, event), since, after.arrived.at)


def _may_be_disabled(index: Index, registration: str) -> bool:
    """Return whether a 410, or failures for long, have disabled a registration."""
    is_gone = any(
        one.answered is not None and one.answered.outcome == "gone"
        for (_, name), exchanges in index.exchanges.items()
        if name == registration
        for one in exchanges
    )
    dead = (one for one in index.history.of(Dead) if one.registration == registration)
    return is_gone or any("disabled" in one.reason for one in dead)


def _was_parked(index: Index, accepted: Accepted, first: Exchange) -> bool:
    """Return whether calls may have ended a delivery before its first attempt, and made it pending again."""
    ends: Iterator[Cancelled | Removed] = chain(index.history.of(Cancelled), index.history.of(Removed))
    may_end = index.rules.drops or any(one.instance == accepted.instance for one in ends)
    event, at = first.arrived.event, first.arrived.at
    return may_end and index.was_requeued(event, accepted.instance, at, since=accepted.began)


def _has_free_lane(index: Index, registration: str, accepted: Accepted, first: Exchange) -> bool:
    """Return whether all that was sent of an instance until the first attempt of an event was taken at once.

    Events of which the instance is not known count, too.
    """
    for (event, name), exchanges in index.exchanges.items():
        if name == registration and index.instance_of(name, event) in ("", accepted.instance):
            earlier = [one for one in exchanges if one.arrived.number < first.arrived.number]
            count = sum(one.arrived.at <= accepted.at for one in earlier)
            # How it was when the event was accepted, and what came after that.
            for one in earlier[max(0, count - 1) :]:
                if one.answered is None or one.answered.outcome not in ("delivered", "rejected"):
                    return False
    return True


def _quiet_spans(  # noqa: C901 -- a list of what disturbs
    index: Index, host: str
) -> list[tuple[float, float]]:
    """Return the times in which a process runs, and a host disturbs it with nothing but refusals."""
    mood, name, has_room, is_running, is_day = "healthy", "found", True, True, True
    spans, since, known_from, latest = [], 0.0, 0.0, float("-inf")
    for record in index.history.records:
        was_refused = name == "private"
        if isinstance(record, Started | Ended):
            is_running, is_day = isinstance(record, Started), True
            if isinstance(record, Started):
                latest = max(latest, record.offset)
                known_from = max(known_from, record.at + min(latest - record.offset, LONGEST_WAIT))
        elif isinstance(record, Faulted):
            if record.what == "everything works":
                mood, name, has_room = "healthy", "found", True
            elif record.what.startswith(f"{host} is "):
                mood = record.what.rpartition(" ")[2]
            elif record.what.startswith(f"the name {host} is "):
                name = record.what.rpartition(" ")[2]
            elif record.what.startswith("the disk"):
                has_room = "all" in record.what
            elif record.what.startswith("the clock moves"):
                is_day = record.what.endswith("as usual")
        else:
            continue
        is_quiet = is_running and is_day and has_room and mood in TAKES and name == "found"
        if not is_quiet:
            spans.append((since, record.at))
        if was_refused and name != "private":
            known_from = record.at + WAITS
        since = min(since, max(record.at, known_from)) if is_quiet else float("inf")
    spans.append((since, float("inf")))
    return [(first, last) for first, last in spans if first < last]


def _is_quiet(spans: list[tuple[float, float]], first: float, last: float) -> bool:
    number = bisect.bisect_right(spans, (first, float("inf"))) - 1
    return number >= 0 and spans[number][0] <= first and last <= spans[number][1]
