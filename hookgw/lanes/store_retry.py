"""Retries reads that the disk refuses: the lane waits, and nothing else ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
import trio

from hookgw.kernel.errors import StorageUnavailable

FIRST_WAIT = 0.5
LAST_STORE_WAIT = 10.0
"""Seconds before the disk is tried again: doubled from the first wait up to the last."""

T = TypeVar("T")

logger = structlog.get_logger("hookgw.store")


async def retry_until_readable(
    read: Callable[[], Awaitable[T]], refused: Callable[[StorageUnavailable], None]
) -> T:
    """Return what ``read`` returns, retrying while it raises ``StorageUnavailable``.

    Args:
        refused: called with the first reason, and with each that is another one, such as
            :func:`log_refusal`. Thousands of lanes may wait for one disk, and each must not log it.
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


def log_refusal(work: str, **context: str) -> Callable[[StorageUnavailable], None]:
    """Return what logs that some work waits for the disk, and why."""
    return lambda error: logger.warning(f"{work} waits for the disk", **context, reason=str(error))
