"""A digest of dead letters: the first is reported at once, further ones once a second together. No I/O."""

from __future__ import annotations

import math
from itertools import takewhile

import msgspec

from hookgw.models.deliveries import Delivery

REST = 1.0
"""Seconds between two reports of the dead letters of one registration."""


class DeadLetterSummary(msgspec.Struct, kw_only=True):
    """Dead letters of one registration.

    Attributes:
        registration: the registration's id.
        count: how many.
        reason: of the last one; a sentence.
        delivery: the last one; ``None`` if many were parked together.
    """

    registration: str
    count: int
    reason: str
    delivery: Delivery | None


class _Held(msgspec.Struct):
    """A registration that was reported a moment ago."""

    until: float
    letters: DeadLetterSummary | None = None


class DeadLetterDigest:
    """Holds back dead letters within :data:`REST` of the last report of their registration, and adds them
    up.
    """

    def __init__(self) -> None:
        # In the order of ``until``, because a registration moves to the end when it is reported.
        self._held: dict[str, _Held] = {}

    def add(self, letters: DeadLetterSummary, now: float) -> DeadLetterSummary | None:
        """Add dead letters.

        Returns:
            What to report at once; ``None`` if they are held back until they are :meth:`due`.
        """
        held = self._held.get(letters.registration)
        if held is None:
            self._held[letters.registration] = _Held(now + REST)
            return letters
        # The newest reason and delivery stand for all of them.
        letters.count += held.letters.count if held.letters else 0
        held.letters = letters
        return None

    @property
    def next_due(self) -> float:
        """When to call :meth:`due` next; infinite if nothing is held back."""
        return next((held.until for held in self._held.values()), math.inf)

    def due(self, now: float) -> list[DeadLetterSummary]:
        """Return what to report now."""
        ripe = [name for name, _ in takewhile(lambda item: item[1].until <= now, self._held.items())]
        due = [letters for name in ripe if (letters := self._held.pop(name).letters)]
        self._held.update((letters.registration, _Held(now + REST)) for letters in due)
        return due
