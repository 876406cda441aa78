"""The first arrivals of each registration are in order of acceptance: all, or per key of its ordering."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.history import Dead, Violation
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
        newest: dict[tuple[str, ...], tuple[float, int, str, float]] = {}
        for _, at, event in sorted(arrivals):
            accepted = index.accepted.get(event)
            # An event whose call was not answered has no known place. One that was given up before its first
            # attempt, as plugins make it, may be there again after a kill.
            if (
                accepted is None
                or index.was_requeued(event, accepted.instance, at)
                or (event, registration) in given_up
                or (index.rules.alters and index.was_killed(accepted.at, at))
            ):
                continue
            place = accepted.events.index(event)
            keys: list[tuple[str, ...]] = [(accepted.instance,) if orderings - {"url"} else ()]
            if "chat" in orderings:
                keys = [(accepted.instance, chat) for chat in accepted.chats[place].split()]
            for key in keys:
                # Of the arrivals so far, the one whose call began last.
                before = newest.get(key)
                # What a plugin gave up may be there again, too, if the disk refused that until the stop.
                is_back = before is not None and index.rules.alters and index.was_lost(before[3], at)
                if (
                    before is not None
                    and not is_back
                    and (
                        accepted.at < before[0]
                        or (accepted.began == before[0] and _same(index, event, before))
                    )
                ):
                    yield Violation(
                        "order",
                        f"{registration} got {before[2]} before {event}, which was accepted before it",
                        frozenset({registration, event, before[2]}),
                    )
                newest[key] = max(before or (-1.0, -1, "", 0.0), (accepted.began, place, event, at))


def _same(index: Index, event: str, before: tuple[float, int, str, float]) -> bool:
    """Return whether an event came before another one in the same call."""
    accepted = index.accepted[event]
    return accepted is index.accepted[before[2]] and accepted.events.index(event) < before[1]
