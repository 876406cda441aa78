"""Rate limits of keys: token buckets, in memory. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

BURST = 2
"""Seconds' worth of requests that may come at once, after a pause."""


class TokenBucket:
    """A token bucket. It starts full; each request takes a token, and tokens come back at a steady rate.

    Args:
        rate: tokens per second, at least 1.
        now: a monotonic clock, in seconds.
    """

    __slots__ = ("__weakref__", "_capacity", "_now", "_rate", "_tokens", "_updated_at")

    def __init__(self, rate: int, now: Callable[[], float]) -> None:
        self._rate = rate
        self._capacity = float(rate * BURST)
        self._now = now
        self._tokens = self._capacity
        self._updated_at = now()

    def take(self) -> float:
        """Take a token if there is one.

        Returns:
            0, or the seconds until there will be a token; then none was taken.
        """
        now = self._now()
        tokens = self._tokens + (now - self._updated_at) * self._rate
        if tokens > self._capacity:
            tokens = self._capacity
        self._updated_at = now
        if tokens < 1:
            # A refused request takes nothing, so a client that retries too fast does not wait longer.
            self._tokens = tokens
            return (1 - tokens) / self._rate
        self._tokens = tokens - 1
        return 0.0


class RateLimits:
    """Assigns buckets to keys.

    A key that was made with an instance key shares the bucket of the key from which it descends; otherwise
    making keys would multiply the limit. Each global key has its own bucket.

    Args:
        instance_rate: requests per second of an instance key; 0 for no limit.
        global_rate: requests per second of a global key; 0 for no limit.
        now: a monotonic clock, in seconds.
    """

    def __init__(self, instance_rate: int, global_rate: int, now: Callable[[], float]) -> None:
        self._instance_rate = instance_rate
        self._global_rate = global_rate
        self._now = now
        # Weak: a bucket lives as long as a key that has it, and needs no removal when keys are revoked.
        self._buckets: WeakValueDictionary[tuple[str | None, str], TokenBucket] = WeakValueDictionary()

    def bucket(self, instance: str | None, group: str) -> TokenBucket | None:
        """Return the bucket that the keys of a group share, or ``None`` if there is no limit.

        Args:
            instance: the keys' instance; ``None`` for global keys.
            group: the name of the key from which they descend.
        """
        rate = self._global_rate if instance is None else self._instance_rate
        if rate == 0:
            return None
        return self._buckets.setdefault((instance, group), TokenBucket(rate, self._now))
