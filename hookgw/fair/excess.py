"""Decides what must go when holders together have too much: it takes from the largest until all fit.

At some level, everything fits if no holder has more. Holders below it lose nothing, however much the others
have; holders above it lose the excess. (This is max-min fairness; Bertsekas and Gallager, Data Networks,
section 6.5.2.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Excess(Generic[H]):
    """The excess of each holder, while it is taken away: ``left`` says how much is still to go."""

    def __init__(self, held: Mapping[H, float], total: float) -> None:
        self.left: dict[H, float] = {}
        level = _level(sorted(held.values()), total)
        for holder, amount in held.items():
            if amount > level:
                self.left[holder] = amount - level

    def take(self, holder: H, amount: float) -> None:
        """Note that a holder lost some; no effect if it had no excess left."""
        if holder in self.left:
            self.left[holder] -= amount
            if self.left[holder] <= 0:
                del self.left[holder]


def _level(amounts: list[float], total: float) -> float:
    """Return the level for amounts in ascending order; infinite if they fit."""
    for place, amount in enumerate(amounts):
        # If this one and all above it had the same, that would be the level.
        level = total / (len(amounts) - place)
        if amount > level:
            return level
        total -= amount
    return float("inf")
