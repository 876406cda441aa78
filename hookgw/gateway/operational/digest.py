"""Dead letters as they are told of: each at once, and where many come, one telling a second. No I/O."""

from __future__ import annotations

import math
from itertools import takewhile

import msgspec

from hookgw.models.deliveries import Delivery

REST = 1.0
"""Seconds between two tellings of the dead letters of one registration."""


class DeadLetterSummary(msgspec.Struct, kw_only=True):
    """Dead letters of one registration.

    Attributes:
        registration: its id.
        count: how many.
        reason: why the last of them was given up, a sentence.
        delivery: the last of them; ``None`` where many were given up in one go.
    """

    registration: str
    count: int
    reason: str
    delivery: Delivery | None


class _Held(msgspec.Struct):
    """A registration that was told of a moment ago."""

    until: float
    letters: DeadLetterSummary | None = None


class DeadLetterDigest:
    """Holds back what comes within :data:`REST` of the last telling, and sums it up.

    ``_held`` is in the order of ``until``: each registration goes to its end when it is told of.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def add(self, letters: DeadLetterSummary, now: float) -> DeadLetterSummary | None:
        """Take dead letters.

        Returns:
            What to tell of at once; ``None`` where they are held back until they are :meth:`due`.
        """
        held = self._held.get(letters.registration)
        if held is None:
            self._held[letters.registration] = _Held(now + REST)
            return letters
        letters.count += held.letters.count if held.letters else 0
        held.letters = letters
        return None

    @property
    def next_due(self) -> float:
        """When to ask for what is due; infinite where nothing is held."""
        return next((held.until for held in self._held.values()), math.inf)

    def due(self, now: float) -> list[DeadLetterSummary]:
        """What to tell of now."""
        ripe = [name for name, _ in takewhile(lambda item: item[1].until <= now, self._held.items())]
        told = [letters for name in ripe if (letters := self._held.pop(name).letters)]
        self._held.update((letters.registration, _Held(now + REST)) for letters in told)
        return told
