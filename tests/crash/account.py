"""The account of a crash run: what arrived, in which order, and which repeats a kill explains. No I/O."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SETTLE_WINDOW = 2.0
"""How long before a kill an arrival may lie and still be unsettled at it, in seconds."""


@dataclass(frozen=True)
class Arrival:
    """One request that a receiver got.

    Attributes:
        number: of the event in its lane, 0 and up in the order in which they were accepted.
        at: when it came.
        delivered: whether it was answered with a 2xx.
    """

    number: int
    at: float
    delivered: bool


@dataclass(frozen=True)
class Kill:
    """One ``kill -9``: when it was sent, and when nothing of the dead process was under way any more."""

    began: float
    ended: float


@dataclass(frozen=True)
class Figures:
    """What came of one lane, or of all.

    Attributes:
        events: how many were accepted.
        arrivals: how many requests came.
        retries: arrivals of an event that had not been answered with a 2xx before.
        repeats: arrivals of an event that had been.
        most_repeats: the most that one kill caused in one lane.
        oldest_repeat: how long before its kill the oldest repeated event had arrived, in seconds.
    """

    events: int
    arrivals: int
    retries: int
    repeats: int
    most_repeats: int
    oldest_repeat: float


def judge(arrivals: Sequence[Arrival], kills: Sequence[Kill], events: int) -> Figures:
    """Check one lane's promises.

    Args:
        arrivals: in the order in which they came.
        kills: in order.
        events: how many were accepted, numbered from 0.

    Raises:
        AssertionError: an event is missing, was overtaken, or came again for no reason.
    """
    firsts = list(dict.fromkeys(arrival.number for arrival in arrivals))
    missing = sorted(set(range(events)) - set(firsts))
    assert not missing, f"{len(missing)} accepted events never arrived: {missing[:10]}"
    overtaken = [(want, got) for want, got in enumerate(firsts) if want != got]
    assert not overtaken, f"first arrivals out of order: wanted and got {overtaken[:5]}"
    delivered: dict[int, Arrival] = {}
    repeats: dict[Kill, list[tuple[int, float]]] = defaultdict(list)
    retries, seen = 0, Counter[int]()
    for arrival in arrivals:
        before = delivered.get(arrival.number)
        if before is not None:
            kill = _explain(before, arrival, kills)
            repeats[kill].append((arrival.number, kill.began - before.at))
        elif seen[arrival.number]:
            retries += 1
        seen[arrival.number] += 1
        if arrival.delivered:
            delivered[arrival.number] = arrival
    _check_tails(arrivals, repeats)
    ages = [age for found in repeats.values() for _, age in found]
    return Figures(
        events=events,
        arrivals=len(arrivals),
        retries=retries,
        repeats=len(ages),
        most_repeats=max(map(len, repeats.values()), default=0),
        oldest_repeat=max(ages, default=0.0),
    )


def total(lanes: Iterable[Figures]) -> Figures:
    found = list(lanes)
    return Figures(
        events=sum(one.events for one in found),
        arrivals=sum(one.arrivals for one in found),
        retries=sum(one.retries for one in found),
        repeats=sum(one.repeats for one in found),
        most_repeats=max(one.most_repeats for one in found),
        oldest_repeat=max(one.oldest_repeat for one in found),
    )


def _explain(before: Arrival, again: Arrival, kills: Sequence[Kill]) -> Kill:
    """The first kill after an arrival; the arrival must have been unsettled at it."""
    for kill in kills:
        if before.at <= kill.ended:
            assert kill.ended < again.at, f"event {again.number} came again without a kill between"
            age = kill.began - before.at
            assert age <= SETTLE_WINDOW, f"event {again.number} came again {age:.3f} s after it was delivered"
            return kill
    raise AssertionError(f"event {again.number} came again after the last kill")


def _check_tails(arrivals: Sequence[Arrival], repeats: dict[Kill, list[tuple[int, float]]]) -> None:
    """What comes again after a kill must be the last that was delivered before it, without a gap.

    What is settled is settled in order, so what is unsettled at a kill is a tail.
    """
    for kill, found in repeats.items():
        newest = [a.number for a in arrivals if a.delivered and a.at <= kill.ended][-1]
        numbers = list(dict.fromkeys(number for number, _ in found))
        wanted = list(range(newest - len(numbers) + 1, newest + 1))
        assert numbers == wanted, f"a kill repeated {numbers}, which is no tail of what was delivered"
