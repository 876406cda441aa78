"""Run a plugin's long-lived code: contain what it raises, and restart it after a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from hookgw.models.errors import PluginFailed
from hookgw.plugins.hook_implementation import PLUGIN_ERRORS, reason_of

logger = structlog.get_logger("hookgw.plugins")

WAITS = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds between a failure and the restart, for consecutive failures; the last value repeats."""


async def restart_on_failure(
    run: Callable[[], Awaitable[object]], on_failure: Callable[[BaseException], Awaitable[None]]
) -> None:
    """Run a function until it returns. If it raises, run it again after a growing wait.

    Args:
        run: a plugin's code. Its exceptions are not raised here; cancellation is.
        on_failure: called with the exception, before the wait. What it raises is raised here.
    """
    waits = iter(WAITS)
    while True:
        started = trio.current_time()
        error = await run_once(run)
        if error is None:
            return
        # A run that outlasted the longest wait did its work: a failure a week later must not wait a minute.
        if trio.current_time() - started > WAITS[-1]:
            waits = iter(WAITS)
        await on_failure(error)
        await trio.sleep(next(waits, WAITS[-1]))


async def run_once(run: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Run a plugin's code once.

    Cancellation passes through. If a group contains both cancellation and failures, the failures are logged.

    Returns:
        The exception that it raised, or ``None`` if it returned.
    """
    try:
        await run()
    except PLUGIN_ERRORS as error:
        return error
    except BaseExceptionGroup as group:
        # A cancelled nursery raises its cancellation and the failures of its tasks' cleanup as one group. The
        # cancellation must reach its scope, and a shutdown is no reason to restart.
        failures, rest = group.split(PLUGIN_ERRORS)
        if rest is None:
            return failures
        if failures is not None:
            logger.exception("plugin failed during cancellation", exc_info=failures)
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
