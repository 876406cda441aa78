"""Which lanes a list shows, and in which order. No I/O."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from hookgw.records.deliveries import LaneState, ReportedLane


class LaneFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which lanes a list shows.

    Attributes:
        state: only lanes in this state.
        search: a text in the instance, label, URL or last error, in lower case.
        with_idle: also those that have nothing to do.
    """

    state: str = ""
    search: str = ""
    with_idle: bool = True

    @property
    def skips_idle(self) -> bool:
        return not self.with_idle and self.state != LaneState.IDLE

    def has(self, one: ReportedLane) -> bool:
        if self.state and one.lane.state != self.state:
            return False
        return not (self.skips_idle and one.is_idle) and (not self.search or one.matches(self.search))


ALL_LANES = LaneFilter()


def _webhook(one: ReportedLane) -> tuple[bool, str, str, str]:
    return one.instance is None, one.instance or "", one.label or "", one.lane.lane


LANE_SORTS: Mapping[str, Callable[[ReportedLane], Any]] = {
    "": lambda one: (one.urgency, _webhook(one)),
    "webhook": _webhook,
    "pending": lambda one: (one.lane.backlog + one.lane.held, one.lane.lane),
    "oldest": lambda one: (one.lane.head_since is None, one.lane.head_since or 0.0, one.lane.lane),
}
"""The orders of lanes, by name."""


def first_lanes(lanes: Iterable[ReportedLane], sort: str, most: int) -> list[ReportedLane]:
    """Return at most so many lanes in an order; ``-`` before its name turns it round."""
    key = LANE_SORTS.get(sort.removeprefix("-"), LANE_SORTS[""])
    return (heapq.nlargest if sort.startswith("-") else heapq.nsmallest)(most, lanes, key=key)
