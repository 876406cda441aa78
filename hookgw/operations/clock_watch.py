"""Tells operators that hookgw's times are no longer those of the machine.

hookgw counts time from its start, so that no jump of the machine's clock makes a retry or an expiry early.
The price: once somebody sets that clock (NTP, on a machine that starts in the year 2000), or the machine has
slept, the times that are stored and shown are wrong by as much until a restart.
"""

from __future__ import annotations

import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.kernel.units import at_a_glance

logger = structlog.get_logger("hookgw")

CHECK_EVERY = 10.0
"""Seconds between two looks."""

APART = 60.0
"""How many seconds the two clocks may be apart: times that people compare are not wrong by more."""


class ClockWatch:
    """Compares the machine's clock with the steady one for as long as :meth:`run` runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = 0.0

    async def run(self) -> None:
        while True:
            self.look()
            await trio.sleep(CHECK_EVERY)

    def look(self) -> None:
        apart = self._clock.apart()
        if abs(apart - self._told) < APART:
            return
        self._told = apart
        if (reason := difference(self._clock)) is None:
            logger.info("the times of hookgw are those of the machine's clock again")
        else:
            logger.warning(
                "the machine's clock was set, or the machine slept; restart hookgw so that its times "
                "are right",
                reason=reason,
            )


def difference(clock: Clock) -> str | None:
    """Return how far the times of hookgw are from those of the machine; ``None`` if it does not matter."""
    apart = clock.apart()
    if abs(apart) < APART:
        return None
    which = "behind" if apart > 0 else "ahead of"
    return f"The times of hookgw are {at_a_glance(abs(apart))} {which} the machine's clock."
