"""Limits the time for which a node may act for its shards. No I/O.

The other nodes count a node's time from the moment at which the database got its last heartbeat; the node
itself counts from the moment at which it sent that heartbeat, which was earlier, and allows for clocks that
run at different rates. So a node that is cut off, or was frozen, stops before any other node takes over.

The clock of :mod:`trio` stands still while a machine sleeps. Where the system has a clock that does not
(``CLOCK_BOOTTIME`` of Linux), the lease counts this time, too. If all clocks of a virtual machine stood
still, no clock tells; then the first commit does, which the database refuses a removed node.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import trio

from hookgw.records.fleet import DEAD_AFTER

HEARTBEAT = 0.5
"""Seconds between two heartbeats."""

MARGIN = 0.25
"""Seconds by which a node stops before it is dead for others: more than clocks drift apart during a lease."""


BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def seconds_asleep() -> float:
    """Return how long this machine was asleep since its start; 0 if no clock tells."""
    if BOOT_TIME is None:
        return 0.0
    # In this order: if the process is frozen between the two, the result is too small. So a heartbeat is
    # never taken for younger than it is. Rounded, because the two are not read at the same moment.
    boot_time = time.clock_gettime(BOOT_TIME)
    return round(boot_time - time.clock_gettime(time.CLOCK_MONOTONIC), 3)


class DatabaseClock:
    """Notices when the database's clock jumps: it was set, or another server took over.

    Other nodes' heartbeats have an age by this clock, so all of them look old when it jumps forward.
    """

    def __init__(self) -> None:
        self._last: tuple[float, float, float] | None = None

    def read(self, time: float, sent: float, received: float) -> float:
        """Return by how many seconds the clock has jumped since the last reading; 0 if it may not have.

        The database returned ``time`` between the moments ``sent`` and ``received`` of the clock of leases.
        """
        last, self._last = self._last, (time, sent, received)
        if last is None:
            return 0.0
        passed, least, most = time - last[0], sent - last[2], received - last[1]
        if least - MARGIN <= passed <= most + MARGIN:
            return 0.0
        return passed - (most if passed > most else least)


class Lease:
    """The time until which this node may act for its shards.

    Args:
        asleep: returns the seconds for which the clock of :mod:`trio` stood still.
    """

    def __init__(self, asleep: Callable[[], float] = seconds_asleep) -> None:
        self._asleep = asleep
        self._until = -math.inf

    def now(self) -> float:
        return self._asleep() + trio.current_time()

    @property
    def until(self) -> float:
        """When the lease ends by ``trio.current_time()``, unless it is renewed; in the past if it has."""
        return self._until - self._asleep()

    def is_valid(self) -> bool:
        """Return whether this node may act now. An attempt begins with no checkpoint after this."""
        return self.now() < self._until

    def renewed(self, sent: float) -> None:
        """Note that the database has confirmed a heartbeat, which was ``sent`` then, by :meth:`now`."""
        self._until = max(self._until, sent + DEAD_AFTER - MARGIN)

    def end(self) -> None:
        """Note that others may hold this node's shards from now on. Called in any thread."""
        self._until = -math.inf
