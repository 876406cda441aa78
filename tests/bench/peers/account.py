"""What became of the events of one load: pure arithmetic on what was published and what arrived."""

from collections.abc import Sequence

import msgspec

from tests.bench.peers.publish import Published
from tests.bench.results import percentile


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """One request that the receiver answered 200. Times are monotonic, in nanoseconds."""

    publisher: int
    number: int
    sent: int
    arrived: int


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Every accepted event, accounted for.

    Attributes:
        accepted: events that the system said it has.
        delivered: of these, the ones that arrived.
        lost: the ones that did not.
        repeated: requests answered 200 for events that had been answered 200 before.
        inversions: events that arrived after a later one of the same publisher to the same destination.
        unknown: events whose connection was lost before the answer; they count for nothing else.
        refused: requests that were answered, but not with a 2xx.
        seconds: from the start of the load to the last arrival.
        p50: the median of the times from when an event was due to its first arrival, in seconds.
        p99: the time that 99 % of them need at most.
    """

    accepted: int
    delivered: int
    lost: int
    repeated: int
    inversions: int
    unknown: int
    refused: int
    seconds: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        """Events delivered per second."""
        return self.delivered / self.seconds if self.seconds else 0.0


def account(published: Published, arrivals: Sequence[Arrival]) -> Account:
    """Compare what was published with what arrived, in its order.

    Args:
        published: the load.
        arrivals: of this load, and perhaps of others, which are left out.
    """
    seen: set[tuple[int, int]] = set()
    latest: dict[tuple[int, int], int] = {}
    latencies: list[float] = []
    repeated = inversions = last = 0
    concerned = published.accepted | published.unknown
    for arrival in arrivals:
        event = (arrival.publisher, arrival.number)
        if event not in concerned:
            continue
        if event in seen:
            repeated += 1
            continue
        seen.add(event)
        destination = (arrival.publisher, arrival.number % published.each)
        if arrival.number < latest.get(destination, -1):
            inversions += 1
        latest[destination] = max(arrival.number, latest.get(destination, -1))
        latencies.append((arrival.arrived - arrival.sent) / 1e9)
        last = max(last, arrival.arrived)
    delivered = len(seen & published.accepted)
    return Account(
        accepted=len(published.accepted),
        delivered=delivered,
        lost=len(published.accepted) - delivered,
        repeated=repeated,
        inversions=inversions,
        unknown=len(published.unknown),
        refused=published.refused.total(),
        seconds=(last - published.began) / 1e9 if last else 0.0,
        p50=percentile(latencies, 0.5),
        p99=percentile(latencies, 0.99),
    )
