"""The contract of the history: the finished deliveries, for as long as they are kept."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Protocol

from hookgw.store.records import (
    NO_LIMIT,
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    EventPage,
    EventQuery,
    EventReport,
)


class History(Protocol):
    async def list_deliveries(self, query: DeliveryQuery) -> DeliveryPage:
        """Return deliveries of an instance, the newest first, and the cursor for the older ones.

        A search that takes long ends early: the page is then shorter than its limit, perhaps empty, and has a
        cursor. It holds up neither other lists for long nor :meth:`Outbox.read_lane`.
        """

    async def find_delivery(
        self, instance: str, name: str, *, without_global: bool = False
    ) -> DeliveryReport | None:
        """Return one delivery of an instance with its event, and at least its newest 1,000 attempts.

        The name is a delivery's id; or an event's id, for its newest delivery.
        """

    async def find_content(self, instance: str, event_id: str) -> tuple[str, bytes] | None:
        """Return the kind and the payload of an instance's event; ``None`` if its payload is not stored."""

    async def instances_of_event(self, event_id: str, most: int) -> list[str]:
        """Return the names of at most ``most`` instances that have an event of this id, in no order.

        Deleted instances are among them, under the names that they have in the store.
        """

    async def list_events(self, query: EventQuery) -> EventPage:
        """Return events of an instance's log, or of those of several instances in their common order.

        Events that nobody wants are in it if the store was opened so. A page is what can be read quickly: it
        may be empty and have a cursor. No event occurs twice, also while others are accepted.

        Raises:
            Conflict: the cursor is of a log that a backup has replaced since.
        """

    async def find_event(
        self, instance: str, event_id: str, *, without_global: bool = False
    ) -> EventReport | None:
        """Return an event of an instance's log, by its id, with its deliveries."""

    async def wait_log_growth(self) -> None:
        """Wait until events without a delivery have grown by a quarter of their limit since the last return.

        They have no backlog that bounds them, so a flood of them must not wait for its turn.
        """

    async def newest(self, instances: Collection[str]) -> dict[str, float]:
        """Return when the newest event with a delivery of each instance was accepted, by the instance's name.

        Instances without such an event are left out. Times are in seconds since the epoch.
        """

    async def enforce_retention(
        self,
        *,
        before: float,
        limit: int,
        ids_before: float = math.inf,
        ids_limit: int = NO_LIMIT,
        log_limit: int = NO_LIMIT,
    ) -> int:
        """Remove what is too old, and then the oldest until the history fits its size.

        The ids of events stay when the rest goes, so that :meth:`Outbox.append` still notices duplicates. Ids
        of the form that hookgw itself makes go with the events: their producers never knew them.

        Whatever else the engine keeps of instances, registrations and lanes that have nothing left is removed
        from time to time, too. It works in small commits with rests between them, so that others are not held
        up.

        Args:
            before: deliveries that finished before this time go with their attempts, and events without
                any delivery; in seconds since the epoch.
            limit: the most bytes that the history may use beside the outbox, the records, the audit, the ids
                and what only the log has.
            ids_before: ids of events that were accepted before this time go, unless the event is still in the
                history or pending; by default all.
            ids_limit: the most bytes that ids may use, about; the oldest go first.
            log_limit: the most bytes that events without a delivery may use, about; of the instances that
                hold most, the oldest go first.

        Returns:
            How many deliveries and events were removed.
        """
