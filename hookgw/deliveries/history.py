"""Lists and finds deliveries for clients: a few reads of one instance at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from hookgw.concurrency.light import in_task
from hookgw.core.keyed_locks import KeyedLocks
from hookgw.kernel.errors import NotFound, TooManyRequests
from hookgw.store import (
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    EventPage,
    EventQuery,
    EventReport,
    History,
)

MOST_READS = 2
"""The most reads of one instance at a time."""
MOST_INSTANCES = 100
"""Instances among which an event is searched by its id alone."""
TURN_TIMEOUT = 2.0
"""Seconds for which a further read waits for its turn."""
_RETRY_AFTER = 1.0


class DeliveryHistory:
    """Lists and finds deliveries; :class:`hookgw.store.History` describes each read.

    Reads share the connections to the data file. An instance with many reads at a time would delay the reads
    of all others, so it has :data:`MOST_READS`. The operator's reads are counted apart: a tenant must not
    keep the operator from looking. Too many reads of an instance raise ``TooManyRequests``, and every method
    ``StorageUnavailable`` if the disk refuses.

    Args:
        on_limited: called with the name of the limit for each refused read.
    """

    def __init__(self, store: History, on_limited: Callable[[str], None]) -> None:
        self._store = store
        self._on_limited = on_limited
        self.turns = KeyedLocks(MOST_READS)

    async def list(self, query: DeliveryQuery) -> DeliveryPage:
        """Return a page of an instance's deliveries; raise ``Invalid`` if the cursor is not one of a page."""
        async with self._turn(_holder(query), query.without_global):
            return await self._store.list_deliveries(query)

    async def find(self, instance: str, name: str, *, without_global: bool = False) -> DeliveryReport:
        """Return a delivery, by its id or its event's; raise ``NotFound`` if there is none."""
        async with self._turn(instance, without_global):
            report = await self._store.find_delivery(instance, name, without_global=without_global)
        if report is None:
            raise NotFound.of(
                "delivery.not_found",
                "The instance {instance!r} has no delivery {id!r}.",
                instance=instance,
                id=name[:64],
            )
        return report

    async def instances_of_event(self, event_id: str) -> Collection[str]:
        """Return the names of instances that have an event of this id; at most :data:`MOST_INSTANCES`."""
        async with self._turn("", None):
            return await self._store.instances_of_event(event_id, MOST_INSTANCES)

    async def find_content(self, instance: str, event_id: str) -> tuple[str, bytes] | None:
        async with self._turn(instance, None):  # counted apart: lists must not hold up emits
            return await self._store.find_content(instance, event_id)

    async def list_events(self, query: EventQuery, *, is_tenant: bool = True) -> EventPage:
        """Return events of one log or several; raise ``Invalid`` or ``Conflict`` for a bad cursor."""
        async with self._turn(_holder(query), is_tenant):
            return await self._store.list_events(query)

    async def find_event(self, instance: str, event_id: str, *, without_global: bool = False) -> EventReport:
        """Return an event of an instance's log, with its deliveries; raise ``NotFound`` if there is none."""
        async with self._turn(instance, without_global):
            report = await self._store.find_event(instance, event_id, without_global=without_global)
        if report is None:
            raise NotFound.of(
                "event.not_in_log",
                "The log of the instance {instance!r} has no event {id!r}.",
                instance=instance,
                id=event_id[:64],
            )
        return report

    async def newest(self, instances: Collection[str]) -> dict[str, float]:
        """Return when each instance's newest event was accepted."""
        return await self._store.newest(instances)

    @asynccontextmanager
    async def _turn(self, instance: str, is_tenant: bool | None) -> AsyncIterator[None]:
        await in_task()
        async with AsyncExitStack() as stack:
            try:
                with trio.fail_after(TURN_TIMEOUT):
                    await stack.enter_async_context(self.turns.hold((instance, is_tenant)))
            except trio.TooSlowError:
                self._on_limited("instance_reads")
                raise TooManyRequests.of(
                    "instance.too_many_reads",
                    "{most} reads of this instance are in progress, the maximum. Retry later.",
                    most=MOST_READS,
                    retry_after=_RETRY_AFTER,
                ) from None
            yield


def _holder(query: DeliveryQuery | EventQuery) -> str:
    # Of several instances, the first: those of another caller are others.
    return query.instance or next(iter(query.among or ()), "")
