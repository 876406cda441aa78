"""Keeps the history, the ids of older events, and the audit within their bounds."""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.config.settings import EventsSettings, StorageSettings
from hookgw.core.audit import MOST_OF_INSTANCE
from hookgw.kernel.errors import StorageUnavailable
from hookgw.store import Store

logger = structlog.get_logger("hookgw.background")

PRUNE_EVERY = 60.0
"""Seconds between two looks at the age and the size of the history."""


async def prune_history(
    store: Store,
    clock: Clock,
    storage: StorageSettings,
    events: EventsSettings,
    is_responsible: Callable[[], bool],
) -> None:
    """Keep the history within ``storage.retention`` and ``storage.history_limit``, until cancelled.

    Events that no registration wants are kept as long, within ``events.log_limit``. Ids of events are kept
    for ``events.dedupe``, within ``events.dedupe_limit``, and entries of the audit for ``storage.audit``. One
    node is responsible at a time.
    """
    while True:
        # Not at once: a start has better things to do with the disk.
        with trio.move_on_after(PRUNE_EVERY):
            await store.wait_log_growth()
        if not is_responsible():
            continue
        try:
            now = clock.steady()
            await store.enforce_retention(
                before=now - storage.retention,
                limit=storage.history_limit,
                ids_before=now - events.dedupe,
                ids_limit=events.dedupe_limit,
                log_limit=events.log_limit,
            )
            await store.prune_audit(before=now - storage.audit, most=MOST_OF_INSTANCE)
        except StorageUnavailable as error:
            logger.warning("pruning failed; it is repeated later", reason=str(error))
