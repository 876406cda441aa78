"""The history: deliveries listed, found, and removed when they are too old or too many."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import msgspec

from hookgw.records.deliveries import Attempt, DeliveryState, parse_delivery_id
from hookgw.store import searches
from hookgw.store.history import Pruned, SteppedHistory
from hookgw.store.history_rows import DeliveryRow, attempt_of, event_of, summary_of
from hookgw.store.holdings import SAMPLED, Oldest, Part
from hookgw.store.log import PRUNE_BYTES
from hookgw.store.records import DeliveryQuery, DeliveryReport, micros, seconds
from hookgw.store.sqlite.bulk import as_json
from hookgw.store.sqlite.event_ids import forget_found as forget_found
from hookgw.store.sqlite.event_ids import forget_ids as forget_ids
from hookgw.store.sqlite.event_ids import keep_ids
from hookgw.store.sqlite.event_ids import oldest_ids as oldest_ids
from hookgw.store.sqlite.event_ids import remembered_by_instance as remembered_by_instance
from hookgw.store.sqlite.event_ids import remembered_bytes as remembered_bytes
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.name_pruning import NamePruning
from hookgw.store.sqlite.selection import DIALECT, IS_LISTED
from hookgw.store.sqlite.selection import look_at_payloads as look_at_payloads
from hookgw.store.sqlite.settle import remove
from hookgw.store.sqlite.transaction import Transaction

# One JSON value for each delivery, and one row for a whole list: each step of a statement costs a wait for
# Python's lock. The names of instances have a prefix; see name_ids.py.
_SUMMARY = """json_array(d.seq, e.id, k.name, substr(i.name, 2), e.time, r.name, l.name, d.state, d.reason,
    d.accepted_at, d.attempts, d.next_at, d.finished_at, a.number, a.at, a.duration,
    a.outcome, a.status, a.error, a.answer, (SELECT substr(name, 2) FROM names WHERE number = a.url))"""
_JOINS = """
    CROSS JOIN events e ON e.seq = d.event
    CROSS JOIN names k ON k.number = d.kind
    CROSS JOIN names i ON i.number = d.instance
    CROSS JOIN names r ON r.number = d.registration
    CROSS JOIN names l ON l.number = d.lane
    LEFT JOIN attempts a ON a.delivery = d.seq AND a.number = d.attempts"""
_FOUND = f"""SELECT {_SUMMARY}, e.data, e.sender, e.server_url,
    (SELECT body FROM bodies WHERE bodies.seq = d.seq) FROM deliveries d {_JOINS}"""  # noqa: S608
_BY_SEQ = f"{_FOUND} WHERE d.seq = :seq AND i.name = :instance AND {IS_LISTED}"
# An event may have several deliveries: people ask about the newest one.
_BY_EVENT = f"""{_FOUND} WHERE d.seq = (
    SELECT max(n.seq) FROM deliveries n JOIN events m ON m.seq = n.event
    WHERE m.id = :id AND m.instance = (SELECT number FROM names WHERE name = :instance) AND {IS_LISTED})"""  # noqa: S608
_CONTENT = """SELECT k.name, e.data FROM events e CROSS JOIN names k ON k.number = e.kind
    WHERE e.id = :id AND e.instance = (SELECT number FROM names WHERE name = :instance)
    AND length(e.data)"""
# The index of events begins with their ids. The names of instances have a prefix; see name_ids.py.
_INSTANCES_OF = """SELECT json_group_array(substr(i.name, 2))
    FROM (SELECT instance FROM events WHERE id = :id LIMIT :most) e
    CROSS JOIN names i ON i.number = e.instance"""
# In the order of the primary key: no sort. A delivery that was resent for days has any number of them.
_ATTEMPTS = """SELECT number, at, duration, outcome, status, error, answer,
        (SELECT substr(name, 2) FROM names WHERE names.number = url), heads
    FROM attempts WHERE delivery = ? ORDER BY number DESC LIMIT ?"""

_OLD = """
    WITH old AS MATERIALIZED (
        SELECT seq, event, finished_at, size FROM deliveries
        WHERE finished_at >= :after AND finished_at < :end
        ORDER BY finished_at LIMIT :rows
    ),
    summed AS (SELECT *, sum(size) OVER (ORDER BY finished_at, seq) - size AS before_it FROM old)
    SELECT json_group_array(seq), json_group_array(DISTINCT event), count(*), max(finished_at),
        (SELECT count(*) FROM old)
    FROM summed WHERE before_it < :bytes"""
_OLD_UNHEARD = """SELECT json_group_array(seq), count(*) FROM (
    SELECT seq FROM events INDEXED BY unheard WHERE heard = 0 AND accepted_at < :end LIMIT :rows)"""
# Two numbers that the file keeps: it costs next to nothing.
_USED = """SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
# How many rows parts of the file have, and about how many bytes these take. An event is a row of about 60
# bytes beside its payload. As many as fit share a page of 4,096 bytes; a larger one fills pages of its own,
# and its rest shares one. All else of a delivery takes 210 bytes. The walk through the index takes 0.1 s for
# a million pending deliveries, beside the commits.
OUTBOX_SIZE = """SELECT count(*), coalesce(sum(
        210 + iif(size < 4000, 4096 / max(1, 4060 / (size + 60)), size + 400)), 0)
    FROM deliveries INDEXED BY outbox WHERE state = 'pending'"""
RECORDS_SIZE = "SELECT count(*), coalesce(sum(length(key) + length(value) + 60), 0) FROM shelves"
AUDIT_SIZE = "SELECT count(*), coalesce(sum(length(entry) + 120), 0) FROM audit"
FIGURES_SIZE = "SELECT count(*), coalesce(sum(length(more) + 40), 0) FROM figures"

# In parts, by number: what each instance holds. All of the table is read, but of the rest a sample.
_HELD = f"""
    WITH part AS MATERIALIZED (
        SELECT seq, instance, size, finished_at, seq % {SAMPLED} = :sample AS sampled
        FROM deliveries NOT INDEXED WHERE seq > :after ORDER BY seq LIMIT :rows
    ),
    counted AS (
        SELECT instance, count(*) AS count, sum(size) AS size, sum(sampled) AS sampled, sum(iif(sampled,
            (SELECT coalesce(sum(length(answer) + coalesce(length(heads), 0) + 150), 0)
                FROM attempts WHERE delivery = part.seq)
            + coalesce((SELECT length(body) FROM bodies WHERE bodies.seq = part.seq), 0), 0)) AS more
        FROM part WHERE finished_at IS NOT NULL GROUP BY instance
    )
    SELECT (SELECT max(seq) FROM part),
        (SELECT json_group_array(json_array(instance, count, size, sampled, more)) FROM counted)"""  # noqa: S608
# On a reading connection: those of others may be many, and are passed over. The next step begins behind them.
_OLDEST_OF = """
    WITH old AS MATERIALIZED (
        SELECT finished_at, seq, instance, size FROM deliveries INDEXED BY finished
        WHERE (finished_at, seq) > (:at, :after) AND finished_at < :end
            AND instance IN (SELECT value FROM json_each(:holders))
        ORDER BY finished_at, seq LIMIT :rows
    ),
    summed AS (SELECT *, sum(size) OVER (ORDER BY finished_at, seq) - size AS before_it FROM old)
    SELECT json_group_array(json(line)) FROM (
        SELECT json_array(finished_at, seq, instance, size) AS line FROM summed
        WHERE before_it < :bytes ORDER BY finished_at, seq)"""
# Again: one may have been sent again meanwhile.
_STILL_OLD = """SELECT json_group_array(seq), json_group_array(DISTINCT event), count(*) FROM deliveries
    WHERE seq IN (SELECT value FROM json_each(:seqs)) AND finished_at < :end"""

SUMMARIES = f"""SELECT json_group_array(json(line)) FROM (SELECT {_SUMMARY} AS line
    FROM json_each(?) c CROSS JOIN deliveries d ON d.seq = c.value {_JOINS} ORDER BY d.seq DESC)"""  # noqa: S608
"""SQL: the summaries of deliveries, whose numbers come as a JSON array, the newest first."""

_names_of = msgspec.json.Decoder(list[str]).decode
_parts_of = msgspec.json.Decoder(list[Part]).decode
_oldest_of = msgspec.json.Decoder(list[Oldest]).decode
_newest_of = msgspec.json.Decoder(dict[str, int]).decode
_row_of = msgspec.json.Decoder(DeliveryRow).decode
delivery_rows_of = msgspec.json.Decoder(list[DeliveryRow]).decode
_NEWEST = """SELECT json_group_object(substr(name, 2), at) FROM (
    SELECT value AS name, (
        SELECT accepted_at FROM deliveries INDEXED BY history
        WHERE instance = (SELECT number FROM names WHERE name = value) ORDER BY seq DESC LIMIT 1
    ) AS at FROM json_each(?)) WHERE at IS NOT NULL"""


def search_deliveries(
    connection: sqlite3.Connection, query: DeliveryQuery, bounds: Mapping[str, int], *, by_time: bool = False
) -> searches.SearchPart:
    conditions, given = DIALECT.conditions_of(query, query.registrations)
    given |= bounds
    state = None if query.state is None else DeliveryState(query.state)
    source = "deliveries NOT INDEXED WHERE"
    if query.instance is not None:
        given["instance"] = of_instance(query.instance)
        source = "deliveries INDEXED BY history WHERE"
    if state is DeliveryState.DELIVERED or (state is not None and query.instance is None):
        conditions.append(f"state = '{state.value}'")
    elif state is not None:
        # Written out and said twice, so that the index of undelivered deliveries can be used.
        source = f"""deliveries INDEXED BY undelivered
            WHERE state <> 'delivered' AND state = '{state.value}' AND"""
    if by_time:
        source = "deliveries INDEXED BY finished WHERE finished_at >= :finished AND"
    if query.instance is not None:
        source += " instance = (SELECT number FROM names WHERE name = :instance) AND"
    elif query.among is not None:
        conditions.insert(
            0, "instance IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:among)))"
        )
        given["among"] = as_json([of_instance(name) for name in query.among])
    if query.failed_since is not None:
        source += " seq >= :failed_since AND"  # the walk ends there
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join(conditions)} AS matches FROM {source} seq < :before
            ORDER BY seq DESC LIMIT :rows
        ),
        chosen AS (SELECT seq FROM looked_at WHERE matches ORDER BY seq DESC LIMIT :wanted)
        SELECT (SELECT count(*) FROM looked_at), (SELECT min(seq) FROM looked_at), (
            SELECT json_group_array(json(line)) FROM (
                SELECT {_SUMMARY} AS line FROM chosen c
                CROSS JOIN deliveries d ON d.seq = c.seq {_JOINS} ORDER BY d.seq DESC))"""  # noqa: S608 - only the texts above are in it
    count, last, lines = connection.execute(statement, given).fetchone()
    found = [summary_of(row) for row in delivery_rows_of(lines)]
    return searches.SearchPart(found, count, last)


def find_delivery(
    connection: sqlite3.Connection, instance: str, name: str, *, without_global: bool = False
) -> DeliveryReport | None:
    given = {
        "seq": parse_delivery_id(name),
        "id": name,
        "instance": of_instance(instance),
        "without_global": without_global,
    }
    found = given["seq"] is not None and connection.execute(_BY_SEQ, given).fetchone()
    # An event may have any id, also an id that looks like a delivery's.
    found = found or connection.execute(_BY_EVENT, given).fetchone()
    if not found:
        return None
    line, data, sender, server_url, body = found
    row = _row_of(line)
    event = event_of(row.instance, row.event_id, row.kind, row.time, data, sender, server_url)
    rows = connection.execute(_ATTEMPTS, (row.seq, searches.MOST_ATTEMPTS))
    attempts = [attempt_of(*attempt) for attempt in rows]
    return DeliveryReport(summary=summary_of(row), event=event, attempts=tuple(reversed(attempts)), body=body)


def find_content(connection: sqlite3.Connection, instance: str, event_id: str) -> tuple[str, bytes] | None:
    found = connection.execute(_CONTENT, {"id": event_id, "instance": of_instance(instance)}).fetchone()
    return None if found is None else (found[0], bytes(found[1]))


def instances_of_event(connection: sqlite3.Connection, event_id: str, most: int) -> list[str]:
    return _names_of(connection.execute(_INSTANCES_OF, {"id": event_id, "most": most}).fetchone()[0])


def last_attempt(connection: sqlite3.Connection, seq: int) -> Attempt | None:
    row = connection.execute(_ATTEMPTS, (seq, 1)).fetchone()
    return None if row is None else attempt_of(*row)


def newest(connection: sqlite3.Connection, instances: Collection[str]) -> dict[str, float]:
    names = as_json([of_instance(name) for name in instances])
    found = _newest_of(connection.execute(_NEWEST, (names,)).fetchone()[0])
    return {name: seconds(at) for name, at in found.items()}


def prune(transaction: Transaction, before: float, after: int, limit: int) -> Pruned:
    given = {"after": after, "end": micros(before), "rows": limit, "bytes": PRUNE_BYTES}
    row: tuple[str, str, int, int, int] = transaction.connection.execute(_OLD, given).fetchone()
    seqs, events, count, last, found = row
    if count:
        remove(transaction.connection, seqs, events)
    # If older deliveries are left, events without deliveries that are younger than those removed stay too.
    if found == limit or count < found:
        given["end"] = last
    events, unheard = transaction.connection.execute(_OLD_UNHEARD, given).fetchone()
    if unheard:
        keep_ids(transaction.connection, events)
    transaction.count_rows(count + unheard)
    return Pruned(count + unheard, last if count else after)


def count_held(connection: sqlite3.Connection, given: dict[str, int]) -> tuple[int | None, list[Part]]:
    last, parts = connection.execute(_HELD, given).fetchone()
    return last, _parts_of(parts)


def find_oldest(
    connection: sqlite3.Connection,
    holders: Sequence[int],
    after: Oldest,
    before: float,
    *,
    rows: int,
) -> list[Oldest]:
    given = {"holders": as_json(holders), "at": after.at, "after": after.seq, "end": micros(before)}
    return _oldest_of(
        connection.execute(_OLDEST_OF, {**given, "rows": rows, "bytes": PRUNE_BYTES}).fetchone()[0]
    )


def remove_oldest(transaction: Transaction, found: Sequence[Oldest], before: float) -> tuple[int, int]:
    # The bytes are those of the ids: the file tells what it uses.
    given = {"seqs": as_json([one.seq for one in found]), "end": micros(before)}
    seqs, events, count = transaction.connection.execute(_STILL_OLD, given).fetchone()
    transaction.count_rows(count)
    return count, remove(transaction.connection, seqs, events) if count else 0


def used_bytes(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_USED).fetchone()[0])


def needed_bytes(connection: sqlite3.Connection) -> int:
    sizes = (OUTBOX_SIZE, RECORDS_SIZE, AUDIT_SIZE, FIGURES_SIZE)
    return sum(connection.execute(statement).fetchone()[1] for statement in sizes)


class SqliteHistory(SteppedHistory[sqlite3.Connection, Transaction]):
    held_rows = 100_000

    @cached_property
    def _names(self) -> NamePruning:
        return NamePruning(self._commits, self._background)

    async def _forget_names(self) -> None:
        await self._names.prune_if_due()

    async def _remove_excess(self, limit: int, rest: int, now: float) -> int:
        if (used := await self._background.run(used_bytes)) <= limit + rest:
            return 0
        # Once for each call, as it walks through the index of the outbox.
        rest += await self._background.run(needed_bytes)

        async def is_enough(ids: int) -> bool:
            nonlocal used, rest
            rest, used = rest + ids, await self._background.run(used_bytes)
            return used <= limit + rest

        removed, is_any_left = 0, True
        while used > limit + rest and is_any_left:  # else the rest is pending, or its pages are partly free
            count, is_any_left = await self._remove_in_turn(limit / (used - rest), now, is_enough)
            removed += count
        return removed
