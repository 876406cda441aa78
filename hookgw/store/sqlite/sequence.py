"""The numbers that are given to events, deliveries and positions."""

from __future__ import annotations


class SequenceNumbers:
    """Gives numbers in the Trio thread, so that the order of asking is the order of delivery.

    Deliveries and positions share one count: what is sent again comes after all that was appended
    before, and before all that is appended later. A number that was given is never given again.

    Args:
        event, delivery: the highest numbers that were given so far.
    """

    def __init__(self, event: int, delivery: int) -> None:
        self._event = event
        self.newest = delivery

    def event(self) -> int:
        """The number of a new event."""
        self._event += 1
        return self._event

    def delivery(self) -> int:
        """The number of a new delivery, which is also its position."""
        self.newest += 1
        return self.newest

    def positions(self, count: int) -> int:
        """The first of so many positions for deliveries that are sent again."""
        first = self.newest + 1
        self.newest += count
        return first
