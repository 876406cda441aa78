"""Counts events and deliveries by minute, for a day, also across restarts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.metrics import Metrics
from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.units import DAY
from hookgw.store import Records

TICK = 10.0
"""Seconds between two looks at the counters."""
STORE_EVERY = 300.0
"""Seconds between two writes: a process that is killed loses at most this much of the figures."""
_MINUTE = 60.0
KEY = "activity"
"""The name of the stored value; in a fleet, the node's name follows."""

logger = structlog.get_logger("hookgw.activity")


class Counts(NamedTuple):
    accepted: int = 0
    delivered: int = 0
    dead: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


class Minute(msgspec.Struct, frozen=True, array_like=True):
    """One minute; ``at`` is its end, in seconds since the epoch."""

    at: float
    counts: Counts


class Activity:
    """Samples the counters of the metrics, and stores the minutes."""

    def __init__(self, metrics: Metrics, store: Records, clock: Clock, node: str = "") -> None:
        self._key = f"{KEY}/{node}" if node else KEY
        self._totals: Callable[[], tuple[int, int, int]] = metrics.totals
        self._store = store
        self._clock = clock
        self._minutes: deque[Minute] = deque(maxlen=int(DAY // _MINUTE))
        # The counters at the last ticks, the newest last: enough for the last minute.
        self._ticks: deque[Counts] = deque([Counts()], maxlen=int(_MINUTE // TICK) + 1)
        self._at_minute = Counts()

    async def load(self) -> None:
        """Read the minutes of earlier runs."""
        try:
            stored = msgspec.convert(await self._store.get_value(self._key) or [], list[Minute])
        except msgspec.ValidationError:
            stored = []  # of another version: only figures are lost
        now = self._clock.wall()
        self._minutes.extend(one for one in stored if now - DAY < one.at <= now)

    async def run(self) -> None:
        """Sample until cancelled; store the minutes now and then, and at the end."""
        ticks = 0
        try:
            while True:
                await trio.sleep(TICK)
                ticks += 1
                self._tick(is_minute=ticks % (_MINUTE // TICK) == 0)
                if ticks % (STORE_EVERY // TICK) == 0:
                    await self._keep()
        finally:
            with trio.move_on_after(1, shield=True):
                self._tick(is_minute=True)
                await self._keep()

    def _tick(self, *, is_minute: bool) -> None:
        now = Counts(*self._totals())
        self._ticks.append(now)
        if is_minute:
            self._minutes.append(Minute(self._clock.wall(), now - self._at_minute))
            self._at_minute = now

    async def _keep(self) -> None:
        value: Any = msgspec.to_builtins(list(self._minutes))
        try:
            await self._store.put_value(self._key, value)
        except StorageUnavailable as error:
            logger.warning("activity not stored", reason=str(error))

    def last_minute(self) -> Counts:
        """Return the counts of the last minute, or since the start if that was later."""
        return Counts(*self._totals()) - self._ticks[0]

    def since(self, seconds: float) -> Counts:
        """Return the counts of the last seconds: at most a day, to the minute."""
        total = Counts(*self._totals()) - self._at_minute
        start = self._clock.wall() - seconds
        for one in reversed(self._minutes):
            if one.at <= start:
                break
            total = sum_of((total, one.counts))
        return total


def sum_of(counts: Iterable[Counts]) -> Counts:
    return Counts(*map(sum, zip(Counts(), *counts, strict=True)))
