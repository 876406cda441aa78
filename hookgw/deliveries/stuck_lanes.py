"""Logs each delivery that holds a lane up once, and remembers the lanes for the overview."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from hookgw.concurrency.clock import Clock
from hookgw.records.deliveries import LaneStatistics
from hookgw.records.stuck_lanes import advice_for

MOST = 1_000
"""The most lanes that are remembered. The list of lanes shows the others, too."""

logger = structlog.get_logger("hookgw.delivery")


class StuckLanes:
    """The lanes that are stuck, as far as this process knows."""

    def __init__(self, find: Callable[[str], LaneStatistics | None], clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._keys: dict[str, None] = {}

    def report(self, lane: LaneStatistics) -> None:
        advice = advice_for(lane, self._clock.steady())
        logger.warning(
            "one delivery holds its lane up",
            delivery=f"dlv_{lane.head}",
            instance=lane.head_instance,
            registration=lane.registration,
            lane=lane.lane,
            behind=lane.backlog - 1,
            error=lane.last_error,
            advice=advice,
        )
        if len(self._keys) < MOST:
            self._keys[lane.lane] = None

    def present(self) -> list[tuple[LaneStatistics, str]]:
        """Return the lanes that are stuck now, each with the advice, and forget the others."""
        now, found = self._clock.steady(), []
        for key in [*self._keys]:
            lane = self._find(key)
            advice = None if lane is None else advice_for(lane, now)
            if lane is not None and advice is not None:
                found.append((lane, advice))
            elif lane is None or lane.tried_since is None:
                del self._keys[key]
        return found
