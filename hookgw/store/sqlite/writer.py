"""The writing side of the data file: one group commit at a time, in the writer thread."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from hookgw.models.events import Event
from hookgw.store.encryption import Sealer
from hookgw.store.sqlite import drop_oldest as dropping
from hookgw.store.sqlite import history, outbox, requeue
from hookgw.store.sqlite import relane as moving
from hookgw.store.sqlite import settle as settling
from hookgw.store.sqlite.database import is_disk_error, storage_errors
from hookgw.store.sqlite.jobs import AppendJob, FunctionJob, Group, Job
from hookgw.store.sqlite.name_ids import Names, of_instance
from hookgw.store.sqlite.outbox import NewEvent
from hookgw.store.sqlite.pending_counts import Change, added, counted
from hookgw.store.sqlite.relane import Place
from hookgw.store.sqlite.shelves import Shelves

_BAD_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    ValueError,
    TypeError,
    OverflowError,
)


class Committed(msgspec.Struct, frozen=True):
    """What one commit did.

    Attributes:
        seconds: how long it took.
        rows: how many it wrote.
        pending: how many more deliveries are pending than before.
        requeued: how many finished deliveries became pending again, by the key of their lane.
        change: how that is more or less pending than before, without what was appended.
    """

    seconds: float
    rows: int
    pending: int
    requeued: Mapping[str, int] = {}
    change: Change = {}


class Transaction(Shelves):
    """What a function inside a commit can do. It must not keep it: it is good for the call alone."""

    def __init__(self, connection: sqlite3.Connection, names: Names, sealer: Sealer | None = None) -> None:
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
        place: Place,
        limit: int,
        *,
        spared: Collection[int] = (),
    ) -> tuple[int, Place | None]:
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
        place: Place,
        limit: int,
    ) -> Place | None:
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


class Writer:
    """Works groups off, each commit in one transaction.

    Args:
        connection: the writing one, in autocommit mode. The caller closes it.
        path: the file, for messages.
        keep_history: whether finished deliveries are kept once they are settled.
        sealer: seals what is on the shelves; ``None`` where it is in the clear.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        keep_history: bool = True,
        sealer: Sealer | None = None,
    ) -> None:
        self._connection = connection
        self._keep_history = keep_history
        self._path = path
        self._names = Names(connection)
        self._transaction = Transaction(connection, self._names, sealer)

    def commit(self, groups: Sequence[Group], *, probe: bool = False) -> Committed:
        """Write groups in one commit, and note in each job what came of it.

        Args:
            groups: in order.
            probe: write something even if there is nothing to write.

        Returns:
            What was done; it is on disk.

        Raises:
            StorageUnavailable: the disk refused, and nothing was kept.
        """
        started = time.perf_counter()
        with storage_errors(self._path):
            try:
                self._transact(groups, probe, self._append_together)
            except _BAD_VALUES:
                # One call brought a value that cannot be stored: find it, for the sake of the others.
                self._transact(groups, probe, self._append_one_by_one)
        transaction = self._transaction
        elapsed = time.perf_counter() - started
        return Committed(
            elapsed, transaction.rows, transaction.pending, transaction.requeued, transaction.change
        )

    def _transact(
        self, groups: Sequence[Group], probe: bool, append: Callable[[Sequence[AppendJob]], None]
    ) -> None:
        transaction = self._transaction
        transaction.begin()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if probe:
                transaction.touch()
            for group in groups:
                self._apply(group, append)
            self._connection.execute("COMMIT")
        finally:
            self._undo_what_is_open()

    def _undo_what_is_open(self) -> None:
        if self._connection.in_transaction:
            self._names.forget()
            with suppress(sqlite3.OperationalError):  # SQLite has undone it already
                self._connection.execute("ROLLBACK")

    def _apply(self, group: Group, append: Callable[[Sequence[AppendJob]], None]) -> None:
        append(group.appends)
        settled = settling.settle(self._connection, group.settlements, keep_history=self._keep_history)
        self._transaction.finished(settled)
        self._transaction.rows += len(group.settlements)
        for job in group.functions:
            self._call(job)

    def _append_together(self, jobs: Sequence[AppendJob]) -> None:
        news = [new for job in jobs for new in job.news]
        added = outbox.append(self._connection, self._names, news)
        for job in jobs:
            job.added = added
        self._count(news, added)

    def _append_one_by_one(self, jobs: Sequence[AppendJob]) -> None:
        for job in jobs:
            with self._alone(job):
                self._append_together([job])

    def _call(self, job: FunctionJob) -> None:
        with self._alone(job):
            job.result = job.function(self._transaction)

    @contextmanager
    def _alone(self, job: Job) -> Iterator[None]:
        """Let what a block does fail by itself: then it is undone, and the job has the error."""
        transaction = self._transaction
        before = transaction.rows, transaction.pending, transaction.requeued, transaction.change
        job.error = None
        self._connection.execute("SAVEPOINT one")
        try:
            yield
        except Exception as error:  # whatever a caller's function raises is for the caller
            if is_disk_error(error):
                raise
            self._connection.execute("ROLLBACK TO one")
            self._names.forget()
            transaction.rows, transaction.pending, transaction.requeued, transaction.change = before
            job.error = error
        self._connection.execute("RELEASE one")

    def _count(self, news: Sequence[NewEvent], added: set[int]) -> None:
        deliveries = sum(len(new.deliveries) for new in news if new.seq in added)
        self._transaction.pending += deliveries
        self._transaction.rows += len(added) + deliveries
