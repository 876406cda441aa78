"""What the event loop has to do, for code that is about to block it."""

from __future__ import annotations

from collections.abc import Set


class LoopLoad:
    """Kept by those who work in the loop.

    Attributes:
        requests: how many requests of clients are in progress.
        lanes: the keys of the lanes with an attempt in flight.
    """

    __slots__ = ("lanes", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.lanes: set[str] = set()

    def is_only(self, lanes: Set[str]) -> bool:
        """Return whether there is at most one request, and no attempt in flight but of these lanes."""
        return self.requests <= 1 and self.lanes <= lanes
