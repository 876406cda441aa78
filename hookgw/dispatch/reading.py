"""Reading the outbox where the disk may refuse for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from hookgw.errors import StorageUnavailable

FIRST_WAIT = 0.5
LAST_WAIT = 10.0
"""The wait, in seconds, before the disk is tried again: doubled from the first up to the last."""

T = TypeVar("T")


async def read_patiently(read: Callable[[], Awaitable[T]], paused: Callable[[StorageUnavailable], None]) -> T:
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
