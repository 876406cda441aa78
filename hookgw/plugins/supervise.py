"""Running code of plugins for as long as the gateway is open: started again where it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from hookgw.models.errors import PluginFailed
from hookgw.plugins.hook_implementation import PLUGIN_ERRORS, reason_of

logger = structlog.get_logger("hookgw.plugins")

WAITS = (1.0, 2.0, 5.0, 15.0, 60.0)
"""How long it rests after its first failure, its second, and so on, in seconds; the last one stays."""


async def restart_on_failure(
    run: Callable[[], Awaitable[object]], failed: Callable[[BaseException], Awaitable[None]]
) -> None:
    """Run something until it returns; start it again, after a wait that grows, where it raises.

    A run that lasted longer than the longest wait was a good one: the row of waits begins anew.

    Args:
        run: code of a plugin. What it raises is its own fault and is not raised here.
        failed: hears what it raised, before the wait.
    """
    waits = iter(WAITS)
    while True:
        began = trio.current_time()
        error = await run_once(run)
        if error is None:
            return
        if trio.current_time() - began > WAITS[-1]:
            waits = iter(WAITS)
        await failed(error)
        await trio.sleep(next(waits, WAITS[-1]))


async def run_once(run: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Run code of a plugin once.

    Cancellation passes through, also where it comes in a group with failures: those are logged.

    Returns:
        What it raised; ``None`` where it returned.
    """
    try:
        await run()
    except PLUGIN_ERRORS as error:
        return error
    except BaseExceptionGroup as group:
        own, rest = group.split(PLUGIN_ERRORS)
        if rest is None:
            return own
        if own is not None:
            logger.exception("a plugin's code failed while it was cancelled", exc_info=own)
        raise rest from None
    return None


async def keep_running(
    plugin: str, run: Callable[[], Awaitable[None]], on_failure: Callable[[PluginFailed], None]
) -> None:
    """Run a plugin's background task until it returns. If it raises, restart it after a growing wait.

    Args:
        plugin: the plugin's name.
        run: its ``hookgw_run``.
        on_failure: called with each failure, for counting.
    """

    async def failed(error: BaseException) -> None:
        logger.error("background task failed", plugin=plugin, exc_info=error)
        on_failure(PluginFailed(plugin, "hookgw_run", reason_of(error)))

    await restart_on_failure(run, failed)
