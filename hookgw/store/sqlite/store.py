"""The store's face: everything that lasts, in one SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from hookgw.config.master_keys import MasterKeys
from hookgw.models.clock import Clock
from hookgw.models.deliveries import Delivery, Page, Settlement
from hookgw.store.encryption import RecordCipher
from hookgw.store.records import (
    Append,
    DeliveryQuery,
    DeliveryReport,
    DeliverySummary,
    LaneBacklog,
    SilentObserver,
    StoreObserver,
    StoreStatistics,
)
from hookgw.store.sqlite import history, outbox
from hookgw.store.sqlite.checkpoints import Checkpoints
from hookgw.store.sqlite.database import Connections, open_database, start_errors
from hookgw.store.sqlite.group_commit import GroupCommit
from hookgw.store.sqlite.jobs import AppendJob
from hookgw.store.sqlite.outbox import NewEvent
from hookgw.store.sqlite.pending_counts import Change
from hookgw.store.sqlite.reader import Reader
from hookgw.store.sqlite.reencrypt import prepare_shelves
from hookgw.store.sqlite.sequence import SequenceNumbers
from hookgw.store.sqlite.store_pending import MovingAccess
from hookgw.store.sqlite.writer import Writer


class Store(MovingAccess):
    """What lasts: the outbox, the history and the shelves. Made by :func:`open_store`.

    Its methods are for the Trio thread. Writes share group commits and are done in the order they are
    asked for. Reads see every commit whose waiters have been woken.

    Error handling: where the disk refuses, methods raise
    ``StorageUnavailable``, which names the file and the reason; nothing of the call was
    kept. From then on writes are refused at once until the disk takes them again, which the store
    finds out by itself; settlements are kept meanwhile.

    Cancellation: a write whose waiter is cancelled is done all the same.
    """

    def __init__(
        self,
        committer: GroupCommit,
        lanes: Reader,
        queries: Reader,
        clock: Clock,
        numbering: SequenceNumbers,
        sealer: RecordCipher | None,
    ) -> None:
        super().__init__(committer, queries, clock, numbering, sealer)
        self._lanes = lanes

    @property
    def on_appended(self) -> Callable[[list[Delivery]], None]:
        """Called in the Trio thread after each commit with the deliveries it appended.

        They come in the order of their sequence numbers, each once, and before any ``append`` of that
        commit returns. It must neither block nor raise: what it raises ends the store.
        """
        return self._committer.on_appended

    @on_appended.setter
    def on_appended(self, function: Callable[[list[Delivery]], None]) -> None:
        self._committer.on_appended = function

    @property
    def on_changed(self) -> Callable[[Change], None]:
        """Called in the Trio thread after each commit that changed what is pending, save by appending.

        It gets by how many deliveries and bytes of payload more or less is pending, by the registration's
        id, before any waiter runs. It must neither block nor raise: what it raises ends the store.
        """
        return self._committer.on_changed

    @on_changed.setter
    def on_changed(self, function: Callable[[Change], None]) -> None:
        self._committer.on_changed = function

    async def append(self, appends: Sequence[Append]) -> list[bool]:
        """Keep events and one pending delivery for each of their targets, all of them or none.

        Args:
            appends: in the order in which they are to be delivered.

        Returns:
            For each event whether it was kept; it is on disk. ``False`` means a duplicate: the instance
            has an event of that id already, or one earlier in the list.

        Raises:
            StorageUnavailable: the disk refuses.
            ValueError, TypeError, sqlite3.Error: an event holds a value that cannot be stored.
        """
        job = AppendJob(self._number(appends))
        self._committer.append_nowait(job)
        await job.wait()
        return [new.seq in job.added for new in job.news]

    def _number(self, appends: Sequence[Append]) -> list[NewEvent]:
        """Give the sequence numbers: here, so that the order of asking is the order of delivery."""
        now = self._clock.steady()
        return [self._new_event(append, now) for append in appends]

    def _new_event(self, append: Append, now: float) -> NewEvent:
        deliveries = []
        for registration, lane in append.targets:
            seq = self._numbering.delivery()
            deliveries.append(
                Delivery(
                    seq=seq,
                    event=append.event,
                    registration=registration,
                    lane=lane,
                    accepted_at=now,
                    position=seq,
                    queued_at=now,
                )
            )
        return NewEvent(self._numbering.event(), append.event, now, deliveries)

    def settle_nowait(self, settlement: Settlement) -> None:
        """Write what came of a delivery in a later commit, tried again for as long as the disk refuses.

        It applies to a delivery that is pending when its turn comes, and is passed over otherwise.
        """
        self._committer.settle_nowait(settlement)

    async def settle(self, settlement: Settlement) -> None:
        """As :meth:`settle_nowait`; returns once it is on disk.

        Raises:
            StorageUnavailable: the store was closed before that.
        """
        self._committer.settle_nowait(settlement)
        await self._committer.flush()

    async def settle_capacity(self) -> None:
        """Wait while more than 10,000 settlements are queued. Where there is room, no checkpoint."""
        await self._committer.settle_capacity()

    async def flush(self) -> None:
        """Wait until everything that was asked for before is on disk, however long the disk refuses.

        Raises:
            StorageUnavailable: the store was closed before that.
        """
        await self._committer.flush()

    async def page(self, lane: str, after: int, limit: int) -> Page:
        """The next pending deliveries of a lane, with their events and bodies, in order.

        Args:
            lane: its key.
            after: only those with a higher position.
            limit: at most so many.

        Returns:
            At least one, if the lane has any, and at most 4 MiB of payloads and bodies unless the first
            alone is larger; and whether the lane had more.
        """
        return await self._lanes.run(lambda connection: outbox.page(connection, lane, after, limit))

    async def backlog(self) -> list[LaneBacklog]:
        """What every lane with pending deliveries has before it."""
        return await self._lanes.run(outbox.backlog)

    async def pending_by_registration(self) -> dict[str, tuple[int, int]]:
        """How many deliveries are pending for each registration that has any, and their bytes of payload."""
        return await self._lanes.run(outbox.pending_by_registration)

    async def count_pending(self, lane: str) -> int:
        """How many deliveries are pending in a lane."""
        return await self._lanes.run(lambda connection: outbox.count_pending(connection, lane))

    async def list_deliveries(self, query: DeliveryQuery) -> list[DeliverySummary]:
        """Deliveries of an instance, the newest first."""
        return await self._queries.run(lambda connection: history.list_deliveries(connection, query))

    async def find_delivery(self, instance: str, name: str) -> DeliveryReport | None:
        """One delivery of an instance with its event and attempts.

        Args:
            instance: the instance's name.
            name: a delivery's id, or an event's id, which gives its newest delivery.

        Returns:
            ``None`` where the instance has no such delivery.
        """
        return await self._queries.run(lambda connection: history.find_delivery(connection, instance, name))

    async def prune(self, before: float, limit: int) -> int:
        """Remove what is finished and old, in one step; call it until it returns 0.

        Args:
            before: deliveries that finished before this time go with their attempts, and events that
                no delivery refers to any more, in seconds since the epoch.
            limit: at most so many deliveries, and as many events that had none.

        Returns:
            How many of them went.
        """
        return await self.write(lambda transaction: transaction.prune(before, limit))

    async def used_bytes(self) -> int:
        """How much of the data file is in use: by all that lasts. It costs next to nothing."""
        return await self._queries.run(history.used_bytes)

    async def needed_bytes(self) -> int:
        """About how much of it the outbox and the shelves need; the rest is history.

        It walks an index of the outbox: 0.1 s for a million pending deliveries, beside the commits.
        """
        return await self._queries.run(history.needed_bytes)

    async def check(self) -> None:
        """Write something small to the disk.

        Raises:
            StorageUnavailable: the disk refuses.
        """
        await self.write(lambda transaction: transaction.touch())

    def statistics(self) -> StoreStatistics:
        """What the store has done since it was opened."""
        return self._committer.statistics()


@asynccontextmanager
async def open_store(
    path: Path,
    *,
    clock: Clock,
    observer: StoreObserver | None = None,
    keep_history: bool = True,
    keys: MasterKeys = MasterKeys(),  # noqa: B008 - it cannot be changed
) -> AsyncIterator[Store]:
    """Open the data file, and make it where it is missing.

    Args:
        path: the file; beside it ``-wal``, ``-shm`` and ``.lock`` come to be.
        clock: gives the time at which events are accepted.
        observer: hears of commits and of a disk that refuses.
        keep_history: whether finished deliveries and attempts are kept. Without, a delivery goes when it
            is settled, and its event with the last of them, so that duplicates are noticed only of what
            is pending. What is parked, and events that nobody hears, go with the next :meth:`Store.prune`.
        keys: seal what is on the shelves, at once and from then on; none leaves it in the clear.

    Returns:
        An async context manager that gives the store. It owns the tasks that write, the connections
        and the lock. At the end it writes what is queued (for at most 5 s, also when cancelled), folds
        the write-ahead log into the file and gives up the lock.

    Raises:
        StartError: the file is in use, damaged, not hookgw's or too new, sealed with another master
            key, open to others, or it cannot be made or written. What the block raises comes out in an
            exception group, as from any nursery.
    """
    opened = await trio.to_thread.run_sync(_open, path, keys)
    try:
        writer = Writer(opened.connections.writer, path, keep_history=keep_history, sealer=opened.sealer)
        committer = GroupCommit(writer, observer or SilentObserver(), pending=opened.pending)
        connections = opened.connections
        lanes, queries = Reader(connections.lanes, path), Reader(connections.queries, path)
        checkpoints = Checkpoints(connections.checkpoints, connections.writer, committer.thread)
        committer.on_committed = checkpoints.committed
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committer.run)
            nursery.start_soon(checkpoints.run)
            try:
                numbering = SequenceNumbers(*opened.last_numbers)
                yield Store(committer, lanes, queries, clock, numbering, opened.sealer)
            finally:
                await committer.close()  # noqa: ASYNC102 -- it shields and bounds itself
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):  # the last words to the disk; a thread cannot be cut short
            await trio.to_thread.run_sync(opened.resources.close)


class _Opened(NamedTuple):
    """The data file, ready for use, and what it told at the start."""

    connections: Connections
    last_numbers: tuple[int, int]
    pending: int
    sealer: RecordCipher | None
    resources: ExitStack


def _open(path: Path, keys: MasterKeys) -> _Opened:
    with ExitStack() as stack:
        connections = stack.enter_context(open_database(path))
        with start_errors(path):
            sealer = prepare_shelves(connections.writer, keys, path)
            last = outbox.last_numbers(connections.writer)
            pending = outbox.count_pending(connections.writer)
        return _Opened(connections, last, pending, sealer, stack.pop_all())
