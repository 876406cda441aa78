"""The writing side of the database: one group commit at a time, in the writer thread."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import psycopg
from psycopg import Connection, sql
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus

from hookgw.kernel.errors import Invalid
from hookgw.records.deliveries import Delivery, Settlement
from hookgw.records.sentences import NOT_STORABLE
from hookgw.store.commits.changes import Changes, Committed, replace
from hookgw.store.commits.jobs import AppendedEvent, AppendRequest, CommitGroup, FunctionRequest, appended_by
from hookgw.store.postgresql.append import added, append, find_stored, prepare, send
from hookgw.store.postgresql.database import DatabaseSession, end_sessions
from hookgw.store.postgresql.feed import Feed, News
from hookgw.store.postgresql.figures import add_news
from hookgw.store.postgresql.guard import Guard
from hookgw.store.postgresql.schema import XID, raise_sequences
from hookgw.store.postgresql.server_errors import CONFLICTS, LOST, is_server_error
from hookgw.store.postgresql.settle import find_unsettled, settle, write
from hookgw.store.postgresql.transaction import Transaction

# What the server, the driver and our own conversions raise for a value that cannot be stored: lone surrogates
# and NUL characters in texts, times that are not finite, integers of more than 64 bits.
_BAD_VALUES = (psycopg.DataError, psycopg.IntegrityError, ValueError, TypeError, OverflowError)

# How often a transaction that lost against one of another node is tried before its waiters hear of it.
TRIES = 5

_BEGIN = f"SELECT {XID}"
# Each process has a row of its own, with the number of its last commit. Nobody else writes it, so it alone
# proves a commit: a delivery that is finished, or an event that is stored, may be the work of another node.
_MARK = """INSERT INTO probe VALUES (%s, %s)
    ON CONFLICT (number) DO UPDATE SET writes = excluded.writes"""
# A write, too. It waits for a former transaction that the server has not ended yet, and for the standby: that
# has the former commit once it has this one.
_MARKED = """INSERT INTO probe VALUES (%s, 0)
    ON CONFLICT (number) DO UPDATE SET writes = probe.writes RETURNING writes"""
# The probe itself has the number 1.
_FIRST_MARK = 2


class _Written(NamedTuple):
    """A transaction that is on disk."""

    xid: int
    changes: Changes
    appended: list[Delivery]


class _Unacknowledged(psycopg.OperationalError):
    """The connection was lost while a commit was on its way: the server may have done it.

    ``is_counted`` says whether it is known what was added.
    """

    def __init__(
        self,
        transaction: Transaction,
        jobs: Sequence[AppendRequest[Transaction]],
        error: psycopg.Error,
        *,
        is_counted: bool,
        mark: int,
    ) -> None:
        super().__init__()
        self.transaction = transaction
        self.jobs = jobs
        self.error = error
        self.is_counted = is_counted
        self.mark = mark


class Writer:
    """Writes groups of jobs, each commit in one transaction.

    Attributes:
        guard: keeps a node that others have taken for dead from writing, and events from being stored for
            registrations of a moment ago; ``None`` for a process that is alone for certain.
        backend: the server's number of the connection that writes; 0 before the first commit.
    """

    def __init__(
        self,
        session: DatabaseSession,
        feed: Feed,
        *,
        keep_history: bool = True,
        keep_unwanted: bool = True,
    ) -> None:
        self.guard: Guard | None = None
        self.backend = 0
        self._marks = _FIRST_MARK + secrets.randbelow(2**31 - _FIRST_MARK)
        self._mark = 0
        self._session = session
        self._feed = feed
        self._switches = session.server.identity.switches
        self._keep_history = keep_history
        self._keep_unwanted = keep_unwanted

    def commit(self, groups: Sequence[CommitGroup[Transaction]], *, probe: bool = False) -> Committed:
        """Commit, as :class:`hookgw.store.commits.group_commit.Commits` says.

        With what was done comes what the feed has found since. ``StorageUnavailable`` may also mean that the
        connection was lost in the middle of the commit, and the server did not say what became of it.
        """
        started = time.perf_counter()
        identity = self._session.server.identity
        if self._switches != identity.switches:
            self._switches = identity.switches
            self._feed.start_at(identity.start)
        has_work = probe or any(group.appends or group.settlements or group.functions for group in groups)
        with self._session.server.errors():
            if not has_work:
                news = self._session.call(self._feed.read)
                seconds = time.perf_counter() - started
                return Committed(seconds, Changes(requeued=news.requeued), news.appended, is_empty=True)
            written = self._write(groups, probe)
        seconds = time.perf_counter() - started
        identity.committed(written.xid)
        # The feed tells what is pending again, in the order of the transactions.
        self._feed.committed(written.xid, written.appended, written.changes.requeued)
        news = News([], {})
        # Outcomes make nothing pending. Most commits have no more, and a lane waits for each of them.
        if self._feed.is_behind:
            try:
                news = self._session.call(self._read_feed)
            except psycopg.Error as error:
                if not is_server_error(error):
                    raise
                # The commit is on disk. The next one finds out that the server is gone, and the feed goes on.
        return Committed(seconds, replace(written.changes, requeued=news.requeued), news.appended)

    def _read_feed(self, connection: Connection) -> News:
        with connection.pipeline():
            if self._feed.channel is not None:
                # After the commit, not in it: only one transaction with a NOTIFY at a time can commit.
                connection.execute(sql.SQL("NOTIFY {}").format(sql.Identifier(self._feed.channel)))
            asked = self._feed.ask(connection)
        return self._feed.take(connection, asked)

    def _write(  # noqa: C901 -- one answer for each kind of failure
        self, groups: Sequence[CommitGroup[Transaction]], probe: bool
    ) -> _Written:
        is_careful = False
        tries = 0
        while True:
            was_connected = self._session.is_connected
            tries += 1
            try:
                return self._session.call(
                    partial(self.transact, groups=groups, probe=probe, is_careful=is_careful)
                )
            except _Unacknowledged as lost:
                if (written := self._session.call(partial(self._find_written, lost=lost))) is not None:
                    return written
                if tries >= TRIES:
                    raise lost.error from None
            except LOST as error:
                # Nothing was committed. The server was restarted since the last commit, or another node won.
                was_lost = was_connected and not (self._session.is_connected or self._session.gave_up)
                # An internal error with a state is the server's answer, such as that it is read-only.
                was_lost &= error.sqlstate is None or isinstance(error, psycopg.OperationalError)
                if tries >= TRIES or not (was_lost or error.sqlstate in CONFLICTS):
                    raise
            except psycopg.errors.UniqueViolation:
                # No caller's fault: ids that are there already are no error. A sequence gives numbers for a
                # second time, because it was not copied with its table.
                if tries >= TRIES:
                    raise
                self._session.call(raise_sequences)
            except _BAD_VALUES as error:
                # All appends share one statement, so the error does not say which call brought the bad
                # value. Write the groups again with a savepoint for each call: only that call must fail.
                if is_careful or is_server_error(error):
                    raise
                is_careful = True

    def transact(  # noqa: C901 -- reads once from top to bottom
        self,
        connection: Connection,
        groups: Sequence[CommitGroup[Transaction]],
        probe: bool,
        is_careful: bool,
    ) -> _Written:
        """Write groups in one transaction.

        A round trip to the server costs more than a statement. So the groups up to the first function are
        written together, in two round trips: first all reads, then all writes with the commit. A careful
        transaction appends call by call, each in a savepoint.
        """
        self._end_former(connection)
        self._mark += 1
        mark = self._mark
        lead = next((number for number, group in enumerate(groups, 1) if group.functions), len(groups))
        prepared = None
        with connection.pipeline():
            connection.execute("BEGIN")
            begun = connection.execute(_BEGIN.encode())
            asked = None if self.guard is None else self.guard.ask(connection, groups)
            if not is_careful:
                prepared = prepare(connection, _news_of(_appends_of(groups[:lead])))
            pending = find_unsettled(connection, _settlements_of(groups[:lead]))
            # Here, not with the COMMIT: from now on, a question for the mark waits for this transaction.
            connection.execute(_MARK, (self._marks, mark))
        row = begun.fetchone()
        assert row is not None  # noqa: S101
        found = [] if pending is None else pending.fetchall()
        if self.guard is not None and asked is not None:
            groups = self.guard.admit(asked, groups)
        transaction = Transaction(connection, row[0])
        if probe:
            touch(transaction)
        first, rest = groups[:lead], groups[lead:]
        appends, settlements = _appends_of(first), _settlements_of(first)
        functions = [job for group in first for job in group.functions]
        if is_careful:
            self._append_one_by_one(transaction, appends)
        is_all = not (rest or functions)
        answer = None
        try:
            # An empty pipeline is a round trip, too.
            has_writes = prepared is not None or pending is not None or is_all
            with _waiting_for_standby(connection), connection.pipeline() if has_writes else nullcontext():
                if prepared is not None:
                    answer = send(
                        connection,
                        transaction.xid,
                        prepared,
                        _news_of(appends),
                        keep_unwanted=self._keep_unwanted,
                    )
                for job in () if is_careful else appends:
                    job.error = None
                    if job.also is not None:
                        job.also(transaction)
                if pending is not None:
                    gone = write(transaction, found, settlements, keep_history=self._keep_history)
                    transaction.count_finished(gone)
                    transaction.count_rows(len(settlements))
                if is_all:
                    add_news(transaction)
                    connection.execute("COMMIT")
        except LOST as error:
            if not (is_all and _is_unanswered(connection)):
                raise
            raise _Unacknowledged(transaction, appends, error, is_counted=is_careful, mark=mark) from error
        if not is_careful:
            _count_added(transaction, appends, added(answer))
        if not is_all:
            for function in functions:
                self._run_alone(transaction, function)
            for group in rest:
                if is_careful:
                    self._append_one_by_one(transaction, group.appends)
                else:
                    self._append_together(transaction, group.appends)
                gone = settle(transaction, group.settlements, keep_history=self._keep_history)
                transaction.count_finished(gone)
                transaction.count_rows(len(group.settlements))
                for function in group.functions:
                    self._run_alone(transaction, function)
            appends = [*appends, *_appends_of(rest)]
            add_news(transaction)
            try:
                with _waiting_for_standby(connection):
                    connection.execute("COMMIT")
            except LOST as error:
                if not _is_unanswered(connection):
                    raise
                raise _Unacknowledged(transaction, appends, error, is_counted=True, mark=mark) from error
        return _written(transaction, appends)

    def _append_together(self, transaction: Transaction, jobs: Sequence[AppendRequest[Transaction]]) -> None:
        found = append(
            transaction.connection, transaction.xid, _news_of(jobs), keep_unwanted=self._keep_unwanted
        )
        for job in jobs:
            job.error = None
            if job.also is not None:
                job.also(transaction)
        _count_added(transaction, jobs, found)

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
        before, counted, connection = transaction.changes, len(transaction.entries), transaction.connection
        job.error = None
        try:
            # The job waits only for what it reads: what it writes goes the same way as the savepoint.
            with connection.pipeline():
                connection.execute("SAVEPOINT job")
                if isinstance(job, AppendRequest):
                    self._append_together(transaction, [job])
                else:
                    job.result = job.function(transaction)
                connection.execute("RELEASE job")
        except Exception as error:  # a bug in one function must not end the commits of everybody
            if is_server_error(error):
                raise
            connection.execute("ROLLBACK TO job")
            transaction.changes = before
            del transaction.entries[counted:]
            job.error = error

    def _find_written(self, connection: Connection, lost: _Unacknowledged) -> _Written | None:
        """Return what a commit without an answer has done; ``None`` if it was not done.

        Its mark tells. The number of its transaction does not: a server that crashed gives the numbers of
        transactions that are lost to others.
        """
        self._end_former(connection)
        with _waiting_for_standby(connection):
            marked = connection.execute(_MARKED, (self._marks,)).fetchone()
        if marked != (lost.mark,):
            return None
        if not lost.is_counted:
            # The answer to the append was lost, too.
            stored = find_stored(connection, _news_of(lost.jobs))
            _count_added(lost.transaction, lost.jobs, stored)
        return _written(lost.transaction, lost.jobs)

    def _end_former(self, connection: Connection) -> None:
        """On a new connection, end the transaction of the former one."""
        former, self.backend = self.backend, connection.info.backend_pid
        if former not in (0, self.backend):
            end_sessions(connection, [self._session.server.token], former)


@contextmanager
def _waiting_for_standby(connection: Connection) -> Iterator[None]:
    """Close the connection, and raise, if somebody has cancelled the wait of a commit for the standby.

    The server then says that it has committed, and warns that the standby may not have it.
    """
    warnings: list[str] = []

    def warn(warning: Diagnostic) -> None:
        if warning.source_function == "SyncRepWaitForLSN":  # its text is in the language of the server
            warnings.append(warning.message_primary or "")

    connection.add_notice_handler(warn)
    try:
        yield
    finally:
        connection.remove_notice_handler(warn)
    if warnings:
        connection.close()
        raise psycopg.OperationalError(warnings[0])


def _is_unanswered(connection: Connection) -> bool:
    """Return whether the server has not said how the transaction ended."""
    # A server that is told to end during a commit does it, says both, and closes the connection. For the
    # driver, that is open until it has read the end, too.
    return connection.closed or connection.info.transaction_status is TransactionStatus.ACTIVE


def touch(transaction: Transaction) -> None:
    transaction.connection.execute(
        "INSERT INTO probe VALUES (1, 1) ON CONFLICT (number) DO UPDATE SET writes = probe.writes + 1"
    )


def _appends_of(groups: Sequence[CommitGroup[Transaction]]) -> list[AppendRequest[Transaction]]:
    return [job for group in groups for job in group.appends]


def _news_of(jobs: Sequence[AppendRequest[Transaction]]) -> list[AppendedEvent]:
    return [new for job in jobs for new in job.news]


def _settlements_of(groups: Sequence[CommitGroup[Transaction]]) -> list[Settlement]:
    return [settlement for group in groups for settlement in group.settlements]


def _count_added(
    transaction: Transaction, jobs: Sequence[AppendRequest[Transaction]], found: set[int]
) -> None:
    deliveries = unwanted = 0
    for job in jobs:
        job.note_added(found)
        for new in job.news:
            if new.seq in found:
                deliveries += len(new.deliveries)
                unwanted += 0 if new.deliveries else len(new.event.data_json)
    transaction.count_appended(len(found), deliveries, unwanted)


def _written(transaction: Transaction, jobs: Sequence[AppendRequest[Transaction]]) -> _Written:
    appended = appended_by(jobs)
    return _Written(transaction.xid, transaction.changes, appended)
