"""The memory for responses that clients have yet to read: one budget for all of them, which holders share.

A request whose response may be long reserves room before its work starts, and waits for it in line: in
turn among holders, then among the requests of a holder. Once the response is made, it keeps what that needs,
until the client's system has taken the bytes. What no request reserved (the response to a change, which must
not be refused any more) counts as far as it fits: other requests of the holder wait for it, and not those of
others. How much that can be, the limits of the requests in progress and of their bodies say.

A holder is the instance that a key belongs to, a global key, or for a request without a key its address.
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

SMALL = 16 * 1024
"""Responses of at most this many bytes count nothing: those of ``server.max_requests`` are 16 MiB."""
LIST = 2 * 2**20
"""The bytes of a list, after which it ends with its cursor."""
ENTRY = 32 * 1024
"""The bytes of a long entry of a list: an answer of 4 KiB is up to six times as long in JSON."""
PAGE = 256 * 1024
"""The bytes of a page of the dashboard."""
ONE = 64 * 1024
"""The bytes of one object. A plugin's route, which does not say how much it will be, reserves as many."""
PATIENCE = 10.0
"""Seconds that a request waits for room; then it gets 503."""
_RETRY_AFTER = 5.0

# A holder may have as much as it leaves free: half of it, if it is alone. A slow client holds a response for
# as long as server.write_timeout, so a quarter is for those who have little: no more than one list.
_RATIO = 1
_RESERVED = 4


class ResponseMemory:
    """Counts the bytes of responses that are in memory.

    Args:
        limit: the budget in bytes.
        on_limited: called with the name of the limit for each request that it refuses.
    """

    def __init__(self, limit: int, on_limited: Callable[[str], None]) -> None:
        self._share: Share[WaitingClaim] = Share(limit, _RATIO, _RESERVED, LIST)
        self._on_limited = on_limited

    @property
    def used(self) -> int:
        """The bytes that are reserved or in memory."""
        return self._share.used

    def fits(self, holder: str, size: int) -> bool:
        """Return whether there is room."""
        return self._share.fits(holder, size)

    def room(self, holder: str) -> int:
        """Return how many bytes a holder may have in addition; 0 and up."""
        return max(0, self._share.room(holder))

    def reserve_nowait(self, holder: str, size: int) -> bool:
        """Reserve room if there is some, and return whether there was."""
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
        """Return the error for a request of a holder for which there is no room, and count it."""
        self._on_limited("response_memory")
        return Unavailable(
            f"The response has no room: {holder} has {self._share.held(holder) / 2**20:.1f} MiB of responses "
            f"that clients have yet to read, and all together have {self._share.used / 2**20:.1f} MiB of "
            f"{Size(self._share.total)} (server.response_memory). Nothing was done; retry later.",
            retry_after=_RETRY_AFTER,
        )

    def change(self, holder: str, before: int, now: int) -> None:
        """Count other bytes for a holder than before, whether or not there is room for them."""
        if now > before:
            self._share.take(holder, now - before)
        elif now < before:
            self._share.give(holder, before - now)


def holder_of(key: KeyHolder | None, client: tuple[Any, ...] | None) -> str:
    """Return who holds the memory for the response to a request with a key, or from an address (ASGI)."""
    if key is not None:
        instance = key.principal.instance
        return f"instance {instance}" if instance is not None else f"key {key.key.name}"
    return f"address {rate_limit_key(client[0])}" if client else "no address"
