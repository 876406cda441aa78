"""The order between partitions by chat, where an event is about several chats.

Such an event is in a lane of its own, the *wide* lane. It begins once nothing that was accepted before it is
pending in any partition, and nothing that was accepted after it begins before it has ended. Positions say
what came before: they are numbers of the whole outbox, not of a lane.

A lane with pending deliveries always runs, and says from which position on it may have some
(:attr:`Ordered.frontier`). A lane that must wait drops its deliveries from memory: otherwise those for which
it waits might not find any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hookgw.records.deliveries import Position


class Ordered(Protocol):
    """A lane, as the others see it."""

    @property
    def frontier(self) -> Position | None:
        """The lane has no pending delivery before this position; ``None`` if it has none at all."""


class ChatOrder:
    """The lanes of one registration and generation."""

    def __init__(self) -> None:
        self._lanes: set[Ordered] = set()
        self._wide: Ordered | None = None
        self._waiting: dict[Ordered, tuple[Position, Callable[[], object]]] = {}

    def add(self, lane: Ordered, *, is_wide: bool) -> None:
        if is_wide:
            self._wide = lane
        else:
            self._lanes.add(lane)

    def remove(self, lane: Ordered) -> bool:
        """Remove a lane that has ended; return whether it was the last one."""
        if lane is self._wide:
            self._wide = None
        self._lanes.discard(lane)
        self.advanced()
        return self._wide is None and not self._lanes

    def may_begin(self, lane: Ordered, position: Position) -> bool:
        if self._wide is None:
            return True
        others = self._lanes if lane is self._wide else (self._wide,)
        return all((at := other.frontier) is None or at > position for other in others)

    def wait(self, lane: Ordered, position: Position, wake: Callable[[], object]) -> None:
        """Call ``wake`` once a lane may begin a delivery; :meth:`leave` in the end."""
        self._waiting[lane] = position, wake
        self.advanced()

    def leave(self, lane: Ordered) -> None:
        self._waiting.pop(lane, None)

    def advanced(self) -> None:
        """Note that a lane has come further, or has nothing left."""
        for lane, (position, wake) in self._waiting.items():
            if self.may_begin(lane, position):
                wake()
