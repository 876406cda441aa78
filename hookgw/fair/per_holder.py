"""Counts what each holder has. No I/O."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class PerHolder(Generic[H]):
    """How much each holder has, and all of them together.

    A holder that has nothing is forgotten: names of holders come from outside, and the memory for them must
    not grow with every name that was ever seen. Iterating yields the holders that have something.

    Attributes:
        used: how much all holders have together.
    """

    __slots__ = ("_held", "used")

    def __init__(self) -> None:
        self.used = 0
        self._held: dict[H, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[H]:
        return iter(self._held)

    def held(self, holder: H) -> int:
        """Return how much a holder has."""
        return self._held.get(holder, 0)

    def take(self, holder: H, amount: int = 1) -> None:
        """Count more for a holder."""
        if amount:
            self.used += amount
            self._held[holder] = self._held.get(holder, 0) + amount

    def give(self, holder: H, amount: int = 1) -> None:
        """Count less for a holder.

        Raises:
            ValueError: the holder has less than that. Nothing was changed.
        """
        left = self._held.get(holder, 0) - amount
        if left > 0:
            self._held[holder] = left
        elif left < 0:
            raise ValueError(f"{holder!r} has {left + amount:,} and cannot give back {amount:,}")
        else:
            self._held.pop(holder, None)
        self.used -= amount
