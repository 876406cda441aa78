"""What runs beside the lanes for as long as the gateway is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from hookgw.config.settings import StorageSettings
from hookgw.gateway.metrics import Metrics
from hookgw.models.clock import Clock
from hookgw.models.errors import PluginFailed, StorageUnavailable
from hookgw.plugins.hook_implementation import reason_of
from hookgw.plugins.supervise import restart_on_failure
from hookgw.store import Store

logger = structlog.get_logger("hookgw.background")

_PRUNE_EVERY = 60.0
_PRUNE_STEP = 200
_PRUNE_REST = 0.01
"""Between two steps, so that pruning holds commits up for a few milliseconds at most, and still keeps
pace with 10,000 deliveries a second."""


async def keep_pruning(store: Store, clock: Clock, settings: StorageSettings) -> None:
    """Keep the history within its bounds of age and size, a few deliveries at a time, for ever."""
    while True:
        await trio.sleep(_PRUNE_EVERY)
        try:
            await _prune(store, clock.steady() - settings.retention)
            await _shrink(store, clock.steady(), settings.history_limit)
        except StorageUnavailable as error:
            logger.warning("pruning failed", reason=str(error))


async def _prune(store: Store, before: float) -> None:
    """Remove what finished before a time."""
    removed = _PRUNE_STEP
    while removed:
        removed = await store.prune(before, _PRUNE_STEP)
        await trio.sleep(_PRUNE_REST)


async def _shrink(store: Store, now: float, limit: int) -> None:
    """Remove what is oldest, until the history takes no more than so many bytes."""
    if await store.used_bytes() <= limit:
        return
    limit += await store.needed_bytes()
    removed = _PRUNE_STEP
    while removed and await store.used_bytes() > limit:
        removed = await store.prune(now, _PRUNE_STEP)
        await trio.sleep(_PRUNE_REST)


async def keep_running(plugin: str, run: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
    """Run a plugin's background task until it returns; start it again, ever later, where it raises."""

    async def failed(error: BaseException) -> None:
        logger.error("background task failed", plugin=plugin, exc_info=error)
        metrics.plugin_failed(PluginFailed(plugin, "hookgw_run", reason_of(error)))

    await restart_on_failure(run, failed)
