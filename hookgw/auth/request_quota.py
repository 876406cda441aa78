"""Quotas on the requests in progress of one instance: in memory. No I/O.

The server's own limits are shared by all. Without a quota, the holder of one instance's keys could use them
up: with requests that wait for a slow receiver (test events), or with large bodies that never end.
"""

from __future__ import annotations

from collections.abc import Callable

from hookgw.fair import PerHolder
from hookgw.models.errors import TooManyRequests
from hookgw.models.units import Size

_RETRY_AFTER = 1.0


class RequestQuota:
    """Counts the requests in progress and the size of their bodies, by instance.

    Args:
        requests: the most requests of one instance, from the check of the key to the end of the response.
        size: the most bytes of their bodies together, as far as received.
        on_limited: called with the name of the limit for each request that it refuses.
    """

    def __init__(self, requests: int, size: int, on_limited: Callable[[str], None]) -> None:
        self._requests = requests
        self._size = size
        self._on_limited = on_limited
        self._in_progress = PerHolder[str]()
        self._received = PerHolder[str]()

    def enter(self, instance: str) -> QuotaLease:
        """Count a new request with a key of this instance.

        Returns:
            A lease; the caller must call its ``leave`` when the request ends.

        Raises:
            TooManyRequests: the instance has as many requests in progress as it may.
        """
        if self._in_progress.held(instance) >= self._requests:
            raise self._too_many(f"{self._requests:,} requests of this instance are in progress")
        self._in_progress.take(instance)
        return QuotaLease(self, instance)

    def grow(self, instance: str, by: int) -> None:
        """Count more bytes of a request's body.

        Raises:
            TooManyRequests: the bodies of the instance are too large together. The bytes are counted all
                the same, because they are in memory until the request ends.
        """
        if by:
            self._received.take(instance, by)
        if self._received.held(instance) > self._size:
            raise self._too_many(f"{Size(self._size)} of request bodies of this instance are in progress")

    def leave(self, instance: str, size: int) -> None:
        """Stop counting a request with a body of this size."""
        self._in_progress.give(instance)
        if size:
            self._received.give(instance, size)

    def _too_many(self, reason: str) -> TooManyRequests:
        self._on_limited("instance_share")
        return TooManyRequests(f"{reason}, the maximum. Retry later.", retry_after=_RETRY_AFTER)


class QuotaLease:
    """The share of one request. Made by :meth:`RequestQuota.enter`."""

    __slots__ = ("_instance", "_quota", "_size")

    def __init__(self, quota: RequestQuota, instance: str) -> None:
        self._quota = quota
        self._instance = instance
        self._size = 0

    def hold(self, size: int) -> None:
        """Set the bytes of the body received so far.

        Raises:
            TooManyRequests: see :meth:`RequestQuota.grow`.
        """
        by, self._size = size - self._size, size
        self._quota.grow(self._instance, by)

    def leave(self) -> None:
        """End the lease, once."""
        self._quota.leave(self._instance, self._size)
