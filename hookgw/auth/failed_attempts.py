"""Limits failed attempts to show a key, per client address. In memory and bounded. No I/O.

After too many failures, an address has to wait for the end of a window. Keys that were used from that address
before are exempt, so that one program with a wrong key does not lock out the others behind its address (a
household, a container network, a proxy). A guesser behind the same address may go on guessing those few keys,
and gains nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import structlog

from hookgw.auth.client_address import NAME_THE_PROXY, rate_limit_key
from hookgw.auth.keyring import KeyHolder
from hookgw.kernel.errors import TooManyRequests

logger = structlog.get_logger("hookgw.auth")

MAX_FAILING_SOURCES = 10_000
"""Addresses that are counted at once. Beyond it the oldest window is dropped: an attacker with more addresses
has as many windows anyway."""

# The same addresses come again and again, and parsing one costs more than everything else here.
_cached_rate_limit_key = lru_cache(maxsize=1024)(rate_limit_key)


class _Window:
    __slots__ = ("failures", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.failures = 0


class FailedKeyLimiter:
    """Counts the failed attempts of each client address.

    Args:
        limit: failures that an address may have in a window.
        window: seconds from the first failure to the end of the window.
        now: a monotonic clock, in seconds.
        on_limited: called with the name of the limit for each refused attempt.
    """

    def __init__(
        self, limit: int, window: float, now: Callable[[], float], on_limited: Callable[[str], None]
    ) -> None:
        self._limit = self._whole = limit
        self._length = window
        self._now = now
        self._on_limited = on_limited
        # All windows have the same length, so insertion order is the order in which they end.
        self.windows: dict[str, _Window] = {}

    def divide(self, nodes: int) -> None:
        """Divide the limit among the nodes of a fleet, to which an address may show keys in turn."""
        self._limit = max(1, self._whole // nodes)

    def check_address(self, address: str) -> None:
        """Check, without counting an attempt, that an address may show keys that were not used from there.

        Raises:
            TooManyRequests: the address failed too often.
        """
        now, window = self._now(), self.windows.get(_cached_rate_limit_key(address))
        if window is not None and window.failures >= self._limit and (wait := window.until - now) > 0:
            self._on_limited("failed_attempts")
            raise TooManyRequests.of(
                "key.too_many_wrong", "Too many wrong keys from this address. Retry later.", retry_after=wait
            )

    def check(self, address: str, holder: KeyHolder | None) -> None:
        """Count an attempt; without a holder, the key is wrong.

        Raises:
            TooManyRequests: the address failed too often, and the key was not used from there before.
        """
        source = _cached_rate_limit_key(address)
        if holder is not None and source in holder.sources:
            return
        # A right key is refused like a wrong one. Otherwise a guesser could go on, and look for the one guess
        # that is not refused. Refused attempts do not count, so each window has room for a key that is right.
        self.check_address(address)
        if holder is not None:
            holder.note_used_from(source)
            return
        now, window = self._now(), self.windows.get(source)
        if window is None or window.until <= now:
            # Windows that have ended, the former one of this address among them, come first.
            while self.windows:
                oldest_source, oldest = next(iter(self.windows.items()))
                if oldest.until > now and len(self.windows) < MAX_FAILING_SOURCES:
                    break
                del self.windows[oldest_source]
            window = self.windows[source] = _Window(now + self._length)
        window.failures += 1
        if window.failures == self._limit:
            logger.warning(
                "too many wrong keys",
                source=source,
                seconds=round(window.until - now),
                fix=NAME_THE_PROXY,
            )
