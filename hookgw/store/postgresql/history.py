"""The history: deliveries listed, found, and removed when they are too old or too many.

Walks through the deliveries of an instance compare and sort by the whole key of the index, although the
instance is the same in all rows. So no plan but a walk through that index fits: the server would otherwise
go through the deliveries of all instances when it believes that most of them are of this one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import trio
from psycopg import Connection

from hookgw.records.deliveries import Attempt, DeliveryState, parse_delivery_id
from hookgw.store import searches
from hookgw.store.history import Pruned, SteppedHistory
from hookgw.store.history_rows import DeliveryRow, attempt_of, event_of, summary_of
from hookgw.store.holdings import ROW_BYTES, SAMPLED, Oldest, Part
from hookgw.store.postgresql.database import one_moment
from hookgw.store.postgresql.event_ids import forget_found as forget_found
from hookgw.store.postgresql.event_ids import forget_ids as forget_ids
from hookgw.store.postgresql.event_ids import keep_ids
from hookgw.store.postgresql.event_ids import oldest_ids as oldest_ids
from hookgw.store.postgresql.event_ids import remembered_by_instance as remembered_by_instance
from hookgw.store.postgresql.event_ids import remembered_bytes as remembered_bytes
from hookgw.store.postgresql.lookups import count_rows, instance_number, one_row, sought
from hookgw.store.postgresql.removal import remove
from hookgw.store.postgresql.selection import DIALECT, IS_LISTED
from hookgw.store.postgresql.selection import look_at_payloads as look_at_payloads
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import DeliveryQuery, DeliveryReport, DeliverySummary, micros, seconds

_SUMMARY = """d.seq, e.id, d.kind, i.name, e.time, d.registration, d.lane, d.state, d.reason,
    d.accepted_at, d.attempts, d.next_at, d.finished_at, a.number, a.at, a.duration,
    a.outcome, a.status, a.error, a.answer, a.url"""
_SUMMARY_COLUMNS = len(DeliveryRow.__struct_fields__)
_JOINS = """JOIN events e ON e.seq = d.event
    JOIN instance_numbers i ON i.number = d.instance
    LEFT JOIN attempts a ON a.delivery = d.seq AND a.number = d.attempts"""
_SUMMARIES = f"""SELECT {_SUMMARY} FROM deliveries d {_JOINS}
    WHERE d.seq = ANY(%s) ORDER BY d.seq DESC"""  # noqa: S608 - only the texts above are in it
_FOUND = f"""SELECT {_SUMMARY}, e.data, e.sender, e.server_url,
    (SELECT body FROM bodies WHERE bodies.seq = d.seq) FROM deliveries d {_JOINS}"""  # noqa: S608
_BY_SEQ = f"{_FOUND} WHERE d.seq = %(seq)s AND d.instance = %(instance)s AND {IS_LISTED}"
# An event may have several deliveries: people ask about the newest one.
_BY_EVENT = f"""{_FOUND} WHERE d.seq = (
    SELECT max(d.seq) FROM events m JOIN deliveries d ON d.event = m.seq
    WHERE m.id = %(id)s AND m.instance = %(instance)s AND {IS_LISTED})"""  # noqa: S608
_CONTENT = """SELECT kind, data FROM events
    WHERE id = %(id)s AND instance = %(instance)s AND octet_length(data) > 0"""
# The index of events begins with their ids.
_INSTANCES_OF = """SELECT n.name
    FROM (SELECT instance FROM events WHERE id = %(id)s LIMIT %(most)s) e
    JOIN instance_numbers n ON n.number = e.instance"""
# In the order of the primary key: no sort. A delivery that was resent for days has any number of them.
_ATTEMPTS = """SELECT number, at, duration, outcome, status, error, answer, url, heads
    FROM attempts WHERE delivery = %s ORDER BY number DESC LIMIT %s"""
# The time of the last one of the former step is where the next one begins: the server would otherwise go
# through the entries of removed deliveries each time, which stay in the index until it is cleaned up.
_OLD = """SELECT seq, event, finished_at FROM deliveries
    WHERE finished_at >= %(after)s AND finished_at < %(before)s
    ORDER BY finished_at, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED"""
_OLD_UNHEARD = """SELECT seq FROM events
    WHERE heard = 0 AND accepted_at < %s ORDER BY accepted_at, seq LIMIT %s FOR UPDATE SKIP LOCKED"""
_FINISHED = """SELECT count(*), coalesce(sum(size), 0)::bigint, max(finished_at) FROM (
    SELECT finished_at, size FROM deliveries WHERE finished_at > %s ORDER BY finished_at LIMIT %s) part"""
# Attempts and bodies have no index by which they could be summed. The newest ones tell what is usual.
_USUAL = """SELECT coalesce(avg(
        coalesce((SELECT sum(octet_length(a.answer) + coalesce(octet_length(a.error), 0)
                + coalesce(octet_length(a.heads), 0) + 150)
            FROM attempts a WHERE a.delivery = d.seq), 0)
        + coalesce((SELECT octet_length(b.body) + 60 FROM bodies b WHERE b.seq = d.seq), 0)), 0)::float
    FROM (SELECT seq FROM deliveries WHERE finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT 500) d"""

# On a reading session: those of others may be many, and are passed over. The next step begins behind them.
_OLDEST_OF = """SELECT finished_at, seq, instance, size FROM deliveries
    WHERE (finished_at, seq) > (%(at)s, %(after)s) AND finished_at < %(before)s
        AND instance = ANY(%(holders)s)
    ORDER BY finished_at, seq LIMIT %(rows)s"""
# Again: one may have been sent again meanwhile, or another node may remove it.
_STILL_OLD = """SELECT seq, event FROM deliveries WHERE seq = ANY(%s) AND finished_at < %s
    ORDER BY seq FOR UPDATE SKIP LOCKED"""
# In parts: what each instance holds. All rows of deliveries are read, but of the rest a sample.
_HELD = f"""
    WITH part AS MATERIALIZED (
        SELECT seq, instance, size, finished_at, (seq %% {SAMPLED} = %(sample)s)::integer AS sampled
        FROM deliveries WHERE seq > %(after)s ORDER BY seq LIMIT %(rows)s
    )
    SELECT instance, count(*), sum(size)::bigint, sum(sampled)::bigint, sum(CASE WHEN sampled = 1 THEN
        (SELECT coalesce(sum(octet_length(answer) + coalesce(octet_length(error), 0)
            + coalesce(octet_length(heads), 0) + 150), 0)
            FROM attempts WHERE delivery = part.seq)
        + coalesce((SELECT octet_length(body) FROM bodies WHERE bodies.seq = part.seq), 0)
        ELSE 0 END)::bigint, max(seq)
    FROM part WHERE finished_at IS NOT NULL GROUP BY instance
    UNION ALL SELECT NULL, 0, 0, 0, 0, max(seq) FROM part"""  # noqa: S608 - constants

# Names of removed instances that have no delivery any more. No instance can have such a name, so nothing is
# appended with it, except by a transaction that looked the number up before the instance was removed: those
# have ended if all that are open are younger than the row by far.
_FORGET_INSTANCES = """DELETE FROM instance_numbers WHERE strpos(name, ' ') > 0
    AND age(xmin) > 10000 + pg_snapshot_xmax(pg_current_snapshot())::text::bigint
        - pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.instance = instance_numbers.number)
    AND NOT EXISTS (SELECT FROM log l WHERE l.instance = instance_numbers.number)"""
_FORGET_BEGINS = """DELETE FROM log_begins b WHERE instance <> 0
    AND NOT EXISTS (SELECT FROM instance_numbers WHERE number = b.instance)"""

# Finished deliveries that are measured at a time: others read in between.
MEASURED_ROWS = 200_000
# The history is measured for at most this part of the time: it means to go through an index of all of it.
MEASURED_PART = 0.01
_NEWEST = """SELECT i.name, (
        SELECT d.accepted_at FROM deliveries d
        WHERE (d.instance, d.seq) < (i.number, %s) AND d.instance >= i.number
        ORDER BY d.instance DESC, d.seq DESC LIMIT 1)
    FROM instance_numbers i WHERE i.name = ANY(%s)"""


def search_deliveries(
    connection: Connection, query: DeliveryQuery, bounds: Mapping[str, int], *, by_time: bool = False
) -> searches.SearchPart:
    conditions, given = DIALECT.conditions_of(query, query.registrations)
    given |= {**bounds, "first": query.failed_since or 0}
    if query.instance is not None:
        given["instance"] = instance_number(connection, query.instance)
        if given["instance"] is None:
            return searches.SearchPart([], 0, None)
    elif query.among is not None:
        conditions.insert(0, "instance IN (SELECT number FROM instance_numbers WHERE name = ANY(%(among)s))")
        given["among"] = [sought(name) for name in query.among]
    source, order = "deliveries d WHERE d.seq < %(before)s AND d.seq >= %(first)s", "d.seq DESC"
    state = None if query.state is None else DeliveryState(query.state)
    given["state"] = None if state is None else state.value
    is_undelivered = state is not None and state is not DeliveryState.DELIVERED
    if by_time:
        source = """(SELECT * FROM deliveries WHERE finished_at >= %(finished)s OFFSET 0) d
            WHERE d.seq < %(before)s"""
        if query.instance is not None:
            source += " AND d.instance = %(instance)s"
    elif query.instance is not None and is_undelivered:
        source = """deliveries d WHERE d.state <> 'delivered'
            AND (d.instance, d.state, d.seq) < (%(instance)s, %(state)s, %(before)s)
            AND (d.instance, d.state, d.seq) >= (%(instance)s, %(state)s, %(first)s)"""
        order = "d.instance DESC, d.state DESC, d.seq DESC"
    elif query.instance is not None:
        source = """deliveries d WHERE (d.instance, d.seq) < (%(instance)s, %(before)s)
            AND (d.instance, d.seq) >= (%(instance)s, %(first)s)"""
        order = "d.instance DESC, d.seq DESC"
    if state is not None and not (query.instance is not None and is_undelivered):
        conditions.append("d.state = %(state)s")
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT d.seq, {" AND ".join(conditions)} AS matches FROM {source}
            ORDER BY {order} LIMIT %(rows)s
        )
        SELECT count(*), min(seq),
            ARRAY(SELECT seq FROM looked_at WHERE matches ORDER BY seq DESC LIMIT %(wanted)s)
        FROM looked_at"""  # noqa: S608 - only the texts above are in it
    count, last, seqs = one_row(connection, statement, given)
    return searches.SearchPart(summaries(connection, seqs), count, last)


def find_delivery(
    connection: Connection, instance: str, name: str, *, without_global: bool = False
) -> DeliveryReport | None:
    number = instance_number(connection, instance)
    if number is None:
        return None
    seq = parse_delivery_id(name)
    given = {"seq": seq, "id": sought(name), "instance": number, "without_global": without_global}
    found = None
    with one_moment(connection):
        if seq is not None and seq <= searches.LAST:
            found = connection.execute(_BY_SEQ, given).fetchone()
        # An event may have any id, also an id that looks like a delivery's.
        found = found or connection.execute(_BY_EVENT, given).fetchone()
        if not found:
            return None
        row = _row(found[:_SUMMARY_COLUMNS])
        data, sender, server_url, body = found[_SUMMARY_COLUMNS:]
        attempts = connection.execute(_ATTEMPTS, (row.seq, searches.MOST_ATTEMPTS)).fetchall()
    return DeliveryReport(
        summary=summary_of(row),
        event=event_of(row.instance, row.event_id, row.kind, row.time, data, sender, server_url),
        attempts=tuple(attempt_of(*attempt) for attempt in reversed(attempts)),
        body=body,
    )


def find_content(connection: Connection, instance: str, event_id: str) -> tuple[str, bytes] | None:
    number = instance_number(connection, instance)
    if number is None:
        return None
    found = connection.execute(_CONTENT, {"id": sought(event_id), "instance": number}).fetchone()
    return None if found is None else (found[0], bytes(found[1]))


def instances_of_event(connection: Connection, event_id: str, most: int) -> list[str]:
    rows = connection.execute(_INSTANCES_OF, {"id": sought(event_id), "most": most}).fetchall()
    return [name for (name,) in rows]


def last_attempt(connection: Connection, seq: int) -> Attempt | None:
    row = connection.execute(_ATTEMPTS, (seq, 1)).fetchone()
    return None if row is None else attempt_of(*row)


def summaries(connection: Connection, seqs: Sequence[int]) -> list[DeliverySummary]:
    """Return deliveries as lists show them, the newest first."""
    lines = connection.execute(_SUMMARIES, (list(seqs),)).fetchall() if seqs else []
    return [summary_of(_row(line)) for line in lines]


def _row(line: tuple[Any, ...]) -> DeliveryRow:
    return msgspec.convert(line, DeliveryRow)


def newest(connection: Connection, instances: Collection[str]) -> dict[str, float]:
    rows = connection.execute(_NEWEST, (searches.LAST, [sought(name) for name in instances])).fetchall()
    return {name: seconds(at) for name, at in rows if at is not None}


def prune(transaction: Transaction, before: float, after: int, limit: int) -> Pruned:
    connection, end = transaction.connection, micros(before)
    rows = connection.execute(_OLD, {"before": end, "after": after, "limit": limit}).fetchall()
    last = after
    if rows:
        remove(connection, [seq for seq, _, _ in rows], {event for _, event, _ in rows})
        last = max(finished_at for _, _, finished_at in rows)
    # If older deliveries are left, events without deliveries that are younger than those removed stay too.
    until = last if len(rows) == limit else end
    unheard = [seq for (seq,) in connection.execute(_OLD_UNHEARD, (until, limit))]
    if unheard:
        keep_ids(connection, unheard)
    transaction.count_rows(len(rows) + len(unheard))
    return Pruned(len(rows) + len(unheard), last)


def count_held(connection: Connection, given: dict[str, int]) -> tuple[int | None, list[Part]]:
    *found, (*_, last) = connection.execute(_HELD, given).fetchall()
    return last, [Part(*row[:5]) for row in found]


def find_oldest(
    connection: Connection, holders: Sequence[int], after: Oldest, before: float, *, rows: int
) -> list[Oldest]:
    given = {"holders": list(holders), "at": after.at, "after": after.seq, "before": micros(before)}
    return [Oldest(*row) for row in connection.execute(_OLDEST_OF, {**given, "rows": rows})]


def remove_oldest(transaction: Transaction, found: Sequence[Oldest], before: float) -> tuple[int, int]:
    # The bytes are what they took: the server does not tell what it uses.
    given = ([one.seq for one in found], micros(before))
    rows = transaction.connection.execute(_STILL_OLD, given).fetchall()
    size = 0
    if rows:
        size = remove(transaction.connection, [seq for seq, _ in rows], {event for _, event in rows})
    transaction.count_rows(len(rows))
    return len(rows), size + ROW_BYTES * len(rows)


def _forget_instances(transaction: Transaction) -> None:
    transaction.count_rows(count_rows(transaction.connection, _FORGET_INSTANCES))
    transaction.connection.execute(_FORGET_BEGINS)


class PostgresqlHistory(SteppedHistory[Connection, Transaction]):
    held_rows = MEASURED_ROWS

    _measure_at = -math.inf

    async def _forget_names(self) -> None:
        await self._commits.call(_forget_instances)

    async def _remove_excess(self, limit: int, rest: int, now: float) -> int:  # noqa: ARG002 -- measured apart
        used = await self._measure()
        if used <= limit:
            return 0
        size = used - limit

        async def is_enough(freed: int) -> bool:
            nonlocal size
            size -= freed
            return size <= 0

        removed, _ = await self._remove_in_turn(limit / used, now, is_enough)
        return removed

    async def _measure(self) -> float:
        """Return about how many bytes the history takes; 0 if it was measured not long ago."""
        started = trio.current_time()
        if started < self._measure_at:
            return 0
        count, size, rows, last = 0, 0, MEASURED_ROWS, -1
        while rows == MEASURED_ROWS:
            part = partial(one_row, statement=_FINISHED, given=(last, MEASURED_ROWS))
            rows, bytes_of, last = await self._background.run(part)
            count, size = count + rows, size + bytes_of
        (usual,) = await self._background.run(partial(one_row, statement=_USUAL))
        now = trio.current_time()
        self._measure_at = now + (now - started) / MEASURED_PART
        return float(size + count * (ROW_BYTES + usual))
