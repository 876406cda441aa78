"""Counts what this node has delivered in the last minute."""

from __future__ import annotations

from collections import deque
from typing import NoReturn

import trio

from hookgw.core.metrics import Metrics

TICK = 10.0
"""Seconds between two looks at the counter."""
_MINUTE = 60.0


class Activity:
    """Samples the counter of the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # The counter at the last ticks, the newest last.
        self._ticks: deque[int] = deque([0], maxlen=int(_MINUTE // TICK) + 1)

    async def run(self) -> NoReturn:
        while True:
            await trio.sleep(TICK)
            self._ticks.append(self._metrics.deliveries())

    def last_minute(self) -> int:
        """Return the deliveries of the last minute, or since the start if that was later."""
        return self._metrics.deliveries() - self._ticks[0]
