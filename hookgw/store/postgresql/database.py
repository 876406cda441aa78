"""The database: connections to it, and the meaning of its errors."""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import outcome
import psycopg
import trio
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from hookgw.concurrency.light import in_task
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.kernel.errors import StartError, StorageUnavailable
from hookgw.store.commits.read_failures import ReadFailures
from hookgw.store.postgresql.environment import READ_ONLY, is_answered, prepare
from hookgw.store.postgresql.host_names import HostNames
from hookgw.store.postgresql.identity import Identity, find
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.schema import missing_tables
from hookgw.store.reader import ConnectionReader

T = TypeVar("T")

# What of libpq's parameters leads to a database.
_WHERE = ("host", "hostaddr", "port", "dbname", "user")

# How many lists are read at the same moment.
LIST_CONNECTIONS = 2

# Seconds. A server that does not answer is noticed in this time: a commit then fails, and its waiters get 503
# within 10 s. The first is for a server that is gone, the second for one whose host does not acknowledge.
CONNECT_TIMEOUT = 2
# Seconds of a start in which a connection that was not answered in that time is tried again: the machine may
# be busy, as after a boot, and no lane depends on this process yet.
START_PATIENCE = 10.0
ACKNOWLEDGE_TIMEOUT = 4
# Beyond this a call is broken off from our side: a frozen server acknowledges, and never answers.
WRITE_PATIENCE = 6.0
READ_PATIENCE = 10.0
# A process that is frozen inside a transaction: the server ends that after so many seconds. A writer
# holds up what all nodes deliver, and keeps others from taking over from it, which is due after 3 s.
FROZEN_WRITER = 2.0
FROZEN_READER = 60.0
# Counting a backlog of millions takes its time.
COUNT_PATIENCE = 60.0

TOKEN_LENGTH = 16
"""Characters of :attr:`Server.token`."""

# A user may end its own sessions. If a role is preset for it (ALTER ROLE … SET role), that role may not.
# Sessions of other databases live: a copy in the same server has the rows of the original's nodes.
_END_SESSIONS = """WITH user_itself AS MATERIALIZED (SELECT set_config('role', 'none', true))
    SELECT pg_terminate_backend(pid) FROM user_itself, pg_stat_activity
    WHERE right(application_name, %s) = ANY(%s) AND coalesce(pid = %s, true)
        AND usename = session_user AND datname = current_database() AND pid <> pg_backend_pid()"""

# SQLSTATE classes of mistakes in what we sent; to report a bug of ours as a lost server would hide it. All
# others (connection, resources, operator, system, corruption, read-only) are the server's. So are those of
# constraints, except NOT NULL: hookgw has unique keys alone, whose numbers a sequence gives twice if it was
# not copied with its table. Others are the operator's.
_OURS = ("0A", "21", "22", "23502", "2F", "34", "3F", "42")
# Data and index corrupted, an error of the disk, a file that is missing.
_UNREADABLE = ("XX001", "XX002", "58030", "58P01")
# Of these classes, but the operator's doing and never the caller's fault: a right that was taken away, a
# schema that was dropped.
_OPERATORS = ("42501", "3F000")
LOST = (psycopg.OperationalError, psycopg.InternalError)
"""What the driver raises if a connection is lost, and for other reasons.

The second comes behind a pooler, which adds an error to the server's last one: two results of one ``BEGIN``.
"""
# A transaction that lost against another one, and is to run again.
CONFLICTS = ("40001", "40P01")


def _unknown_parameters(url: str) -> list[str]:
    """Return the names behind the ? of a URL that are none of libpq's, as Prisma's ``schema``."""
    _, _, query = url.rstrip().partition("?")
    # With an @, it may be the end of a password, which no message has.
    names = [] if "@" in query else [part.partition("=")[0] for part in query.split("&")]
    known = {"ssl", *(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())}
    return [name for name in names if name.isidentifier() and name not in known]


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add where a service file leads, or else the environment, as libpq would.

    hookgw looks names up and tries several servers itself, so it must know them.
    """
    service, former = given.get("service"), os.environ.get("PGSERVICE")
    try:
        if service:
            os.environ["PGSERVICE"] = service  # libpq finds and reads the file
        options = psycopg.pq.Conninfo.get_defaults()
    finally:
        if former is not None:
            os.environ["PGSERVICE"] = former
        elif service:
            del os.environ["PGSERVICE"]
    found = {option.keyword.decode(): option.val for option in options}
    return {name: value.decode() for name in _WHERE if (value := found[name])} | dict(given)


class Server:
    """Where the database is, and how to connect to it.

    Attributes:
        place: names the server and the database, without user and password, for messages.
        identity: the server as its connections found it.
        token: random. The names of this process's connections end with it (``application_name``), so that
            others can tell which connections are those of a node that died.
    """

    def __init__(self, url: str, schema: str = "hookgw") -> None:
        try:
            # A Secret that was made of a file ends with its line break.
            given = _with_defaults(conninfo_to_dict(url.rstrip()))
        except psycopg.Error:
            if unknown := _unknown_parameters(url):
                raise StartError(
                    f"storage.url has parameters that PostgreSQL does not know: {', '.join(unknown)}.",
                    "Remove them: after a ? come only parameters of libpq, such as sslmode=verify-full. "
                    "Another schema than hookgw is storage.schema.",
                ) from None
            raise StartError(
                "storage.url is not the URL of a PostgreSQL database.",
                "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and after a ? only parameters of "
                "libpq, such as sslmode=verify-full.",
            ) from None
        self.schema = schema
        self.identity = Identity()
        self._starts_until = time.monotonic() + START_PATIENCE
        usual: dict[str, Any] = {
            # After a failover, only the server that accepts writes is of use.
            "target_session_attrs": "read-write",
            "connect_timeout": CONNECT_TIMEOUT,
            "tcp_user_timeout": ACKNOWLEDGE_TIMEOUT * 1000,
            "keepalives_idle": 2,
            "keepalives_interval": 1,
            "keepalives_count": 3,
        }
        self.token = secrets.token_hex(TOKEN_LENGTH // 2)
        # The server cuts names off behind their 63rd byte.
        name = str(given.get("application_name", "hookgw"))[: 62 - TOKEN_LENGTH]
        # The encoding in which hookgw and the server talk, whatever the environment of either presets.
        named = {"application_name": f"{name} {self.token}", "client_encoding": "UTF8"}
        self._parameters = usual | given | named
        self._names = HostNames()
        hosts = str(given.get("host") or given.get("hostaddr") or "localhost").split(",")
        ports = str(given.get("port") or 5432).split(",")
        ports *= len(hosts) if len(ports) == 1 else 1
        where = ",".join(
            # The socket of a folder is no host with a port.
            host if host.startswith(("/", "@")) else f"{f'[{host}]' if ':' in host else host}:{port or 5432}"
            for host, port in zip(hosts, ports, strict=False)
        )
        database = str(given.get("dbname") or given.get("user") or "postgres")
        # libpq takes what stands before the first slash for the server: with a slash in it, a password
        # becomes the port and the database. What cannot be right is not shown.
        is_cut = any("@" in host[1:] for host in hosts) or "@" in database
        if is_cut or not all(port.isascii() and port.isdecimal() for port in ports if port):
            raise StartError(
                "storage.url names a server, a port or a database that cannot be one: its user or password "
                "has a character that separates parts of a URL.",
                "In both of them, write / as %2F, @ as %40, : as %3A, ? as %3F, # as %23 and % as %25.",
            )
        self.place = f"{where}/{database}"

    def connect(
        self,
        patience: float = READ_PATIENCE,
        opened: Callable[[Connection], None] = lambda _: None,
        *,
        to_adopt: bool = False,
    ) -> Connection:
        """Open a connection in autocommit mode, with the tables in its search path.

        Args:
            patience: the server gives up a statement after so many seconds; 0 for never.
            opened: called with the connection before it is used: behind a pooler, the first statement may
                wait for a connection to the server for long.
            to_adopt: whether it may lead to another server than before.
        """
        parameters = self._parameters
        unknown: list[psycopg.OperationalError] = []
        refused = None
        try:
            parameters = parameters | self._names.addressed(parameters, CONNECT_TIMEOUT, unknown)
            connection = _connect_to_first(parameters, unknown)
        except psycopg.OperationalError as error:
            timed_out = any(isinstance(one, psycopg.errors.ConnectionTimeout) for one in _each_of(error))
            if timed_out and time.monotonic() < self._starts_until:
                return self.connect(patience, opened, to_adopt=to_adopt)
            if READ_ONLY not in str(error):
                raise
            # A pooler repeats what a server reported before its promotion. The server is asked below.
            anyhow = parameters | {"target_session_attrs": "any"}
            connection = psycopg.connect(make_conninfo("", **anyhow), autocommit=True)
            refused = error
        try:
            self._prepare(connection, patience, opened)
        except psycopg.OperationalError as error:
            if refused is None or READ_ONLY not in str(error):
                raise
            raise refused from None
        try:
            connection = self._newest(connection, parameters, patience, opened)
            if not to_adopt:
                self.identity.check(connection)
        except psycopg.Error:
            connection.close()
            raise
        return connection

    def _newest(
        self,
        connection: Connection,
        parameters: dict[str, Any],
        patience: float,
        opened: Callable[[Connection], None],
    ) -> Connection:
        """Return a connection to the server that was promoted last.

        That of the first server that accepts writes may lead to a former primary.
        """
        hosts = _each_host(parameters)
        if len(hosts) > 1 and (self.identity.is_former(found := find(connection)) or self.identity.is_new):
            for host in hosts:
                with suppress(psycopg.OperationalError):
                    other = psycopg.connect(make_conninfo("", **parameters | host), autocommit=True)
                    try:
                        self._prepare(other, patience, opened)
                        if (seen := find(other)).is_after(found):
                            connection, found, other = other, seen, connection
                    finally:
                        other.close()
            opened(connection)
        return connection

    def _prepare(self, connection: Connection, patience: float, opened: Callable[[Connection], None]) -> None:
        opened(connection)
        is_writer = patience <= WRITE_PATIENCE
        try:
            prepare(
                connection,
                self.schema,
                within=READ_PATIENCE,
                statement=patience,
                transaction=FROZEN_WRITER if is_writer else FROZEN_READER,
                # The server keeps the plan of a prepared statement until it has new statistics. A plan that
                # was made while the tables were small reads all of them. So reads are planned each time. The
                # statements of commits, which are planned once, use indexes in any case.
                plans="auto" if is_writer else "force_custom_plan",
            )
        except psycopg.Error:
            connection.close()
            raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of the server as :class:`~hookgw.kernel.errors.StorageUnavailable`.

        Bugs of ours and bad values pass unchanged.
        """
        try:
            yield
        except psycopg.Error as error:
            if not is_server_error(error):
                raise
            raise self.unavailable(error) from error

    def unavailable(self, error: psycopg.Error) -> StorageUnavailable:
        return StorageUnavailable.of(
            "storage.database_unusable",
            "The database {place} cannot be used now: {reason}",
            place=self.place,
            reason=reason_of(error),
        )


def _each_host(given: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the parameters of libpq that choose each of several servers."""
    names = ("host", "hostaddr", "port")
    lists = {name: str(given[name]).split(",") for name in names if given.get(name)}
    count = max((len(values) for values in lists.values()), default=0)
    return [{name: values[number % len(values)] for name, values in lists.items()} for number in range(count)]


class _NoServer(psycopg.OperationalError):
    """None of several servers can be used, for a reason of each."""

    def __init__(self, reasons: Sequence[psycopg.OperationalError]) -> None:
        super().__init__("; ".join(_first_line(reason) for reason in reasons))
        self.reasons = reasons


def _each_of(error: psycopg.Error) -> Sequence[psycopg.Error]:
    return error.reasons if isinstance(error, _NoServer) else [error]


def _has_old_plan(error: psycopg.Error) -> bool:
    """Return whether somebody has changed the type of a column in a statement that is prepared."""
    return error.diag.source_function == "RevalidateCachedQuery"


def _first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _connect_to_first(parameters: dict[str, Any], reasons: list[psycopg.OperationalError]) -> Connection:
    """Connect to the first server that accepts writes.

    Args:
        parameters: of libpq. With all servers at once, the driver's error would be of the last one.
        reasons: why further servers cannot be asked.
    """
    for host in _each_host(parameters) or [{}]:
        try:
            return psycopg.connect(make_conninfo("", **parameters | host), autocommit=True)
        except psycopg.errors.ConnectionTimeout as error:
            name = host.get("host") or host.get("hostaddr") or "the server"
            reasons.append(type(error)(f"connection to {name} failed: {error}"))
        except psycopg.OperationalError as error:
            reasons.append(error)
    raise reasons[0] if len(reasons) == 1 else _NoServer(reasons)


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
            if _has_old_plan(error) or error.diag.severity_nonlocalized in ("FATAL", "PANIC"):
                self.close()
            if _has_old_plan(error):
                raise psycopg.OperationalError(_first_line(error)) from error
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


class DatabaseConnections(NamedTuple):
    """The sessions with one database, each used by one thread at a time.

    Attributes:
        lanes: for the refills of lanes.
        lists: what clients ask for. They are several, so that no client waits for another.
        background: for all other reads.
    """

    writer: DatabaseSession
    lanes: DatabaseSession
    lists: tuple[DatabaseSession, ...]
    background: DatabaseSession

    def sessions(self) -> list[DatabaseSession]:
        return [self.writer, self.lanes, *self.lists, self.background]


def make_connections(server: Server) -> DatabaseConnections:
    """Return the sessions of a store; they connect when they are first used."""
    return DatabaseConnections(
        DatabaseSession(server, WRITE_PATIENCE),
        DatabaseSession(server),
        tuple(DatabaseSession(server) for _ in range(LIST_CONNECTIONS)),
        DatabaseSession(server, COUNT_PATIENCE),
    )


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
            await self.run(_pid)

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
        return isinstance(cause, psycopg.Error) and cause.sqlstate in _UNREADABLE


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


def is_server_error(error: BaseException) -> bool:
    """Return whether an error is one of the server or the way to it, not a bug or a bad value."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:  # libpq's own: the connection failed. Others come from the driver, for our mistakes.
        return isinstance(error, LOST)
    is_in_function = error.diag.internal_query is not None or bool(_function_of(error))
    is_operators = is_in_function or state in _OPERATORS or _has_old_plan(error)
    return is_operators or not state.startswith(_OURS)


def _function_of(error: psycopg.Error) -> str:
    """Return where in a function an error was raised, in the server's words; empty if in a statement itself.

    Such a function is that of a trigger which an operator has given one of hookgw's tables.
    """
    lines = (error.diag.context or "").splitlines()
    # Other lines may have values of rows.
    return next((line for line in lines if "PL/" in line), "")


def reason_of(error: psycopg.Error) -> str:
    """Return why the server refuses, in one line."""
    if "exit pipeline mode" in str(error) and isinstance(error.__context__, psycopg.Error):
        error = error.__context__  # what ended the pipeline
    primary = error.diag.message_primary
    text = primary or _first_line(error)
    function = _function_of(error)
    where = f", in {function}" if function else ""
    state = f" ({error.sqlstate}{where})" if error.sqlstate else ""
    return f"{text.rstrip('.: ')}{state}."


@contextmanager
def start_errors(server: Server) -> Iterator[None]:
    """Raise errors of the server as :class:`~hookgw.kernel.errors.StartError`."""
    try:
        yield
    except psycopg.errors.InvalidSqlStatementName as error:
        # Odyssey prepares statements under its own names, and does not heed that DEALLOCATE ALL removes them.
        raise _pooler_error(server) from error
    except psycopg.Error as error:
        if all(READ_ONLY in str(one) for one in _each_of(error)):
            raise StartError(
                f"The database {server.place} accepts no writes: it is a standby, or read only is preset.",
                "Name the primary in storage.url, or take the preset back: ALTER ROLE … RESET "
                "default_transaction_read_only (or ALTER DATABASE, or postgresql.conf).",
            ) from error
        raise StartError(
            f"The database {server.place} cannot be used: {reason_of(error)}",
            "Check storage.url, that the server runs and accepts connections from here, and that the user "
            "may create tables there.",
        ) from error


def _reads_only(connection: Connection) -> bool:
    try:
        return connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
    except psycopg.Error:
        return False


# A pooler of transactions gives two clients that take turns the same connection to the server soon, unless
# other clients are faster each time.
_POOLER_TRIES = 10


def check_pooler(connection: Connection, server: Server) -> None:
    """Refuse a pooler that gives each transaction, or each statement, any connection to the server.

    Settings of a connection, its locks and its prepared statements would be those of another one. And refuse
    a pooler that keeps the statements of a pipeline back until its end (PgCat 1.3): no commit would be
    answered.

    Raises:
        StartError: it is such a pooler.
    """
    if _pid(connection) == connection.info.backend_pid:
        return  # a pooler gives its clients numbers of its own
    first, second = set(), set()
    with closing(server.connect()) as other:
        for _ in range(_POOLER_TRIES):
            first.add(_pid(connection))
            second.add(_pid(other))
            if len(first) > 1 or len(second) > 1 or first & second:
                raise _pooler_error(server)
        other.pgconn.enter_pipeline_mode()
        other.pgconn.send_query_params(b"SELECT", None)
        other.pgconn.send_flush_request()
        other.pgconn.flush()
        if not is_answered(other, START_PATIENCE):
            raise StartError(
                f"The database {server.place} is behind a pooler that keeps statements back when it is asked "
                "to pass them on (Flush), as PgCat does.",
                "Take another one, such as pgbouncer with pool_mode = session, or name the address of the "
                "server itself.",
            )


def _pooler_error(server: Server) -> StartError:
    return StartError(
        f"The database {server.place} is behind a pooler of transactions or statements; hookgw needs "
        "connections of its own.",
        'Set pool_mode = session for hookgw\'s database or user in pgbouncer (pool "session" in Odyssey), or '
        "name the address of the server itself.",
    )


def _pid(connection: Connection) -> int:
    return int(one_row(connection, "SELECT pg_backend_pid()")[0])
