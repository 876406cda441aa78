"""What came of one lane while nodes were killed and frozen. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.crash.account import SETTLE_WINDOW, Arrival

AFTERMATH = 8.0
"""Seconds after a fault in which it explains what comes again: others take over, and a frozen node wakes."""


@dataclass(frozen=True)
class Fault:
    """Something that was done to a node: what, to which, and from when to when."""

    kind: str
    node: str
    began: float
    ended: float


@dataclass(frozen=True)
class Lane:
    """The figures of one lane.

    Attributes:
        repeats: the faults that explain deliveries of events that had been delivered, each one of them.
        takeovers: for each fault, seconds from its beginning to the next arrival, if there was a long gap.
    """

    arrivals: int
    repeats: list[Fault]
    takeovers: dict[Fault, float]


def judge(arrivals: Sequence[Arrival], faults: Sequence[Fault], events: int, *, gap: float = 1.0) -> Lane:
    """Check one lane's promises.

    Args:
        arrivals: in the order in which they came.
        faults: in the order in which they began.
        events: how many were accepted, numbered from 0.
        gap: seconds without an arrival that count as a takeover.

    Raises:
        AssertionError: an event is missing, was overtaken, or came again for no reason; or one fault repeated
            two of the lane.
    """
    firsts = list(dict.fromkeys(arrival.number for arrival in arrivals))
    missing = sorted(set(range(events)) - set(firsts))
    assert not missing, f"{len(missing)} accepted events never arrived: {missing[:10]}"
    overtaken = [(want, got) for want, got in enumerate(firsts) if want != got]
    assert not overtaken, f"first arrivals out of order: wanted and got {overtaken[:5]}"
    delivered: dict[int, float] = {}
    explained: list[list[Fault]] = []
    for arrival in arrivals:
        if (before := delivered.get(arrival.number)) is not None:
            reasons = [
                fault
                for fault in faults
                # Not settled when it began, or delivered by others while the node was frozen.
                if fault.began - SETTLE_WINDOW <= before <= fault.ended
                and fault.began <= arrival.at <= fault.ended + AFTERMATH
            ]
            assert reasons, f"event {arrival.number} came again for no reason, at {arrival.at:.3f}"
            explained.append(reasons)
        if arrival.delivered:
            delivered[arrival.number] = arrival.at
        else:  # what follows is a retry of this one
            delivered.pop(arrival.number, None)
    repeats = explain(explained)
    assert repeats is not None, f"{len(explained)} repeats, more than one by one fault"
    takeovers: dict[Fault, float] = {}
    for fault in faults:
        after = next((a.at for a in arrivals if a.at > fault.began), None)
        if after is not None and after - fault.began > gap:
            takeovers[fault] = after - fault.began
    return Lane(len(arrivals), repeats, takeovers)


def explain(explained: Sequence[Sequence[Fault]]) -> list[Fault] | None:
    """Choose a fault for each repeat from those that explain it; ``None`` if one would be chosen twice."""
    chosen: dict[Fault, int] = {}

    def choose(repeat: int, tried: set[Fault]) -> bool:
        for fault in explained[repeat]:
            if fault not in tried:
                tried.add(fault)
                # The one that has this fault may do with another.
                if fault not in chosen or choose(chosen[fault], tried):
                    chosen[fault] = repeat
                    return True
        return False

    if not all(choose(repeat, set()) for repeat in range(len(explained))):
        return None
    return list(chosen)
