"""Changes that complete once they have started, even if the caller is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import trio

from hookgw.concurrency.light import in_task
from hookgw.kernel.errors import Unavailable

P = ParamSpec("P")
_T = TypeVar("_T")

DEADLINE = 30.0
"""Seconds after which an uninterruptible change fails."""


def completes(change: Callable[P, Awaitable[_T]]) -> Callable[P, Awaitable[_T]]:
    """Shield a method from the cancellation of its caller.

    When a client disconnects, its handler is cancelled. A change that is cut off half-way would leave
    different records in memory and on disk.

    Raises:
        Unavailable: the change took longer than :data:`DEADLINE`. It may be incomplete; repeat it.
    """

    @wraps(change)
    async def shielded(*args: P.args, **kwargs: P.kwargs) -> _T:
        await in_task()
        try:
            # Bounded, because a shield without a deadline would block the shutdown over a disk that hangs.
            with trio.fail_after(DEADLINE, shield=True):
                return await change(*args, **kwargs)
        except trio.TooSlowError:
            raise Unavailable.of(
                "change.not_completed",
                "The change did not complete within {seconds:g} s; repeat it.",
                seconds=DEADLINE,
            ) from None

    return shielded
