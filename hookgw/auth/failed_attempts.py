"""Failed attempts to show a key, limited per source address: in memory, and bounded. No I/O.

Once an address has failed too often, it has to wait for the end of a window. Meanwhile a right key from
there is refused like a wrong one, or the limit would be none: a guesser could go on and look for the one
guess that is not refused. The exception are keys that were used from that address before. So one program with
a wrong key does not lock out the others that share its address (a household, a container network, a
proxy); what a guesser behind the same address gains is that he can go on to guess those few keys.

What is tried while the address waits does not count, and does not make it wait longer: each window
begins with room for keys that were not seen there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import structlog

from hookgw.auth.client_address import rate_limit_key
from hookgw.auth.keyring import KeyHolder
from hookgw.models.errors import TooManyRequests

logger = structlog.get_logger("hookgw.attempts")

MAX_SOURCES = 10_000
"""The most addresses that are counted at once. Beyond it the oldest window is forgotten: who has so many
addresses has as many windows anyway."""
_source_of = lru_cache(maxsize=1024)(rate_limit_key)
"""Requests come from the same addresses again and again, and reading one costs more than all else here."""


class _Window:
    """Counts the failures of one source until a time."""

    __slots__ = ("failures", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.failures = 0


class FailedKeyLimiter:
    """The failures of each source address.

    Args:
        limit: how many an address may have in a window.
        window: its length in seconds, from the first failure.
        now: a clock that does not jump, in seconds.
    """

    def __init__(self, limit: int, window: float, now: Callable[[], float]) -> None:
        self._limit = limit
        self._length = window
        self._now = now
        self._windows: dict[str, _Window] = {}
        """The oldest first, since all are equally long."""

    def check(self, address: str, holder: KeyHolder | None) -> None:
        """Take note of an attempt.

        Args:
            address: where it came from: an IP address.
            holder: whose key was shown; ``None`` for nobody's.

        Raises:
            TooManyRequests: that address has failed too often, and the key was not used from there before.
        """
        source = _source_of(address)
        if holder is not None and source in holder.sources:
            return
        window = self._windows.get(source)
        if window is not None and window.failures >= self._limit and (wait := window.until - self._now()) > 0:
            raise TooManyRequests("Too many wrong keys came from this address; wait.", retry_after=wait)
        if holder is None:
            self._count(source, window)
        else:
            holder.note_used_from(source)

    def _count(self, source: str, window: _Window | None) -> None:
        now = self._now()
        if window is None or window.until <= now:
            self._windows.pop(source, None)
            self._make_room(now)
            window = self._windows[source] = _Window(now + self._length)
        window.failures += 1
        if window.failures == self._limit:
            logger.warning("too many wrong keys", source=source, seconds=round(window.until - now))

    def _make_room(self, now: float) -> None:
        """Forget the windows that are over, and the oldest of all where there are too many."""
        while self._windows:
            source, oldest = next(iter(self._windows.items()))
            if oldest.until > now and len(self._windows) < MAX_SOURCES:
                return
            del self._windows[source]
