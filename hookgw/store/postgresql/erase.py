"""Erasing what concerns a person: events found by their payloads, then removed with all that belongs to them.

The server looks which payloads have the text, and this process whether it is a value in them.

The server keeps removed rows until it has cleaned up the tables, which :func:`remove_dead_rows` asks for.
Their bytes may stay in unused parts of pages after that, and in the server's log of changes and all that is
made of it, until they are overwritten: a client of the server cannot remove those.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing
from typing import Any

import structlog
from psycopg import Connection
from psycopg.errors import LockNotAvailable, QueryCanceled

from hookgw.store.erasure_statements import ROWS, SEARCH_BYTES, UNWANTED_ROWS, ErasedDelivery
from hookgw.store.persons import Person, names_person, person
from hookgw.store.postgresql.event_ids import forget_ids_with
from hookgw.store.postgresql.lookups import instance_number, one_row
from hookgw.store.postgresql.moments import Moment
from hookgw.store.postgresql.removal import remove
from hookgw.store.postgresql.selection import ALL, PENDING
from hookgw.store.postgresql.server import Server
from hookgw.store.records import Concerned

logger = structlog.get_logger("hookgw.store")

# Seconds for each table, and for what may still read erased rows.
SCRUB_PATIENCE = 20.0
_HOLDERS_INTERVAL = 0.2
_MOST_NAMED = 5
_NEWEST = "SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint %% 4294967296)::text"
# What has a snapshot of a time before a transaction. Without pg_read_all_stats, a user sees its own sessions.
_HOLDERS = """SELECT 'transaction of', pid, usename, application_name FROM pg_stat_activity
        WHERE age(backend_xmin) > age(%s::xid) AND pid <> pg_backend_pid() AND datname = current_database()
    UNION ALL SELECT 'prepared transaction', NULL, owner, gid FROM pg_prepared_xacts
        WHERE age(transaction) > age(%s::xid) AND database = current_database()
    UNION ALL SELECT 'replication slot', active_pid, NULL, slot_name FROM pg_replication_slots
        WHERE age(xmin) > age(%s::xid)"""

# A payload without the text, and without an escape that may be in its spelling, is not read. Each event is
# looked up by itself: a plan that goes through all events would read all payloads.
_FIND = """
    WITH looked_at AS MATERIALIZED (
        SELECT seq, event, size FROM deliveries WHERE {source} LIMIT %(rows)s
    ),
    summed AS (SELECT seq, event, sum(size) OVER (ORDER BY seq) - size AS before_it FROM looked_at),
    chosen AS MATERIALIZED (SELECT seq, event FROM summed WHERE before_it < %(bytes)s)
    SELECT (SELECT count(*) FROM looked_at), count(*), max(seq), ARRAY(
        SELECT e.seq FROM (SELECT DISTINCT event FROM chosen) one
        CROSS JOIN LATERAL (SELECT seq, data FROM events WHERE events.seq = one.event OFFSET 0) e
        WHERE position(%(first)s::bytea IN e.data) > 0 OR position(%(second)s::bytea IN e.data) > 0)
    FROM chosen"""
# The same of events without deliveries, which no index has by instance. Erasures are few.
_FIND_UNWANTED = """
    WITH looked_at AS MATERIALIZED (
        SELECT accepted_at, seq FROM events WHERE heard = 0 AND (accepted_at, seq) > (%(at)s, %(after)s)
        ORDER BY accepted_at, seq LIMIT %(rows)s
    ),
    ours AS MATERIALIZED (
        SELECT l.accepted_at, l.seq, e.size FROM looked_at l CROSS JOIN LATERAL (
            SELECT instance, octet_length(data) AS size FROM events WHERE events.seq = l.seq OFFSET 0) e
        WHERE e.instance = %(instance)s AND l.seq <= %(newest)s
    ),
    summed AS (SELECT *, sum(size) OVER (ORDER BY accepted_at, seq) - size AS before_it FROM ours),
    chosen AS MATERIALIZED (SELECT accepted_at, seq FROM summed WHERE before_it < %(bytes)s)
    SELECT (SELECT count(*) FROM looked_at), (SELECT count(*) FROM ours), (SELECT count(*) FROM chosen),
        (SELECT ARRAY[accepted_at, seq] FROM looked_at ORDER BY accepted_at DESC, seq DESC LIMIT 1),
        (SELECT ARRAY[accepted_at, seq] FROM chosen ORDER BY accepted_at DESC, seq DESC LIMIT 1),
        ARRAY(SELECT e.seq FROM chosen c
            CROSS JOIN LATERAL (SELECT seq, data FROM events WHERE events.seq = c.seq OFFSET 0) e
            WHERE position(%(first)s::bytea IN e.data) > 0 OR position(%(second)s::bytea IN e.data) > 0)"""
_PAYLOADS = "SELECT seq, data FROM events WHERE seq = ANY(%s)"
_EVENTS = "SELECT seq FROM events WHERE seq = ANY(%s) AND heard >= 0"
_DELIVERIES = """SELECT d.event, d.seq, d.state, d.registration, i.name, d.size
    FROM deliveries d JOIN instance_numbers i ON i.number = d.instance
    WHERE d.event = ANY(%s) ORDER BY d.seq FOR UPDATE OF d"""


def find_concerned(
    connection: Connection, instance: str, value: str, *, after: int, now: Moment, pending: bool
) -> Concerned:
    number = instance_number(connection, instance)
    if number is None:
        return Concerned([], None)
    named = person(value)
    given = {**_sought(number, named), "after": after, "newest": now.newest, "rows": ROWS}
    statement = _FIND.format(source=PENDING if pending else ALL)
    looked_at, chosen, last, events = one_row(connection, statement, given)
    is_end = looked_at < ROWS and chosen == looked_at
    return Concerned(_concerned(connection, events, named), None if is_end else f"{last}-{now}")


def find_unwanted(
    connection: Connection, instance: str, value: str, *, after: tuple[int, int], newest: int
) -> tuple[list[int], tuple[int, int] | None]:
    number = instance_number(connection, instance)
    if number is None:
        return [], None
    named, rows = person(value), UNWANTED_ROWS * ROWS
    given = {**_sought(number, named), "at": after[0], "after": after[1], "newest": newest, "rows": rows}
    looked_at, ours, chosen, last, last_chosen, events = one_row(connection, _FIND_UNWANTED, given)
    if chosen < ours:
        last = last_chosen
    elif looked_at < rows:
        last = None
    return _concerned(connection, events, named), None if last is None else (last[0], last[1])


def _sought(instance: int, named: Person) -> dict[str, Any]:
    first, second = named.spellings
    return {"instance": instance, "first": first, "second": second, "bytes": SEARCH_BYTES}


def _concerned(connection: Connection, events: list[int], named: Person) -> list[int]:
    """Return which of some events concern a person. Together they have no more bytes than a search."""
    if not events:
        return []
    payloads = connection.execute(_PAYLOADS, (events,))
    return sorted(seq for seq, data in payloads if names_person(data, named))


def find_events(connection: Connection, events: Collection[int]) -> list[int]:
    return [seq for (seq,) in connection.execute(_EVENTS, (list(events),))]


def find_deliveries(connection: Connection, events: Collection[int]) -> list[ErasedDelivery]:
    return [ErasedDelivery(*row) for row in connection.execute(_DELIVERIES, (list(events),))]


def remove_events(
    connection: Connection, seqs: Collection[int], events: Collection[int], named: Person
) -> None:
    remove(connection, seqs, events, is_pruned=False)
    forget_ids_with(connection, events, named)


def remove_dead_rows(server: Server) -> bool:
    """Have the server clean up the tables that had what was erased.

    The server keeps what somebody may still read: a transaction that was open before the erasure, a prepared
    one, or a replica. This waits for them, for some seconds.

    Returns:
        Whether it did. The log says what was in the way.

    Raises:
        StorageUnavailable: the server refuses.
    """
    notices: list[str] = []
    deadline = time.monotonic() + SCRUB_PATIENCE
    with server.errors(), closing(server.connect(SCRUB_PATIENCE)) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        # Everything that was erased is below this transaction.
        (newest,) = one_row(connection, _NEWEST)
        while holders := connection.execute(_HOLDERS, (newest,) * 3).fetchall():
            if time.monotonic() >= deadline:
                logger.warning(
                    "erased rows stay in the database: something may still read them",
                    database=server.place,
                    holders=[" ".join(map(str, holder)) for holder in holders[:_MOST_NAMED]],
                )
                return False
            time.sleep(_HOLDERS_INTERVAL)
        try:
            for table in ("events", "log", "deliveries", "attempts", "bodies"):
                connection.execute(f"VACUUM {table}")
        except (LockNotAvailable, QueryCanceled):
            notices.append("another transaction has locked a table")
        if notices:
            # A table whose owner somebody else is, for example: the server skips it, with a notice alone.
            logger.warning("the server has not cleaned up", database=server.place, reason=notices[0])
        return not notices
