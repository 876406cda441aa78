"""The requests in progress of one instance, which have a limit. No I/O.

The server's own limits are shared by all. Without a quota, the holder of one instance's keys could use them
up, with requests that wait for a slow receiver (test events).
"""

from __future__ import annotations

from collections.abc import Callable

from hookgw.fair import PerHolder
from hookgw.kernel.errors import TooManyRequests

_RETRY_AFTER = 1.0


class RequestQuota(PerHolder[str]):
    """Counts the requests in progress by instance, from the check of the key to the end of the response.

    Args:
        most: the most requests of one instance.
        on_limited: called with the name of the limit for each refused request.
    """

    __slots__ = ("_most", "_on_limited")

    def __init__(self, most: int, on_limited: Callable[[str], None]) -> None:
        super().__init__()
        self._most = most
        self._on_limited = on_limited

    def enter(self, instance: str) -> None:
        """Count a new request with a key of this instance; :meth:`give` it back when the request ends.

        Raises:
            TooManyRequests: the instance has as many requests in progress as allowed.
        """
        if not self.take_within(instance, 1, self._most):
            self._on_limited("instance_share")
            raise TooManyRequests.of(
                "instance.too_many_requests",
                "{most:,} requests of this instance are in progress, the maximum. Retry later.",
                most=self._most,
                retry_after=_RETRY_AFTER,
            )
