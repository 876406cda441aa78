"""How much of the server the requests of one instance may take at a time: in memory. No I/O.

The limits of the whole server are everybody's. Without these, who has the keys of one instance could take all
of it, with requests that wait for a slow receiver (tests), or with large bodies that never end.
"""

from __future__ import annotations

from collections.abc import Callable

from hookgw.models.errors import TooManyRequests
from hookgw.models.units import Size

_SOON = 1.0


class RequestQuota:
    """What the requests under way take, by instance.

    Args:
        requests: the most that one instance may have under way, from the check of the key to the end of
            the answer.
        size: the most bytes that their bodies may have together, as far as they have come.
        limited: called with the name of the limit for each request that one refuses.
    """

    def __init__(self, requests: int, size: int, limited: Callable[[str], None]) -> None:
        self._requests = requests
        self._size = size
        self._limited = limited
        self._taken: dict[str, tuple[int, int]] = {}

    def enter(self, instance: str) -> QuotaLease:
        """One more request with a key of that instance.

        Returns:
            Its part; whoever asked for it leaves it.

        Raises:
            TooManyRequests: there are enough.
        """
        requests, size = self._taken.get(instance, (0, 0))
        if requests >= self._requests:
            raise self._too_many(f"{self._requests:,} requests of this instance are under way")
        self._taken[instance] = (requests + 1, size)
        return QuotaLease(self, instance)

    def grow(self, instance: str, by: int) -> None:
        """The body of a request has grown.

        Raises:
            TooManyRequests: all of them together are too large now; it counts all the same.
        """
        requests, size = self._taken[instance]
        self._taken[instance] = (requests, size + by)
        if size + by > self._size:
            raise self._too_many(f"{Size(self._size)} of bodies of this instance are under way")

    def leave(self, instance: str, size: int) -> None:
        """A request has ended whose body had that size."""
        requests, total = self._taken.pop(instance)
        if requests > 1:
            self._taken[instance] = (requests - 1, total - size)

    def _too_many(self, what: str) -> TooManyRequests:
        self._limited("instance_share")
        return TooManyRequests(f"{what}, which is the most; wait.", retry_after=_SOON)


class QuotaLease:
    """One request's part. Made by :meth:`RequestQuota.enter`."""

    __slots__ = ("_instance", "_shares", "_size")

    def __init__(self, shares: RequestQuota, instance: str) -> None:
        self._shares = shares
        self._instance = instance
        self._size = 0

    def hold(self, size: int) -> None:
        """So much of its body is there now.

        Raises:
            TooManyRequests: see :meth:`RequestQuota.grow`.
        """
        by, self._size = size - self._size, size
        self._shares.grow(self._instance, by)

    def leave(self) -> None:
        """The request has ended."""
        self._shares.leave(self._instance, self._size)
