"""Which deliveries a selection has: the conditions of every search, and the look at payloads."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import msgspec

from hookgw.records.registrations import GLOBAL_ID_PREFIX
from hookgw.records.selection import DeliverySelection
from hookgw.store import searches
from hookgw.store.delivery_searches import Bounds
from hookgw.store.dialects import Dialect
from hookgw.store.persons import names_person, person, sought_bytes
from hookgw.store.records import CancelQuery, ReplayQuery
from hookgw.store.searches import Looked
from hookgw.store.sqlite.bulk import as_json, numbers_of
from hookgw.store.sqlite.name_ids import of_instance

# Registrations of the configuration, present and past, by the beginning of their ids. Row by row, because the
# names that begin so include those of their lanes, of which there may be one for each instance.
IS_LISTED = f"""(NOT :without_global OR (SELECT substr(name, 1, {len(GLOBAL_ID_PREFIX)}) FROM names
    WHERE number = registration) <> '{GLOBAL_ID_PREFIX}')"""  # noqa: S608
# All are short, or kept only up to a limit.
_HAS_ERROR = """(instr(coalesce(reason, ''), :error) OR EXISTS (
    SELECT 1 FROM attempts a WHERE a.delivery = deliveries.seq AND a.number = deliveries.attempts
    AND (instr(coalesce(a.error, ''), :error) OR instr(a.answer, :error))))"""
_HAS_STATUS = """EXISTS (
    SELECT 1 FROM attempts a WHERE a.delivery = deliveries.seq AND a.number = deliveries.attempts
    AND a.status BETWEEN :least_status AND :most_status)"""
# Written out, because SQLite uses the partial index only if its condition is in the statement.
PENDING = "deliveries INDEXED BY undelivered WHERE state = 'pending' AND state <> 'delivered'"
DEAD = "deliveries INDEXED BY undelivered WHERE state = 'dead' AND state <> 'delivered'"
ALL = "deliveries INDEXED BY history WHERE 1"
DIALECT = Dialect(
    mark=":{}",
    among="{} IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:{})))",
    contains="instr(e.data, :{})",
    array=as_json,
    text=str,
    is_listed=IS_LISTED,
    has_status=_HAS_STATUS,
    has_error=_HAS_ERROR,
    deliveries="deliveries INDEXED BY deliveries_of_event WHERE event = e.seq",
)
_LOOK = """
    WITH asked AS (
        SELECT d.seq AS seq, d.event AS event, d.size AS size, j.key AS place
        FROM json_each(:seqs) j CROSS JOIN deliveries d ON d.seq = j.value
    ),
    summed AS (SELECT seq, event, place, sum(size) OVER (ORDER BY place) - size AS before_it FROM asked),
    chosen AS MATERIALIZED (SELECT seq, event FROM summed WHERE before_it < :bytes)
    SELECT (SELECT min(place) FROM summed WHERE before_it >= :bytes), (
        SELECT json_group_array(c.seq) FROM chosen c CROSS JOIN events e ON e.seq = c.event
        WHERE instr(e.data, :first) OR instr(e.data, :second))"""

PAYLOADS = """
    SELECT d.seq, e.data
    FROM (SELECT seq, event FROM deliveries WHERE seq IN (SELECT value FROM json_each(?))) d
    CROSS JOIN events e ON e.seq = d.event"""
"""SQL: the numbers and payloads of deliveries, whose numbers come as a JSON array."""
_SIZES = """SELECT json_group_array(json_array(d.seq, r.name, d.size))
    FROM json_each(?) c CROSS JOIN deliveries d ON d.seq = c.value
    CROSS JOIN names r ON r.number = d.registration"""

_sizes_of = msgspec.json.Decoder(list[tuple[int, str, int]]).decode


def search(
    connection: sqlite3.Connection,
    query: CancelQuery | ReplayQuery,
    registrations: Collection[str],
    bounds: Bounds[int],
    spared: Collection[int] = (),
) -> tuple[list[int], int | None]:
    source, is_meant = PENDING, "seq NOT IN (SELECT value FROM json_each(:spared))"
    if isinstance(query, ReplayQuery):
        source, is_meant = ALL if query.state == "all" else DEAD, "state <> 'pending'"
    conditions, given = DIALECT.conditions_of(query, registrations)
    given |= bounds._asdict() | {"instance": of_instance(query.instance), "spared": as_json(spared)}
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join([*conditions, is_meant])} AS matches FROM {source}
                AND instance = (SELECT number FROM names WHERE name = :instance)
                AND seq > :after AND seq <= :now
            ORDER BY seq LIMIT :rows
        )
        SELECT count(*), max(seq), (SELECT json_group_array(seq) FROM (
            SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT :limit))
        FROM looked_at"""  # noqa: S608 - only the texts above are in it
    count, last, lines = connection.execute(statement, given).fetchone()
    found = numbers_of(lines)
    return found, bounds.end(found, count, last)


def sizes_of(connection: sqlite3.Connection, seqs: Collection[int]) -> list[tuple[int, str, int]]:
    return sorted(_sizes_of(connection.execute(_SIZES, (as_json(seqs),)).fetchone()[0]))


def look_at_payloads(
    connection: sqlite3.Connection, query: DeliverySelection, seqs: Collection[int]
) -> Looked:
    first, second = sought_bytes(query)
    given = {"seqs": as_json(seqs), "bytes": searches.PAYLOAD_BYTES, "first": first, "second": second}
    end, found = connection.execute(_LOOK, given).fetchone()
    matches = numbers_of(found)
    if query.person is not None:
        named = person(query.person)
        matches = [seq for seq, data in connection.execute(PAYLOADS, (found,)) if names_person(data, named)]
    return Looked(frozenset(matches), len(seqs) if end is None else end)
