"""How long a node may act for the shards that it holds. No I/O.

The other nodes count a node's time from the moment at which the database got its last heartbeat; the node
itself counts from the moment at which it sent that heartbeat, which was earlier, and allows for clocks that
run at different rates. So a node that is cut off, or was frozen, stops before any other node takes over.
"""

from __future__ import annotations

import math

import trio

from hookgw.models.fleet import DEAD_AFTER

HEARTBEAT = 0.5
"""Seconds between two heartbeats."""

MARGIN = 0.25
"""Seconds by which a node stops before it is dead for others: more than clocks drift apart during a lease."""


class Lease:
    """The time until which this node holds what it holds, by ``trio.current_time()``."""

    def __init__(self) -> None:
        self._until = -math.inf

    @property
    def until(self) -> float:
        """When the lease ends, unless it is renewed; in the past if it has ended."""
        return self._until

    def is_valid(self) -> bool:
        """Return whether this node may act now. An attempt begins with no checkpoint after this."""
        return trio.current_time() < self._until

    def renewed(self, sent: float) -> None:
        """The database has confirmed a heartbeat.

        Args:
            sent: when the node began to send it, by ``trio.current_time()``.
        """
        self._until = max(self._until, sent + DEAD_AFTER - MARGIN)

    def end(self) -> None:
        """Others may hold this node's shards from now on."""
        self._until = -math.inf
