"""A digest of frequent reports: the first is reported at once, further ones once a second. No I/O."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Generic, Protocol, TypeVar

import msgspec

from hookgw.records.deliveries import Delivery

REST = 1.0
"""Seconds between two reports about one registration, or one instance."""


class DigestSummary(Protocol):
    """A number of things of one kind."""

    count: int

    @property
    def about(self) -> str:
        """The subject that they belong to."""


class DeadLetterSummary(msgspec.Struct, kw_only=True):
    """Dead letters of one registration, with the reason of the last one.

    Attributes:
        delivery: the last one; ``None`` if many were parked together.
    """

    registration: str
    count: int
    reason: str
    delivery: Delivery | None

    @property
    def about(self) -> str:
        return self.registration


class LeftOutSummary(msgspec.Struct, kw_only=True):
    """Events of a network that an instance's connector left out, with the reason of the last one."""

    instance: str
    connector: str
    count: int
    reason: str

    @property
    def about(self) -> str:
        return self.instance


S = TypeVar("S", bound=DigestSummary)


class _Held(msgspec.Struct, Generic[S]):
    until: float
    summary: S | None = None


class Digest(Generic[S]):
    """Holds back summaries within :data:`REST` of the last report about the same, and adds them up."""

    def __init__(self) -> None:
        # In the order of ``until``, because a reported subject moves to the end.
        self._held: dict[str, _Held[S]] = {}

    def add(self, summary: S, now: float) -> S | None:
        """Return the summary if it is to be reported at once; ``None`` if it is held back until it is
        :meth:`due`.
        """
        held = self._held.get(summary.about)
        if held is None:
            self._held[summary.about] = _Held(now + REST)
            return summary
        # The newest one stands for all of them.
        summary.count += held.summary.count if held.summary else 0
        held.summary = summary
        return None

    @property
    def next_due(self) -> float:
        """When to call :meth:`due` next; infinite if nothing is held back."""
        return next((held.until for held in self._held.values()), math.inf)

    def due(self, now: float) -> list[S]:
        """Return the summaries to report now."""
        ripe = [name for name, _ in takewhile(lambda item: item[1].until <= now, self._held.items())]
        due = [summary for name in ripe if (summary := self._held.pop(name).summary)]
        self._held.update((summary.about, _Held(now + REST)) for summary in due)
        return due
