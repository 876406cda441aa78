"""Restarts a plugin's long-lived code after a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from hookgw.kernel.errors import PluginFailed

WAITS = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds between a failure and the restart, for consecutive failures; the last value repeats."""


async def restart_on_failure(
    run: Callable[[], Awaitable[object]], on_failure: Callable[[PluginFailed, float], Awaitable[None]]
) -> None:
    """Run a function until it returns. If it fails, run it again after a growing wait.

    Args:
        run: calls a plugin's code through the boundary, which reports failures.
        on_failure: called before each wait with the failure and the seconds of the wait; its exceptions pass.
    """
    waits = iter(WAITS)
    while True:
        started = trio.current_time()
        try:
            await run()
        except PluginFailed as failure:
            # A run that outlasted the longest wait did its work: a failure a week later must not wait a
            # minute.
            if trio.current_time() - started > WAITS[-1]:
                waits = iter(WAITS)
            wait = next(waits, WAITS[-1])
            await on_failure(failure, wait)
        else:
            return
        await trio.sleep(wait)
