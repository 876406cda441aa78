"""Reading the outbox: where the disk may refuse for a while, and where the clock was set meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from hookgw.models.deliveries import Delivery
from hookgw.models.errors import StorageUnavailable

FIRST_WAIT = 0.5
LAST_WAIT = 10.0
"""The wait, in seconds, before the disk is tried again: doubled from the first up to the last."""

T = TypeVar("T")


async def retry_until_readable(
    read: Callable[[], Awaitable[T]], paused: Callable[[StorageUnavailable], None]
) -> T:
    """What ``read`` returns, however long the disk refuses.

    Args:
        read: reads from the store.
        paused: called with the reason before each wait.
    """
    wait = FIRST_WAIT
    while True:
        try:
            return await read()
        except StorageUnavailable as error:
            paused(error)
        await trio.sleep(wait)
        wait = min(2 * wait, LAST_WAIT)


def clamp_to_clock(delivery: Delivery, now: float, longest_wait: Callable[[str], float]) -> None:
    """Bring times of a delivery that lie too far ahead back to what they can be at most.

    Times on disk are the machine's. Where its clock was set back while hookgw was down, they lie ahead by
    as much: a retry would come late by that, and an event would be kept longer.

    Args:
        delivery: as it was read; it is changed.
        now: by the steady clock.
        longest_wait: the longest wait there can be between two attempts for a registration, by its id.
    """
    if delivery.queued_at > now:
        delivery.queued_at = now
    if delivery.next_at > now:
        delivery.next_at = min(delivery.next_at, now + longest_wait(delivery.registration))
