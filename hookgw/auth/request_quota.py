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

    Attributes:
        requests, size: as given.
        in_progress: requests, by instance.
        received: bytes of their bodies, by instance.
    """

    def __init__(self, requests: int, size: int, on_limited: Callable[[str], None]) -> None:
        self.requests = requests
        self.size = size
        self.in_progress = PerHolder[str]()
        self.received = PerHolder[str]()
        self._on_limited = on_limited

    def enter(self, instance: str) -> QuotaLease:
        """Count a new request with a key of this instance.

        Returns:
            A lease; the caller must call its ``leave`` when the request ends.

        Raises:
            TooManyRequests: the instance has as many requests in progress as it may.
        """
        if self.in_progress.held(instance) >= self.requests:
            raise self.refuse(f"{self.requests:,} requests of this instance are in progress")
        self.in_progress.take(instance)
        return QuotaLease(self, instance)

    def refuse(self, reason: str) -> TooManyRequests:
        """Return the error for a request that exceeds the quota."""
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
            TooManyRequests: the bodies of the instance are too large together. The bytes are counted all
                the same, because they are in memory until the request ends.
        """
        quota, received = self._quota, self._quota.received
        if size > self._size:
            received.take(self._instance, size - self._size)
            self._size = size
        if received.held(self._instance) > quota.size:
            raise quota.refuse(f"{Size(quota.size)} of request bodies of this instance are in progress")

    def leave(self) -> None:
        """End the lease, once."""
        self._quota.in_progress.give(self._instance)
        if self._size:
            self._quota.received.give(self._instance, self._size)
