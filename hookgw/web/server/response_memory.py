"""One memory budget for all responses that clients have yet to read, which holders share.

A request whose response may be long reserves room before its work starts, and waits for it in line: in turn
among holders, then among the requests of a holder. Once the response is made, it keeps the memory that it
needs, until the client's system has taken the bytes. A response without a reservation (to a change, which
must not be refused any more) counts as far as it fits: other requests of the same holder wait for it, and not
those of others. The limits of requests in progress and of their bodies bound its size.

A holder is the instance of a key, a global key, or the address of a request without a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from hookgw.auth.client_address import rate_limit_key
from hookgw.auth.keyring import KeyHolder
from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.fair import Share
from hookgw.kernel.errors import Unavailable
from hookgw.kernel.units import Size

SMALL_RESPONSE = 16 * 1024
"""Responses of at most this many bytes are not counted: those of ``server.max_requests`` are 16 MiB."""
LIST = 2 * 2**20
"""The bytes of a list, after which it ends with its cursor."""
ENTRY = 32 * 1024
"""The bytes of a long entry of a list: an answer of 4 KiB is up to six times as long in JSON."""
PAGE = 256 * 1024
"""The bytes of a page of the dashboard."""
ONE = 64 * 1024
"""The bytes of one object. A plugin's route, whose need is unknown, reserves as many."""
PATIENCE = 10.0
"""Seconds that a request waits for room; then it gets 503."""
_RETRY_AFTER = 5.0

# A holder may have as much as it leaves free: half of it, if it is alone. A slow client holds a response for
# as long as server.write_timeout, so a quarter is for holders with at most one list.
_RATIO = 1
_RESERVED = 4


class ResponseMemory:
    """Counts the bytes of responses in memory, up to the limit.

    Args:
        on_limited: called with the name of the limit for each refused request.
    """

    def __init__(self, limit: int, on_limited: Callable[[str], None]) -> None:
        self._share: Share[WaitingClaim] = Share(limit, _RATIO, _RESERVED, LIST)
        self._on_limited = on_limited

    @property
    def used(self) -> int:
        return self._share.used

    def fits(self, holder: str, size: int) -> bool:
        return self._share.fits(holder, size)

    def room(self, holder: str) -> int:
        """Return how many more bytes a holder may have, at least 0."""
        return max(0, self._share.room(holder))

    def reserve_nowait(self, holder: str, size: int) -> bool:
        if not self._share.fits(holder, size):
            return False
        self._share.take(holder, size)
        return True

    async def reserve(self, holder: str, size: int) -> None:
        """Wait for room. If this is cancelled, nothing is reserved.

        Raises:
            Unavailable: there was none for :data:`PATIENCE` seconds.
        """
        with trio.move_on_after(PATIENCE):
            await take_in_line(self._share, holder, size)
            return
        raise self.refusal(holder)

    def refusal(self, holder: str) -> Unavailable:
        """Return the error for a holder's request without room, and count it."""
        self._on_limited("response_memory")
        return Unavailable.of(
            "server.response_memory",
            "The response has no room: {holder} has {held:.1f} MiB of responses that clients "
            "have yet to read, and all together have {used:.1f} MiB of {total} "
            "(server.response_memory). Nothing was done; retry later.",
            holder=holder,
            held=self._share.held(holder) / 2**20,
            used=self._share.used / 2**20,
            total=Size(self._share.total),
            retry_after=_RETRY_AFTER,
        )

    def change(self, holder: str, before: int, now: int) -> None:
        """Count ``now`` bytes for a holder instead of ``before``, even without room for them."""
        if now > before:
            self._share.take(holder, now - before)
        elif now < before:
            self._share.give(holder, before - now)


def holder_of(key: KeyHolder | None, client: tuple[Any, ...] | None) -> str:
    """Return the holder of the memory for a response, from the request's key or address (ASGI)."""
    if key is not None:
        counted_as = key.counted_as or f"key {key.key.name}"
        return counted_as if " " in counted_as else f"instance {counted_as}"  # whose names have no space
    return f"address {rate_limit_key(client[0])}" if client else "no address"
