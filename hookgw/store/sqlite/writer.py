"""The writing side of the data file: one group commit at a time, in the writer thread."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from hookgw.kernel.errors import Invalid, StorageLost, StorageUnavailable
from hookgw.records.sentences import NOT_STORABLE
from hookgw.store.commits.changes import Changes, Committed
from hookgw.store.commits.jobs import AppendRequest, CommitGroup, FunctionRequest
from hookgw.store.sqlite.append import append
from hookgw.store.sqlite.figures import add_news
from hookgw.store.sqlite.name_ids import NameIds
from hookgw.store.sqlite.open_file import OpenFile, is_disk_error, is_locked
from hookgw.store.sqlite.recent_events import RecentEvents
from hookgw.store.sqlite.settle import NotAsKnown, settle
from hookgw.store.sqlite.transaction import Transaction

# What sqlite3 and our own conversions raise for a value that cannot be stored: lone surrogates, times that
# are not finite, integers of more than 64 bits, blobs that are too large.
_BAD_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    ValueError,
    TypeError,
    OverflowError,
)

_Append: TypeAlias = Callable[[Transaction, Sequence[AppendRequest[Transaction]]], None]


class Writer:
    """Writes groups of jobs, each commit in one transaction.

    ``in_use`` is held while the connection is used: a backup uses it, too, in a thread of its own.
    ``recent`` gets the events of each commit.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        file: OpenFile,
        *,
        keep_history: bool = True,
        keep_unwanted: bool = True,
        in_use: threading.Lock | None = None,
        recent: RecentEvents | None = None,
    ) -> None:
        self._recent = recent or RecentEvents()
        self._connection = connection
        self._in_use = in_use or threading.Lock()
        self._keep_history = keep_history
        self._keep_unwanted = keep_unwanted
        self._file = file
        self._names = NameIds(connection)
        # In milliseconds.
        self._patience: int = connection.execute("PRAGMA busy_timeout").fetchone()[0]

    def commit(self, groups: Sequence[CommitGroup[Transaction]], *, probe: bool = False) -> Committed:
        """See :class:`~hookgw.store.commits.group_commit.Commits`; raise ``StorageLost`` for another file."""
        with self._in_use:
            return self._commit(groups, probe)

    def commit_at_once(self, groups: Sequence[CommitGroup[Transaction]]) -> Committed | None:
        """Write as :meth:`commit` does, and wait for no lock: ``None`` if somebody else holds one."""
        # A backup holds the lock for each of its steps.
        if not self._in_use.acquire(blocking=False):
            return None
        try:
            # Another program may hold the lock of the file.
            self._connection.execute("PRAGMA busy_timeout = 0").fetchall()
            try:
                return self._commit(groups, probe=False)
            except StorageUnavailable as error:
                if error.__cause__ is not None and is_locked(error.__cause__):
                    return None
                raise
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {self._patience}").fetchall()
        finally:
            self._in_use.release()

    def _commit(self, groups: Sequence[CommitGroup[Transaction]], probe: bool) -> Committed:
        started = time.perf_counter()
        with self._file.errors():
            self._file.check_usable()
            try:
                changes = self._transact(groups, probe, self._append_together)
            except _BAD_VALUES:
                # All appends share one statement, so the error does not say which call brought the bad
                # value. Write the groups again with a savepoint for each call: only that call must fail.
                changes = self._transact(groups, probe, self._append_one_by_one)
        return Committed(time.perf_counter() - started, changes)

    def _transact(
        self, groups: Sequence[CommitGroup[Transaction]], probe: bool, append_jobs: _Append
    ) -> Changes:
        try:
            return self._transact_once(groups, probe, append_jobs, by_count=True)
        except NotAsKnown:
            # Rare: a delivery was settled, parked or removed while its attempt was on its way.
            return self._transact_once(groups, probe, append_jobs, by_count=False)

    def _transact_once(
        self, groups: Sequence[CommitGroup[Transaction]], probe: bool, append_jobs: _Append, *, by_count: bool
    ) -> Changes:
        connection = self._connection
        transaction = Transaction(connection, self._names)
        try:
            # IMMEDIATE takes the write lock at once: a transaction that begins with a read can fail later.
            connection.execute("BEGIN IMMEDIATE")
            if probe:
                # A commit without changes does not reach the disk, so it cannot tell whether the disk works.
                touch(transaction)
            for group in groups:
                append_jobs(transaction, group.appends)
                settled = settle(
                    transaction, group.settlements, keep_history=self._keep_history, by_count=by_count
                )
                transaction.count_finished(settled)
                transaction.count_rows(len(group.settlements))
                for job in group.functions:
                    self._run_alone(transaction, job)
            add_news(transaction)
            # Before the commit, so that what is refused is not stored, and after it, so that what is answered
            # with 202 was in the file that the next start finds.
            self._file.check_commit(is_done=False)
            connection.execute("COMMIT")
            try:
                self._file.check_commit(is_done=True)
            except StorageLost:
                raise
            except StorageUnavailable:
                # It is stored, and the lanes must learn of it. The next commit asks again before it stores.
                pass
            self._recent.add(transaction.appended)
        except BaseException:
            # Names that were added are rolled back, and their numbers may be given to others. Always: after
            # some errors, as of a full disk, SQLite has rolled back already, and no transaction is open.
            self._names.forget()
            with suppress(sqlite3.OperationalError):
                connection.execute("ROLLBACK")
            raise
        return transaction.changes

    def _append_together(self, transaction: Transaction, jobs: Sequence[AppendRequest[Transaction]]) -> None:
        news = [new for job in jobs for new in job.news]
        added = append(transaction, news, keep_unwanted=self._keep_unwanted)
        for job in jobs:
            job.note_added(added)
            if job.also is not None:
                job.also(transaction)

    def _append_one_by_one(
        self, transaction: Transaction, jobs: Sequence[AppendRequest[Transaction]]
    ) -> None:
        for job in jobs:
            self._run_alone(transaction, job)
            if isinstance(job.error, _BAD_VALUES):
                job.error = Invalid(NOT_STORABLE(error=job.error))

    def _run_alone(
        self, transaction: Transaction, job: AppendRequest[Transaction] | FunctionRequest[Transaction]
    ) -> None:
        """Run a job in a savepoint: if it fails, it is undone, and the other jobs of the commit are not."""
        before, appended = transaction.changes, len(transaction.appended)
        counted = len(transaction.entries)
        job.error = None
        self._connection.execute("SAVEPOINT one")
        try:
            if isinstance(job, AppendRequest):
                self._append_together(transaction, [job])
            else:
                job.result = job.function(transaction)
        except Exception as error:  # a bug in one function must not end the commits of everybody
            if is_disk_error(error):
                raise
            self._connection.execute("ROLLBACK TO one")
            self._names.forget()
            transaction.changes = before
            del transaction.appended[appended:]
            del transaction.entries[counted:]
            job.error = error
        self._connection.execute("RELEASE one")


def touch(transaction: Transaction) -> None:
    transaction.connection.execute(
        "INSERT INTO probe VALUES (1, 1) ON CONFLICT (only) DO UPDATE SET writes = writes + 1"
    )
