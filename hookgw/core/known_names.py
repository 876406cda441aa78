"""Keeps the names of receivers that were fast to look up, for the next start.

Otherwise all names would be new after a start, and one tenant's silent names would delay the first lookups of
all others. Kept names use the threads for known names at once (:mod:`hookgw.delivery.http.resolver`). Only
names are kept, no addresses, and only as long as a registration has them. The nodes of a fleet share the
list. A kill loses the names learned since the last write: they are new once more.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
import structlog
import trio

from hookgw.core.registry import Registry
from hookgw.delivery.http.resolver import SystemResolver
from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.target_url import parse_destination
from hookgw.store import Records

logger = structlog.get_logger("hookgw.outbound")

KEEP_EVERY = 300.0
"""Seconds between two writes, if something has changed."""
MOST_KEPT = 10_000
"""Names that are kept; the last ones to be looked up go first."""
KEY = "known_names"
_PARSED_AT_ONCE = 200
"""Registrations that are looked at without a checkpoint, so that other tasks run in between."""


class KnownNames:
    """Keeps names in the storage, encrypted as all records are if there is a master key."""

    def __init__(self, resolver: SystemResolver, store: Records, registry: Registry) -> None:
        self._resolver = resolver
        self._store = store
        self._registry = registry

    async def load(self) -> None:
        self._resolver.expected = frozenset(await self._stored())

    async def run(self) -> None:
        """Keep the names until cancelled; store them now and then, and at the end."""
        try:
            while True:
                await trio.sleep(KEEP_EVERY)
                await self._keep()
        finally:
            with trio.move_on_after(1, shield=True):
                await self._keep()

    async def _keep(self) -> None:
        registered: set[str] = set()
        for number, registration in enumerate(self._registry.registrations()):
            with suppress(ValueError):  # the URL of a disabled registration may be any text
                registered.add(parse_destination(registration.url).host)
            if number % _PARSED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        try:
            stored = await self._stored()
            speeds = self._resolver.was_fast
            fast = [name for name in reversed(speeds) if speeds[name]]
            # This node does not know the names that other nodes look up, or that had no event in this run.
            fast += [name for name in stored if name not in speeds]
            kept = sorted([name for name in fast if name in registered][:MOST_KEPT])
            self._resolver.expected = frozenset(kept)
            if kept != stored:
                await self._store.put_value(KEY, kept)
        except StorageUnavailable as error:
            logger.warning("known names not stored", reason=str(error))

    async def _stored(self) -> list[str]:
        with suppress(msgspec.ValidationError):  # of another version: the names are new once more
            return msgspec.convert(await self._store.get_value(KEY) or [], list[str])
        return []
