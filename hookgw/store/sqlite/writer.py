"""The writing side of the data file: one group commit at a time, in the writer thread."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from hookgw.store.encryption import RecordCipher
from hookgw.store.sqlite import outbox
from hookgw.store.sqlite import settle as settling
from hookgw.store.sqlite.database import is_disk_error, storage_errors
from hookgw.store.sqlite.jobs import AppendJob, FunctionJob, Group, Job
from hookgw.store.sqlite.name_ids import NameIds
from hookgw.store.sqlite.outbox import NewEvent
from hookgw.store.sqlite.pending_counts import Change
from hookgw.store.sqlite.transaction import Transaction

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
        sealer: RecordCipher | None = None,
    ) -> None:
        self._connection = connection
        self._keep_history = keep_history
        self._path = path
        self._names = NameIds(connection)
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
