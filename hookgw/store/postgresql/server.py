"""Where the database is, and how to connect to it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hookgw.kernel.errors import StartError, StorageUnavailable
from hookgw.store.postgresql.environment import READ_ONLY, prepare
from hookgw.store.postgresql.host_names import HostNames
from hookgw.store.postgresql.identity import Identity, find
from hookgw.store.postgresql.server_errors import first_line, is_server_error, reason_of

# What of libpq's parameters leads to a database.
_WHERE = ("host", "hostaddr", "port", "dbname", "user")

# Seconds. A server that does not answer is noticed in this time: a commit then fails, and its waiters get 503
# within 10 s. The first is for a server that is gone, the second for one whose host does not acknowledge.
CONNECT_TIMEOUT = 2
ACKNOWLEDGE_TIMEOUT = 4

# Seconds of a start in which a connection that was not answered in that time is tried again: the machine may
# be busy, as after a boot, and no lane depends on this process yet.
START_PATIENCE = 10.0

# Beyond this a call is broken off from our side: a frozen server acknowledges, and never answers.
WRITE_PATIENCE = 6.0
READ_PATIENCE = 10.0

# A process that is frozen inside a transaction: the server ends that after so many seconds. A writer
# holds up what all nodes deliver, and keeps others from taking over from it, which is due after 3 s.
FROZEN_WRITER = 2.0
FROZEN_READER = 60.0

TOKEN_LENGTH = 16
"""Characters of :attr:`Server.token`."""


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
            timed_out = any(isinstance(one, psycopg.errors.ConnectionTimeout) for one in each_of(error))
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
        super().__init__("; ".join(first_line(reason) for reason in reasons))
        self.reasons = reasons


def each_of(error: psycopg.Error) -> Sequence[psycopg.Error]:
    return error.reasons if isinstance(error, _NoServer) else [error]


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
