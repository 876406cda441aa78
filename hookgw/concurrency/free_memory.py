"""Gives memory that is free back to the system."""

from __future__ import annotations

import ctypes

import trio

TRIM_EVERY = 60.0
"""Seconds between two times."""


async def give_back_memory() -> None:
    """Do so again and again, until cancelled; nothing on systems whose C library cannot."""
    # After a load, a tenth of the process is free and stays with it: between blocks in use, where the C
    # library does not look by itself. Looking takes it a millisecond.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await trio.sleep(TRIM_EVERY)
        trim(0)
