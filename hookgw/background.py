"""What runs beside the lanes for as long as the gateway is open."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import structlog
import trio

from hookgw.clock import Clock
from hookgw.errors import PluginFailed, StorageUnavailable
from hookgw.metrics import Metrics
from hookgw.store import Store

logger = structlog.get_logger("hookgw.background")

_PRUNE_EVERY = 60.0
_PRUNE_STEP = 500
_PRUNE_REST = 0.05
"""Between two steps, so that pruning never holds up commits for long."""
_RESTART_WAITS = (1.0, 2.0, 5.0, 15.0, 60.0)


async def keep_pruning(store: Store, clock: Clock, retention: float) -> None:
    """Remove finished deliveries that are older than ``retention`` seconds, a few at a time, for ever."""
    while True:
        await trio.sleep(_PRUNE_EVERY)
        try:
            await _prune(store, clock.steady() - retention)
        except StorageUnavailable as error:
            logger.warning("pruning failed", reason=str(error))


async def _prune(store: Store, before: float) -> None:
    removed = _PRUNE_STEP
    while removed:
        removed = await store.prune(before, _PRUNE_STEP)
        await trio.sleep(_PRUNE_REST)


async def keep_running(plugin: str, run: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
    """Run a plugin's background task until it returns; start it again, ever later, where it raises."""
    for attempt in itertools.count():
        try:
            await run()
        except Exception as error:
            logger.exception("background task failed", plugin=plugin)
            metrics.plugin_failed(PluginFailed(plugin, "hookgw_run", str(error) or type(error).__name__))
            await trio.sleep(_RESTART_WAITS[min(attempt, len(_RESTART_WAITS) - 1)])
        else:
            return
