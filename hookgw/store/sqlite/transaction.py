"""What a function inside a group commit can do."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from hookgw.models.events import Event
from hookgw.store.encryption import RecordCipher
from hookgw.store.sqlite import drop_oldest as dropping
from hookgw.store.sqlite import history, requeue
from hookgw.store.sqlite import relane as moving
from hookgw.store.sqlite.name_ids import NameIds, of_instance
from hookgw.store.sqlite.pending_counts import Change, added, counted
from hookgw.store.sqlite.relane import Cursor
from hookgw.store.sqlite.shelves import Shelves


class Transaction(Shelves):
    """What a function inside a commit can do. It must not keep it: it is good for the call alone."""

    def __init__(
        self, connection: sqlite3.Connection, names: NameIds, sealer: RecordCipher | None = None
    ) -> None:
        super().__init__(connection, sealer)
        self._connection = connection
        self._names = names
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self.rows = 0
        self.pending = 0
        self.requeued: Counter[str] = Counter()
        self.change: Change = {}

    def park(
        self,
        registration: str,
        lanes: Sequence[str],
        reason: str,
        at: float,
        place: Cursor,
        limit: int,
        *,
        spared: Collection[int] = (),
    ) -> tuple[int, Cursor | None]:
        """Make pending deliveries of a registration dead: one step; see :func:`moving.park`.

        Returns:
            How many there were, and where the next step begins.
        """
        parked = moving.park(self._connection, registration, lanes, reason, at, place, limit, spared=spared)
        self.rows += len(parked.lanes)
        self.finished({registration: (len(parked.lanes), parked.size)})
        return len(parked.lanes), parked.then

    def drop_oldest(
        self,
        registration: str,
        lanes: Sequence[str],
        reason: str,
        at: float,
        *,
        count: int,
        size: int,
        spared: Sequence[int],
        limit: int,
    ) -> int:
        """Make the oldest pending deliveries of a registration dead; see :meth:`Store.drop_oldest`."""
        dropped = dropping.drop_oldest(
            self._connection,
            registration,
            lanes,
            reason,
            at,
            count=count,
            size=size,
            spared=spared,
            limit=limit,
        )
        self.rows += dropped[0]
        self.finished({registration: dropped})
        return dropped[0]

    def relane(
        self,
        registration: str,
        lanes: Sequence[str],
        lane_of: Callable[[Event], str] | str,
        place: Cursor,
        limit: int,
    ) -> Cursor | None:
        """Move pending deliveries of a registration to other lanes: one step; see :func:`moving.relane`.

        Returns:
            Where the next step begins.
        """
        moved = moving.relane(self._connection, self._names, registration, lanes, lane_of, place, limit)
        self.rows += len(moved.lanes)
        return moved.then

    def resend(
        self, instance: str, seq: int, lane_of: Callable[[Event], str] | str, position: int, at: float
    ) -> str | None:
        """Make one finished delivery pending again; see :meth:`Store.resend`, and :meth:`requeue`."""
        lane = requeue.lane_now(self._connection, instance, seq, lane_of)
        if lane is not None:
            self.requeue({seq: lane}, position, at)
        return lane

    def requeue(self, chosen: Mapping[int, str], position: int, at: float) -> int:
        """Make finished deliveries pending again.

        Args:
            chosen: the lane of each delivery, by its number, in the order of sending.
            position: of the first, greater than any that was given before the call was asked for.
            at: from when on their age counts, in seconds since the epoch.

        Returns:
            How many of them were finished.
        """
        lanes, change = requeue.requeue(self._connection, self._names, chosen, position, at)
        count = lanes.total()
        self.requeued = self.requeued + lanes
        self.change = added(self.change, change)
        self.rows += count
        self.pending += count
        return count

    def finished(self, gone: Change) -> None:
        """Count what is no longer pending."""
        self.change = added(self.change, gone, -1)
        self.pending -= counted(gone)

    def retire_instance(self, name: str, retired_as: str) -> None:
        """Put the events and deliveries of an instance out of reach of a later one of that name.

        Args:
            name: the instance's name.
            retired_as: under what they are kept until they are pruned; no instance may be called so.
        """
        self._names.rename(of_instance(name), of_instance(retired_as))

    def prune(self, before: float, limit: int) -> int:
        """Remove finished deliveries; see :meth:`Store.prune <hookgw.store.Store.prune>`."""
        pruned = history.prune(self._connection, before, limit)
        self.rows += pruned
        return pruned

    def touch(self) -> None:
        """Write something, to learn whether the disk takes it."""
        self._connection.execute(
            "INSERT INTO probe VALUES (1, 1) ON CONFLICT (only) DO UPDATE SET writes = writes + 1"
        )
