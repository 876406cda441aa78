"""Retries reads that the disk refuses: the lane waits, and nothing else ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from hookgw.kernel.errors import StorageUnavailable

FIRST_WAIT = 0.5
LAST_STORE_WAIT = 10.0
"""Seconds before the disk is tried again: doubled from the first wait up to the last."""

T = TypeVar("T")


async def retry_until_readable(
    read: Callable[[], Awaitable[T]], refused: Callable[[StorageUnavailable], None]
) -> T:
    """Return what ``read`` returns, retrying while it raises ``StorageUnavailable``.

    Args:
        refused: called with the first reason, and with each that is another one. Callers log it, and
            thousands of lanes may wait for one disk.
    """
    wait, told = FIRST_WAIT, ""
    while True:
        try:
            return await read()
        except StorageUnavailable as error:
            if str(error) != told:
                told = str(error)
                refused(error)
        await trio.sleep(wait)
        wait = min(2 * wait, LAST_STORE_WAIT)
