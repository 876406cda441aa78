"""Counts what each holder has. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class PerHolder(Generic[H]):
    """Counts how much each holder has, and all of them together (``used``).

    A holder that has nothing is forgotten: names of holders come from outside, and the memory for them must
    not grow with every name that was ever seen. Iterating yields the holders that have something. Amounts are
    positive.

    Attributes:
        on_given: called after each :meth:`give`, if set.
    """

    __slots__ = ("_held", "on_given", "used")

    def __init__(self) -> None:
        self.used = 0
        self.on_given: Callable[[], None] | None = None
        self._held: dict[H, int] = {}

    def __contains__(self, holder: H) -> bool:
        return holder in self._held

    def __iter__(self) -> Iterator[H]:
        return iter(self._held)

    def held(self, holder: H) -> int:
        return self._held.get(holder, 0)

    def take(self, holder: H, amount: int = 1) -> int:
        """Count more for a holder, and return what it has then."""
        self.used += amount
        held = self._held[holder] = self._held.get(holder, 0) + amount
        return held

    def take_within(self, holder: H, amount: int, most: int) -> bool:
        """Count more for a holder, unless it has more than ``most`` then; return whether it does not."""
        held = self._held.get(holder, 0) + amount
        if held > most:
            return False
        self.used += amount
        self._held[holder] = held
        return True

    def give(self, holder: H, amount: int = 1) -> None:
        """Count less for a holder.

        Raises:
            KeyError, ValueError: the holder has nothing, or less than that. Nothing was changed.
        """
        held = self._held
        if (left := held[holder] - amount) > 0:
            held[holder] = left
        elif left:
            raise ValueError(f"{holder!r} has {held[holder]:,} and cannot give back {amount:,}")
        else:
            del held[holder]
        self.used -= amount
        if self.on_given is not None:
            self.on_given()
