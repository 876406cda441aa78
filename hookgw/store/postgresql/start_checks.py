"""What stops a start: a server that cannot be used, or a pooler that keeps no sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg import Connection

from hookgw.kernel.errors import StartError
from hookgw.store.postgresql.environment import READ_ONLY, is_answered
from hookgw.store.postgresql.lookups import backend_pid
from hookgw.store.postgresql.server import START_PATIENCE, Server, each_of
from hookgw.store.postgresql.server_errors import reason_of

# A pooler of transactions gives two clients that take turns the same connection to the server soon, unless
# other clients are faster each time.
_POOLER_TRIES = 10


@contextmanager
def start_errors(server: Server) -> Iterator[None]:
    """Raise errors of the server as :class:`~hookgw.kernel.errors.StartError`."""
    try:
        yield
    except psycopg.errors.InvalidSqlStatementName as error:
        # Odyssey prepares statements under its own names, and does not heed that DEALLOCATE ALL removes them.
        raise _pooler_error(server) from error
    except psycopg.Error as error:
        if all(READ_ONLY in str(one) for one in each_of(error)):
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


def check_pooler(connection: Connection, server: Server) -> None:
    """Refuse a pooler that gives each transaction, or each statement, any connection to the server.

    Settings of a connection, its locks and its prepared statements would be those of another one. And refuse
    a pooler that keeps the statements of a pipeline back until its end (PgCat 1.3): no commit would be
    answered.

    Raises:
        StartError: it is such a pooler.
    """
    if backend_pid(connection) == connection.info.backend_pid:
        return  # a pooler gives its clients numbers of its own
    first, second = set(), set()
    with closing(server.connect()) as other:
        for _ in range(_POOLER_TRIES):
            first.add(backend_pid(connection))
            second.add(backend_pid(other))
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
