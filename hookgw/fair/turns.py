"""Decides who is next: in turn among holders, in order of arrival among the items of a holder. No I/O.

There is a queue for each holder, and one item of each is served in turn (Nagle, "On packet switches with
infinite storage", 1987). A holder that lines up a thousand items makes its own items wait, and delays another
holder by one item. Turns do not know the costs of items: cut an expensive one into items of about the same
cost.

While others wait, a holder without items keeps its turn until that comes. So a holder that lines up items one
after the other gets as much as a holder that lines up all of them at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)
T = TypeVar("T")


class Turns(Generic[H, T]):
    """Items that wait in line: hashable, and each of them once.

    No method waits: the caller decides when the next item is served, and wakes its task. All methods but
    iteration take the same time however many wait.
    """

    __slots__ = ("_lines", "_size")

    def __init__(self) -> None:
        # The holder whose turn is next comes first. Not plain dictionaries: these look for their first entry
        # among all that were removed, and thousands may wait.
        self._lines: OrderedDict[H, OrderedDict[T, None]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def holders(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items, those of a holder together."""
        return (item for line in self._lines.values() for item in line)

    def add(self, holder: H, item: T) -> None:
        """Line up an item behind those of its holder. A holder that is new comes behind all others."""
        line = self._lines.get(holder)
        if line is None:
            line = self._lines[holder] = OrderedDict()
        line[item] = None
        self._size += 1

    def remove(self, holder: H, item: T) -> bool:
        """Take an item out of the line; return whether it was there."""
        line = self._lines.get(holder)
        if line is None or item not in line:
            return False
        del line[item]
        self._size -= 1
        if not self._size:
            self._lines.clear()
        return True

    def first(self) -> tuple[H, T]:
        """Return the holder with the next turn and its first item; raise ``LookupError`` if nothing waits."""
        lines = self._lines
        if not lines:
            raise LookupError("nothing waits")
        while True:
            holder, line = next(iter(lines.items()))
            if line:
                return holder, next(iter(line))
            del lines[holder]

    def first_of(self, holder: H) -> T | None:
        line = self._lines.get(holder)
        return next(iter(line)) if line else None

    def pop(self, holder: H | None = None) -> T:
        """Take the next item, or the first one of this holder. Its holder then comes after all others.

        Raises:
            LookupError: no item waits.
        """
        if holder is None:
            holder, _ = self.first()
        item, _ = self._lines[holder].popitem(last=False)
        self._size -= 1
        self._lines.move_to_end(holder)
        if not self._size:
            self._lines.clear()
        return item

    def skip(self, holder: H) -> None:
        """Put the items of a holder, if any, after those of all other holders."""
        if holder in self._lines:
            self._lines.move_to_end(holder)
