"""What runs beside the lanes for as long as the gateway is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from hookgw.clock import Clock
from hookgw.errors import PluginFailed, StorageUnavailable
from hookgw.metrics import Metrics
from hookgw.plugins.implementation import reason_of
from hookgw.restarting import keep_trying
from hookgw.store import Store

logger = structlog.get_logger("hookgw.background")

_PRUNE_EVERY = 60.0
_PRUNE_STEP = 500
_PRUNE_REST = 0.05
"""Between two steps, so that pruning never holds up commits for long."""


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

    async def failed(error: BaseException) -> None:
        logger.error("background task failed", plugin=plugin, exc_info=error)
        metrics.plugin_failed(PluginFailed(plugin, "hookgw_run", reason_of(error)))

    await keep_trying(run, failed)
