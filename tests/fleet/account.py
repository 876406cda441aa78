"""What came of one lane while nodes and the database failed. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.crash.account import SETTLE_WINDOW, Arrival

AFTERMATH = 8.0
"""Seconds after a fault in which it explains what comes again: others take over, and a frozen node wakes."""


@dataclass(frozen=True)
class Fault:
    """Something that was done, to which node, and from when to when.

    Attributes:
        has_takeover: whether other nodes go on with the node's lanes meanwhile.
        waiting: how many accepted events were not delivered when it began.
    """

    kind: str
    node: str
    began: float
    ended: float
    has_takeover: bool = True
    waiting: int = 0


@dataclass(frozen=True)
class Lane:
    """The figures of one lane.

    Attributes:
        arrivals: how many requests came.
        lost: accepted events that never arrived.
        inversions: first arrivals in another order: the number that was due, and the one that came.
        unexplained: arrivals of events that had been delivered, without a fault as the reason.
        repeats: the faults that explain deliveries of events that had been delivered, each one of them;
            ``None`` if a fault would have to explain two.
        takeovers: for each fault, the seconds from its beginning, or from the 202 of the event, to the next
            arrival, if they are many and there was no other fault.
    """

    arrivals: int
    lost: list[int]
    inversions: list[tuple[int, int]]
    unexplained: list[Arrival]
    repeats: list[Fault] | None
    takeovers: dict[Fault, float] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """Say which promises are broken."""
        found = []
        if self.lost:
            found.append(f"{len(self.lost)} accepted events never arrived: {self.lost[:10]}")
        if self.inversions:
            found.append(f"first arrivals out of order: wanted and got {self.inversions[:5]}")
        found += [f"event {one.number} came again for no reason, at {one.at:.3f}" for one in self.unexplained]
        if self.repeats is None:
            found.append("more than one repeat by one fault")
        return found


def judge(
    arrivals: Sequence[Arrival],
    faults: Sequence[Fault],
    events: int,
    *,
    accepted: Sequence[float] = (),
    gap: float = 1.0,
) -> Lane:
    """Account for one lane.

    Args:
        arrivals: in the order in which they came.
        faults: in the order in which they began.
        events: how many were accepted, numbered from 0.
        accepted: when each of them got its 202. A lane that has nothing to send until then is not late.
        gap: seconds that count as a takeover.
    """
    firsts = list(dict.fromkeys(arrival.number for arrival in arrivals))
    lost = sorted(set(range(events)) - set(firsts))
    arrived = sorted(firsts)
    inversions = [(want, got) for want, got in zip(arrived, firsts, strict=True) if want != got]
    delivered: dict[int, float] = {}
    explained: list[list[Fault]] = []
    unexplained = []
    for arrival in arrivals:
        if (before := delivered.get(arrival.number)) is not None:
            reasons = [
                fault
                for fault in faults
                # Not settled when it began, or delivered by others while the node was frozen.
                if fault.began - SETTLE_WINDOW <= before <= fault.ended
                and fault.began <= arrival.at <= fault.ended + AFTERMATH
            ]
            if reasons:
                explained.append(reasons)
            else:
                unexplained.append(arrival)
        if arrival.delivered:
            delivered[arrival.number] = arrival.at
        else:  # what follows is a retry of this one
            delivered.pop(arrival.number, None)
    takeovers: dict[Fault, float] = {}
    for fault in faults:
        after = next((a for a in arrivals if a.at > fault.began), None)
        if not fault.has_takeover or after is None:
            continue
        waited = after.at - max(fault.began, accepted[after.number] if accepted else 0.0)
        # A gap in which something else begins is that one's, too.
        if waited > gap and not any(fault.began < other.began < after.at for other in faults):
            takeovers[fault] = waited
    return Lane(len(arrivals), lost, inversions, unexplained, explain(explained), takeovers)


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
