"""Rates per tag: how many attempts the deliveries of all instances with one value of a tag make. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hookgw.kernel.rates import Rate
from hookgw.lanes.rate_limit import RateLimit


class TagRates:
    """The limits of each value of the tags that have a rate (``limits.tags``).

    In a fleet, each node holds its part of them: the instances of a value are on any node.

    Attributes:
        limits: by tag and value, with the number of instances, so that a value that nobody has any more is
            forgotten.
    """

    def __init__(self, rates: Mapping[str, Rate] | None = None) -> None:
        self._rates = dict(rates or {})
        self._nodes = 1
        self.limits: dict[tuple[str, str], tuple[RateLimit, int]] = {}
        self._values: dict[str, tuple[tuple[str, str], ...]] = {}
        self._of: dict[str, tuple[RateLimit, ...]] = {}

    def of(self, instance: str) -> Sequence[RateLimit]:
        """Return the limits that an attempt for an event of an instance must keep."""
        return self._of.get(instance, ())

    def changed(self, instance: str, tags: Mapping[str, str]) -> bool:
        """Note the tags of an instance; return whether its limits have changed."""
        old = self._values.pop(instance, ())
        new = tuple((tag, tags[tag]) for tag in self._rates if tag in tags)
        for value in new:
            limit, members = self.limits.get(value) or (self._limit(self._rates[value[0]]), 0)
            self.limits[value] = limit, members + 1
        for value in old:
            limit, members = self.limits[value]
            self.limits[value] = limit, members - 1
            if members == 1:
                del self.limits[value]
        self._of.pop(instance, None)
        if new:
            self._values[instance] = new
            self._of[instance] = tuple(self.limits[value][0] for value in new)
        return old != new

    def divide(self, nodes: int) -> None:
        """Divide the limits among so many nodes, this one among them."""
        self._nodes = nodes
        for limit, _ in self.limits.values():
            limit.divide(nodes)

    def _limit(self, rate: Rate) -> RateLimit:
        limit = RateLimit(rate)
        limit.divide(self._nodes)
        return limit
