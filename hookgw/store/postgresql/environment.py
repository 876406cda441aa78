"""What a role, a database or the server presets for a connection, and what hookgw needs instead.

Operators preset settings for reasons of their own (``ALTER ROLE … SET``, ``ALTER DATABASE … SET``). Each of
those below would change what statements mean, what the server answers, or what a commit promises. So every
connection sets them. What only a superuser may set stops the start if it would lose something silently.
"""

from __future__ import annotations

import selectors
import time

from psycopg import Connection, OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from hookgw.kernel.errors import StartError

# The first with pg_current_xact_id, whose numbers never start over.
OLDEST_SERVER = 130000

_SET = """SELECT current_setting('transaction_read_only'), set_config(name, value, false)
    FROM unnest(%s::text[], %s::text[]) AS preset (name, value)"""
# "on", "local", "remote_write" and "remote_apply" all mean that a commit is on the server's disk. What is not
# set here changes for an open connection when the server reads its configuration again. And a pooler may give
# the connection of a former client as that client left it (pgbouncer with an empty server_reset_query). The
# prepared statements of that client are removed, because the driver uses the same names.
_BEGIN = b"""SELECT set_config('synchronous_commit',
        coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false);
    DEALLOCATE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all()"""

READ_ONLY = "session is read-only"
"""What libpq says of such a server, too. It has no code for it."""

ALWAYS = {
    # Each statement of a transaction sees what others have committed; a conflict is no error.
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # With policies on our tables, rows would be missing without an error: deliveries would be skipped, and
    # outcomes lost. So it is an error.
    "row_security": "off",
    # How values are written and read.
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
    # Errors leave the connection as it is.
    "exit_on_error": "off",
    "client_min_messages": "warning",
    # Plans: by index, whatever the statistics say of a table that has just grown.
    "enable_seqscan": "off",
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_bitmapscan": "on",
    "jit": "off",
    # Where tables go.
    "default_tablespace": "",
    "default_table_access_method": "heap",
}
"""The settings of every connection, whatever is preset."""
_SINCE = {
    140000: {"idle_session_timeout": "0"},
    170000: {"transaction_timeout": "0"},
}
"""Settings that servers know from a version on."""
_ONLY_SUPERUSERS = {
    "session_replication_role": ("origin", "the triggers that tell nodes of changed records would not run"),
    "zero_damaged_pages": ("off", "damaged pages would become empty ones, without an error"),
    "ignore_checksum_failure": ("off", "damaged pages would be read as if they were whole"),
}


def prepare(
    connection: Connection, schema: str, *, within: float, statement: float, transaction: float, plans: str
) -> None:
    """Give a new connection the settings that hookgw needs.

    Args:
        within: seconds in which the server must answer.
        statement: seconds after which the server gives a statement up; 0 for never.
        transaction: seconds after which it ends a transaction that does nothing.
        plans: whether statements are planned each time (``plan_cache_mode``).

    Raises:
        OperationalError: the server does not answer in time, or accepts no writes.
    """
    connection.pgconn.send_query(_BEGIN)
    while True:
        # A pooler answers the log-in by itself, and lets the first statement wait for minutes. The driver
        # would wait without end, and let no other thread of the process run meanwhile.
        if not is_answered(connection, within):
            raise OperationalError(
                f"no answer within {within:g} s: a pooler in between may have no free connection to the "
                "server"
            )
        if (result := connection.pgconn.get_result()) is None:
            break
        if result.status == ExecStatus.FATAL_ERROR:
            error = error_from_result(result)
            raise error if error.sqlstate else OperationalError(str(error))  # libpq's: the connection is lost
    quoted = schema.replace('"', '""')
    chosen = {
        **ALWAYS,
        "search_path": f'"{quoted}"',
        "statement_timeout": str(int(statement * 1000)),
        # Sooner, so that the reason is the lock, as during a VACUUM FULL, and not a slow statement.
        "lock_timeout": str(int(statement * 900)),
        "idle_in_transaction_session_timeout": str(int(transaction * 1000)),
        "plan_cache_mode": plans,
    }
    for version, settings in _SINCE.items():
        if connection.info.server_version >= version:
            chosen |= settings
    row = connection.execute(_SET, (list(chosen), list(chosen.values()))).fetchone()
    if row is not None and row[0] == "on":
        raise OperationalError(READ_ONLY)


def is_answered(connection: Connection, within: float) -> bool:
    """Wait for a result, for so many seconds. A notice is none: pgbouncer 1.25 sends one to who must wait."""
    deadline = time.monotonic() + within
    with selectors.DefaultSelector() as answer:
        answer.register(connection.fileno(), selectors.EVENT_READ)
        while connection.pgconn.is_busy():
            if not answer.select(max(0.0, deadline - time.monotonic())):
                return False
            connection.pgconn.consume_input()
    return True


def check_server(connection: Connection, place: str) -> None:
    """Refuse a server that cannot keep what hookgw promises.

    Raises:
        StartError: it is too old, stores texts in another encoding than UTF-8, or presets what no client may
            change.
    """
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StartError(
            f"The database {place} is on PostgreSQL {version // 10000}; hookgw needs "
            f"{OLDEST_SERVER // 10000} or newer."
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StartError(
            f"The database {place} stores texts as {encoding}, which lacks characters of events and answers.",
            "Create one with: CREATE DATABASE hookgw ENCODING 'UTF8' TEMPLATE template0.",
        )
    for name, (needed, why) in _ONLY_SUPERUSERS.items():
        row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
        if row is not None and row[0] not in (needed, None):
            raise StartError(
                f"The database {place} has {name} = {row[0]} for hookgw's user: {why}.",
                f"Set it to {needed}: ALTER ROLE … SET {name} = {needed}.",
            )
