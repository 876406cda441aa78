"""Keeps on disk until when sessions have everything of their networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import structlog
import trio

from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.errors import StorageUnavailable
from hookgw.store import Store

STORE_EVERY = 15.0
"""Seconds between two writes. After a kill, a connector asks for that much more than it has missed."""

logger = structlog.get_logger("hookgw.connector")


class CoverageStore:
    """Stores the coverage of sessions.

    Args:
        sessions: of the connectors that run, by instance.
    """

    def __init__(self, store: Store, sessions: Mapping[str, ConnectorSession]) -> None:
        self._store = store
        self._sessions = sessions
        self._stored: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Store what has changed again and again, until cancelled."""
        while True:
            await trio.sleep(STORE_EVERY)
            await self.store()

    async def store(self) -> None:
        found = {one.instance_id: one.coverage.until for one in self._sessions.values()}
        known = {instance: until for instance, until in found.items() if until is not None}
        changed = {
            instance: until for instance, until in known.items() if self._stored.get(instance) != until
        }
        if not changed:
            return
        try:
            await self._store.put_coverage(changed)
        except StorageUnavailable as error:
            logger.debug("coverage not stored yet", reason=str(error))
        else:
            self._stored = known
