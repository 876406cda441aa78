"""The contract of figures over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from hookgw.records.figures import FigureCounts, Holder


class FigureStore(Protocol):
    """What became of events and deliveries, by steps of time. Times are whole seconds since the epoch.

    Whatever a commit stores of events and outcomes is counted in the same commit, and is in the figures from
    the next fold on. A deleted instance or webhook has no figures.
    """

    async def fold_figures(
        self, tags: Mapping[str, Collection[str]], ages: Mapping[Holder, float] = {}, at: float = 0.0
    ) -> bool:
        """Add what was counted since the last fold, by all processes, to the figures.

        Args:
            tags: the tags of instances that have some, as ``name=value``, by the instance's name.
            ages: how old the oldest pending delivery of each holder that has some is, in seconds. A step
                keeps the greatest.
            at: when it was that, by the steady clock.

        Returns:
            ``False`` if another process folds at this moment.
        """

    async def read_figures(
        self, holders: Collection[Holder], step: int, since: int, until: int
    ) -> dict[int, FigureCounts]:
        """Return what some holders had together, by the beginning of the step, in the order of time.

        Args:
            step: the length of the steps in seconds.
            since, until: multiples of ``step``; ``until`` is not included.
        """

    async def sum_figures(
        self, registrations: Sequence[str], since: int, until: int, part: int
    ) -> dict[str, dict[int, tuple[int, int]]]:
        """Return how many deliveries of each registration were delivered, and died, in parts of a time.

        Args:
            part: the length of a part in seconds; the parts are numbered from 0.
        """

    async def oldest_pending(self, registrations: Collection[str]) -> Mapping[str, float]:
        """Return since when the oldest pending delivery of each registration that has some is pending."""

    async def prune_figures(self, *, now: float, limit: int) -> None:
        """Make hours of minutes after a day, and remove the oldest figures after a month.

        Args:
            now: the time of the steady clock.
            limit: the most bytes that figures may use, about. Beyond it, minutes become hours sooner, and
                then the oldest hours go.
        """
