"""How many requests a key may make: token buckets, in memory. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

BURST = 2
"""How many seconds' worth of requests may come at once, after a pause."""


class TokenBucket:
    """A token bucket: it starts full, each request takes a token, and they come back at a steady rate.

    Args:
        rate: tokens a second, at least 1.
        now: a clock that does not jump, in seconds.
    """

    __slots__ = ("__weakref__", "_at", "_most", "_now", "_rate", "_tokens")

    def __init__(self, rate: int, now: Callable[[], float]) -> None:
        self._rate = rate
        self._most = float(rate * BURST)
        self._now = now
        self._tokens = self._most
        self._at = now()

    def take(self) -> float:
        """Take a token.

        Returns:
            0, or where there is none, the seconds until there will be one; then none was taken.
        """
        now = self._now()
        tokens = self._tokens + (now - self._at) * self._rate
        if tokens > self._most:
            tokens = self._most
        self._at = now
        if tokens < 1:
            self._tokens = tokens
            return (1 - tokens) / self._rate
        self._tokens = tokens - 1
        return 0.0


class RateLimits:
    """Gives keys their buckets.

    A key that was made with an instance key shares the bucket of the key from which it descends: whoever
    makes more keys for himself gets no more requests by it. Global keys, which may do everything, have one
    each. A bucket lasts as long as a key that has it.

    Args:
        instance_rate: requests a second of an instance key; 0 for no limit.
        global_rate: of a global key, likewise.
        now: a clock that does not jump, in seconds.
    """

    def __init__(self, instance_rate: int, global_rate: int, now: Callable[[], float]) -> None:
        self._instance_rate = instance_rate
        self._global_rate = global_rate
        self._now = now
        self._buckets: WeakValueDictionary[tuple[str | None, str], TokenBucket] = WeakValueDictionary()

    def bucket(self, instance: str | None, group: str) -> TokenBucket | None:
        """The bucket of the keys of a group.

        Args:
            instance: whose keys; ``None`` for global ones.
            group: the name of the key from which they descend, or of the only one.

        Returns:
            It; ``None`` where there is no limit.
        """
        rate = self._global_rate if instance is None else self._instance_rate
        if rate == 0:
            return None
        return self._buckets.setdefault((instance, group), TokenBucket(rate, self._now))
