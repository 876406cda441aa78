"""Rate limits of keys: token buckets, in memory. No I/O.

In a fleet, requests with a key come to any node, and each node admits its part of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from weakref import WeakValueDictionary

BURST = 2
"""Seconds' worth of requests that may come at once, after a pause."""


class Pace:
    """The rate at which tokens come back, the same for many buckets.

    Args:
        rate: tokens per second, at least 1.
        now: a monotonic clock, in seconds.

    Attributes:
        rate: tokens per second that each bucket gets on this node.
        capacity: the most tokens in a bucket, at least 1.
        changes: how often rate and capacity have changed; ``changed_at`` is the last time.
        former_rate: the rate until then.
    """

    __slots__ = ("_whole", "capacity", "changed_at", "changes", "former_rate", "now", "rate")

    def __init__(self, rate: int, now: Callable[[], float]) -> None:
        self._whole = rate
        self.now = now
        self.rate = self.former_rate = float(rate)
        self.capacity = float(rate * BURST)
        self.changes = 0
        self.changed_at = -math.inf

    def divide(self, nodes: int) -> None:
        self.changes += 1
        self.former_rate, self.changed_at = self.rate, self.now()
        self.rate = self._whole / nodes
        # A bucket without room for a token would never give one.
        self.capacity = max(1.0, self.rate * BURST)


class TokenBucket:
    """A token bucket. It starts full; each request takes a token, and tokens come back at a steady pace.

    If the pace changes, tokens stay as far as there is room for them.
    """

    __slots__ = ("__weakref__", "_changes", "_most", "_pace", "tokens", "updated_at")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._changes = pace.changes
        self.tokens = self._most = pace.capacity
        self.updated_at = pace.now()

    def take(self) -> float:
        """Take a token, and return 0; or take none, and return the seconds until there will be one."""
        pace = self._pace
        now = pace.now()
        if self._changes != pace.changes:
            # What had come back until the change, at the former rate: a change gives no tokens.
            tokens = self.tokens + (pace.changed_at - self.updated_at) * pace.former_rate
            self.tokens, self._most = min(tokens, self._most), pace.capacity
            self.updated_at, self._changes = pace.changed_at, pace.changes
        tokens = self.tokens + (now - self.updated_at) * pace.rate
        if tokens > self._most:
            tokens = self._most
        self.updated_at = now
        if tokens < 1:
            # A refused request takes nothing, so a client that retries too fast does not wait longer.
            self.tokens = tokens
            return (1 - tokens) / pace.rate
        self.tokens = tokens - 1
        return 0.0


class RateLimits:
    """Assigns buckets to keys.

    A key that another key has made, or that came with an instance that it created, shares the bucket of the
    key from which it descends; otherwise making them would multiply the limit. Each operator's key has its
    own bucket, and so has each key that an operator makes.

    Args:
        instance_rate: requests per second of a key that does not reach everything; 0 for no limit.
        global_rate: requests per second of a key that reaches everything; 0 for no limit.
    """

    def __init__(self, instance_rate: int, global_rate: int, now: Callable[[], float]) -> None:
        self._of_instances = Pace(instance_rate, now) if instance_rate else None
        self._of_global_keys = Pace(global_rate, now) if global_rate else None
        # Weak: a bucket lives as long as a key that has it, and needs no removal when keys are revoked.
        self._buckets: WeakValueDictionary[tuple[str | None, str, bool], TokenBucket] = WeakValueDictionary()

    def bucket(self, instance: str | None, group: str, *, is_limited: bool = False) -> TokenBucket | None:
        """Return the bucket that the keys of a group share, or ``None`` if there is no limit.

        The group is the name of the key from which they descend, of an instance or (``None``) of none.
        ``is_limited`` says that a key of no instance does not reach everything.
        """
        is_global = instance is None and not is_limited
        pace = self._of_global_keys if is_global else self._of_instances
        if pace is None:
            return None
        return self._buckets.setdefault((instance, group, is_global), TokenBucket(pace))

    def divide(self, nodes: int) -> None:
        """Divide both rates among the nodes of a fleet; each bucket is changed when it is used."""
        for pace in (self._of_instances, self._of_global_keys):
            if pace is not None:
                pace.divide(nodes)
