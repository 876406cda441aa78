"""Connections to the database, each used by one thread at a time."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import outcome
import psycopg
import trio
from psycopg import Connection
from psycopg.pq import TransactionStatus

from hookgw.concurrency.light import in_task
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.kernel.errors import StorageUnavailable
from hookgw.store.commits.read_failures import ReadFailures
from hookgw.store.postgresql.lookups import backend_pid
from hookgw.store.postgresql.schema import missing_tables
from hookgw.store.postgresql.server import (
    ACKNOWLEDGE_TIMEOUT,
    READ_PATIENCE,
    TOKEN_LENGTH,
    Server,
)
from hookgw.store.postgresql.server_errors import LOST, UNREADABLE, first_line, has_old_plan, is_server_error
from hookgw.store.reader import ConnectionReader

T = TypeVar("T")

# Counting a backlog of millions takes its time.
COUNT_PATIENCE = 60.0

# A user may end its own sessions. If a role is preset for it (ALTER ROLE … SET role), that role may not.
# Sessions of other databases live: a copy in the same server has the rows of the original's nodes.
_END_SESSIONS = """WITH user_itself AS MATERIALIZED (SELECT set_config('role', 'none', true))
    SELECT pg_terminate_backend(pid) FROM user_itself, pg_stat_activity
    WHERE right(application_name, %s) = ANY(%s) AND coalesce(pid = %s, true)
        AND usename = session_user AND datname = current_database() AND pid <> pg_backend_pid()"""


class DatabaseSession:
    """One connection for one thread at a time, opened at its first use and again after it was lost.

    Args:
        patience: the longest time, in seconds, that one call may take.

    Attributes:
        gave_up: whether the last call took longer. To repeat it would make its caller wait as long again.
    """

    def __init__(self, server: Server, patience: float = READ_PATIENCE) -> None:
        self.server = server
        self._patience = patience
        self._connection: Connection | None = None
        self._switches = server.identity.switches  # when the connection was opened
        self.gave_up = False
        self._deadline: float | None = None
        self._closing = threading.Lock()

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def call(self, function: Callable[[Connection], T]) -> T:
        """Call a function with the connection, in autocommit mode, in the thread of the caller."""
        self.gave_up = False
        patience = self._patience
        self._deadline = time.monotonic() + patience
        try:
            identity = self.server.identity
            if identity.is_switched or self._switches != identity.switches:
                # It may still lead to the former server, which others have left, and which may live on.
                self.close()
            if self._connection is None:
                self._switches = identity.switches
                self.server.connect(self._patience, self._opened)
            elif patience > READ_PATIENCE:
                # A proxy acknowledges for a server that it has lost. What takes long, and what waits for it,
                # such as a lane that counts, must not wait as long for that.
                patience = ACKNOWLEDGE_TIMEOUT
                self._deadline = time.monotonic() + patience
                self._connection.execute("SELECT")
                patience = self._patience
                self._deadline = time.monotonic() + patience
            return self._run(function)
        except psycopg.errors.UndefinedTable as error:
            self._end_transaction()
            if self._connection is not None and (missing := missing_tables(self._connection)):
                raise psycopg.OperationalError(
                    f"tables of hookgw are missing ({', '.join(missing[:3])}); restore a backup, or stop all "
                    "nodes and start one with hookgw serve --new"
                ) from error
            raise
        except psycopg.OperationalError as error:
            if not self.gave_up:
                raise
            raise psycopg.OperationalError(f"no answer within {patience:g} s") from error
        except psycopg.Error as error:
            # A server that was demoted, or set to read only, stays that way for this connection. A new one
            # goes to the server that accepts writes (target_session_attrs).
            self._end_transaction()
            if is_server_error(error) and self._connection is not None and _reads_only(self._connection):
                self.close()
            raise
        finally:
            self._deadline = None
            self._end_transaction()

    def _run(self, function: Callable[[Connection], T]) -> T:
        assert self._connection is not None  # noqa: S101
        try:
            return function(self._connection)
        except psycopg.Error as error:
            # The driver calls a connection open until it has read its end, which may come behind the server's
            # last words. Then nobody would call again on a new one.
            if has_old_plan(error) or error.diag.severity_nonlocalized in ("FATAL", "PANIC"):
                self.close()
            if has_old_plan(error):
                raise psycopg.OperationalError(first_line(error)) from error
            raise

    def _end_transaction(self) -> None:
        """After a function raised inside a transaction: the connection may be of use still."""
        connection = self._connection
        if connection is None or connection.closed:
            self._connection = None
        elif connection.info.transaction_status is not TransactionStatus.IDLE:
            try:
                connection.rollback()
            except psycopg.Error:
                self.close()

    def _opened(self, connection: Connection) -> None:
        self._connection = connection

    def break_off(self, now: float) -> None:
        """End the connection if a call on it takes too long. Called from any thread."""
        deadline = self._deadline
        if deadline is not None and now > deadline:
            with self._closing, suppress(OSError, psycopg.Error):
                connection = self._connection
                if connection is not None and self._deadline == deadline:
                    self.gave_up = True
                    # The thread that waits on the connection gets an error at once.
                    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
                        duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        with self._closing:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _reads_only(connection: Connection) -> bool:
    try:
        return connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
    except psycopg.Error:
        return False


async def watch(sessions: Sequence[DatabaseSession], interval: float = 0.5) -> None:
    """End connections whose calls take too long, until cancelled."""
    while True:
        await trio.sleep(interval)
        now = time.monotonic()
        for session in sessions:
            session.break_off(now)


class Reader(ConnectionReader[Connection]):
    """Sessions for this reader alone, in autocommit mode; the caller closes them.

    A function runs again on a new connection if the server closed the old one.
    """

    def __init__(
        self,
        *sessions: DatabaseSession,
        failures: ReadFailures | None = None,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        super().__init__(sessions, failures, threads)

    async def connect(self) -> None:
        """Open all of its connections. Raises ``StorageUnavailable``."""
        for _ in range(int(self._limiter.total_tokens)):
            await self.run(backend_pid)

    def _take(self) -> DatabaseSession:
        # In turn, so that as many calls as connections use each of them, as those of connect() do.
        session: DatabaseSession = self._free.pop(0)
        return session

    def _call(self, one: DatabaseSession, function: Callable[[Connection], T]) -> T:
        with one.server.errors():
            was_connected = one.is_connected
            try:
                return one.call(function)
            except LOST:
                # The server was restarted since the last call. A new connection works, or says why not.
                if not was_connected or one.is_connected or one.gave_up:
                    raise
                return one.call(function)

    @staticmethod
    def _is_unreadable(error: StorageUnavailable) -> bool:
        cause = error.__cause__
        return isinstance(cause, psycopg.Error) and cause.sqlstate in UNREADABLE


class LongReader(Reader):
    """A reader for calls that may take long. It ends the connection of a call that is cancelled.

    Otherwise a stop could wait :data:`COUNT_PATIENCE` for a count on a server that does not answer.
    """

    def __init__(self, *sessions: DatabaseSession, **named: Any) -> None:
        super().__init__(*sessions, **named)
        self._used_by: dict[Callable[[Connection], Any], DatabaseSession] = {}

    async def run(self, function: Callable[[Connection], T]) -> T:
        call = partial(function)  # another call may have the same function

        async def break_off_if_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                if (session := self._used_by.get(call)) is not None:
                    session.break_off(math.inf)

        await in_task()
        result: outcome.Outcome[T]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(break_off_if_cancelled)
            try:
                result = outcome.Value(await super().run(call))
            except Exception as error:  # noqa: BLE001 -- it is raised below, outside of the nursery's group
                result = outcome.Error(error)
            nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()
        return result.unwrap()

    def _call(self, one: DatabaseSession, function: Callable[[Connection], T]) -> T:
        self._used_by[function] = one
        try:
            return super()._call(one, function)
        finally:
            del self._used_by[function]


def end_sessions(connection: Connection, tokens: Collection[str], pid: int | None = None) -> None:
    """End sessions of hookgw's user, with their transactions: a server notices late that a client is gone.

    Args:
        tokens: of the processes whose sessions they are; see :attr:`Server.token`.
        pid: the server's number of the only one to end; ``None`` for all others than this connection.
    """
    connection.execute(_END_SESSIONS, (TOKEN_LENGTH, list(tokens), pid))
    connection.execute("RESET ROLE")  # to what is preset, for the rest of a transaction


@contextmanager
def one_moment(connection: Connection) -> Iterator[None]:
    """Let all that a block reads be of one moment. It costs three further round trips."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
