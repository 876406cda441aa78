"""Reads of the outbox: retried while the disk refuses, and corrected if the clock was set back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from hookgw.models.deliveries import Delivery
from hookgw.models.errors import StorageUnavailable

FIRST_WAIT = 0.5
LAST_WAIT = 10.0
"""Seconds before the disk is tried again: doubled from the first wait up to the last."""

T = TypeVar("T")


async def retry_until_readable(
    read: Callable[[], Awaitable[T]], refused: Callable[[StorageUnavailable], None]
) -> T:
    """Return what ``read`` returns, however long the disk refuses.

    Args:
        read: reads from the store, or changes it.
        refused: called with the reason before each wait.
    """
    wait = FIRST_WAIT
    while True:
        try:
            return await read()
        except StorageUnavailable as error:
            refused(error)
        await trio.sleep(wait)
        wait = min(2 * wait, LAST_WAIT)


def clamp_to_clock(delivery: Delivery, now: float, longest_wait: Callable[[], float]) -> None:
    """Bring times of a delivery that lie too far ahead back to the latest they can be.

    Times on disk are wall times. If the machine's clock was set back while hookgw was down, they lie ahead by
    as much: a retry would come late by that, and an event would be kept longer.

    Args:
        delivery: as it was read; it is changed.
        now: by the steady clock.
        longest_wait: returns the longest wait between two attempts, in seconds.
    """
    if delivery.queued_at > now:
        delivery.queued_at = now
    if delivery.next_at > now:
        delivery.next_at = min(delivery.next_at, now + longest_wait())
