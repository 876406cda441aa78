"""What must hold of the order in which deliveries arrive, whatever happens. No I/O.

Whenever a delivery gets into a lane, by its event or by being sent again, the test gives it a
*ticket*, a number that grows. The promises are about tickets, so that what is sent again counts as
something new at the end.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple


class Key(NamedTuple):
    """A delivery: which event to which registration."""

    event: str
    registration: str


class Arrival(NamedTuple):
    """A request as a receiver saw it."""

    url: str
    key: Key
    ticket: int
    delivered: bool


@dataclass
class Ledger:
    """The tickets that were given, and the arrivals in their order."""

    tickets: dict[Key, int] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    _given: int = 0

    def queue(self, keys: Sequence[Key]) -> None:
        """Give these deliveries their tickets, in this order."""
        for key in keys:
            self._given += 1
            self.tickets[key] = self._given

    def arrived(self, url: str, key: Key, delivered: bool) -> None:
        self.arrivals.append(Arrival(url, key, self.tickets[key], delivered))

    def judge(self) -> None:
        """Check all promises.

        Raises:
            AssertionError: one is broken.
        """
        by_registration: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in self.arrivals:
            by_registration[arrival.key.registration].append(arrival)
        for name, arrivals in by_registration.items():
            _check_row(name, arrivals)
        _check_once(self.arrivals)


def _check_row(name: str, arrivals: Sequence[Arrival]) -> None:
    """The tickets of a row never fall: nothing is overtaken, and nothing is sent while the head waits."""
    tickets = [ticket for ticket, _ in groupby(arrival.ticket for arrival in arrivals)]
    fallen = [(one, other) for one, other in pairwise(tickets) if other < one]
    assert not fallen, f"{name}: arrived out of order: {fallen[:5]}"


def _check_once(arrivals: Sequence[Arrival]) -> None:
    """After a 2xx nothing is sent again unless somebody asks for it."""
    times = Counter((arrival.key, arrival.ticket) for arrival in arrivals if arrival.delivered)
    again = [key for key, count in times.items() if count > 1]
    assert not again, f"delivered more than once: {again[:5]}"
    done = set()
    for arrival in arrivals:
        assert (arrival.key, arrival.ticket) not in done, f"sent after its 2xx: {arrival}"
        if arrival.delivered:
            done.add((arrival.key, arrival.ticket))
