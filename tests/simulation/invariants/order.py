"""The first arrivals of each registration are in order of acceptance: all, or per key of its ordering.

What a backfill sends has the place of its call: behind what was accepted before that, and before what was
accepted after its answer. Among itself, it is in order of acceptance.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.history import Accepted, Dead, Violation
from tests.simulation.invariants.index import Index


def check(index: Index) -> Iterator[Violation]:
    """No event overtakes another one of its key that was accepted before it was sent to hookgw."""
    firsts: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for (event, registration), exchanges in index.exchanges.items():
        first = exchanges[0].arrived
        firsts[registration].append((first.number, first.at, event))
    given_up = {(record.event, record.registration) for record in index.history.of(Dead)}
    for registration, arrivals in firsts.items():
        orderings = index.orderings[registration]
        if "none" in orderings:
            continue
        newest: dict[tuple[str, ...], _Place] = {}
        for _, at, event in sorted(arrivals):
            place = _place_of(index, registration, event, at)
            # One that was given up before its first attempt, as plugins make it, may be there again after a
            # kill.
            if (
                place is None
                or index.was_requeued(event, place.accepted.instance, at)
                or (event, registration) in given_up
                or (index.rules.alters and index.was_killed(place.accepted.at, at))
            ):
                continue
            accepted = place.accepted
            keys: list[tuple[str, ...]] = [(accepted.instance,) if orderings - {"url"} else ()]
            if "chat" in orderings:
                chats = accepted.chats[accepted.events.index(event)]
                keys = [(accepted.instance, chat) for chat in chats.split()]
            for key in keys:
                # Of the arrivals so far, the one whose call began last.
                before = newest.get(key)
                # What a plugin gave up may be there again, too, if the disk refused that until the stop.
                is_back = before is not None and index.rules.alters and index.was_lost(before.arrived, at)
                if before is not None and not is_back and _belongs_before(place, before):
                    yield Violation(
                        "order",
                        f"{registration} got {before.event} before {event}, which was accepted before it",
                        frozenset({registration, event, before.event}),
                    )
                if before is None or before.rank <= place.rank:
                    newest[key] = place


class _Place(NamedTuple):
    """Where an event belongs among the arrivals of a registration.

    Attributes:
        began, ended: between these times it got its place: by the call that stored it, or by a backfill.
        backfill: the number of that; 0 for none.
        accepted: the call that stored it.
        arrived: when it arrived first.
    """

    event: str
    began: float
    ended: float
    backfill: int
    accepted: Accepted
    arrived: float

    @property
    def rank(self) -> tuple[float, float, int]:
        return (
            self.began,
            self.accepted.began if self.backfill else 0.0,
            self.accepted.events.index(self.event),
        )


def _place_of(index: Index, registration: str, event: str, at: float) -> _Place | None:
    """Return the place of an event that arrived at a time; ``None`` if it has no known one."""
    accepted = index.accepted.get(event)
    if accepted is None:  # its call was not answered
        return None
    began = [(call, end) for call, end in index.backfills.get(registration, ()) if call.began <= at]
    if registration in accepted.wanted or not began:
        return _Place(event, accepted.began, accepted.at, 0, accepted, at)
    # Any of several backfills may have sent it; and if the registration may have wanted it, perhaps none.
    if registration in accepted.maybe or len(began) > 1:
        return None
    [(call, end)] = began
    return _Place(event, call.began, end, call.number, accepted, at)


def _belongs_before(place: _Place, before: _Place) -> bool:
    """Return whether an event certainly belongs before another one, which arrived before it."""
    if place.backfill != before.backfill:
        return place.ended < before.began
    if place.accepted is before.accepted:
        return place.rank < before.rank
    # Of one backfill, and of none: in order of acceptance.
    return place.accepted.at < before.accepted.began
