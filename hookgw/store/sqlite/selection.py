"""Which deliveries a selection has: the conditions of every search, and the look at payloads."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

import msgspec

from hookgw.records.registrations import GLOBAL_ID_PREFIX
from hookgw.records.selection import DeliverySelection
from hookgw.store import searches
from hookgw.store.delivery_searches import Bounds
from hookgw.store.dialects import Dialect
from hookgw.store.persons import IDS, person
from hookgw.store.records import CancelQuery, ReplayQuery
from hookgw.store.searches import Looked, spellings
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
# A payload without the text, and without an escape that may be in its spelling, is not parsed. SQLite calls a
# payload invalid that is nested too deep for it: then the text itself decides.
NAMES_PERSON = f"""(instr(e.data, CAST(:part AS BLOB)) OR instr(e.data, CAST(:escape AS BLOB)))
    AND CASE WHEN json_valid(CAST(e.data AS TEXT)) THEN EXISTS (
        SELECT 1 FROM json_tree(CAST(e.data AS TEXT)) t
        WHERE t.key IN (SELECT value FROM json_each(:values))
            OR (t.type = 'text' AND t.atom IN (SELECT value FROM json_each(:values)))
            OR (t.type = 'integer' AND t.key IN {IDS}
                AND CAST(t.atom AS TEXT) IN (SELECT value FROM json_each(:values)))
            OR (t.key GLOB :begin AND EXISTS (SELECT 1 FROM json_each(:others) WHERE t.key GLOB value))
            OR (t.type = 'text' AND t.atom GLOB :begin
                AND EXISTS (SELECT 1 FROM json_each(:others) WHERE t.atom GLOB value)))
    ELSE instr(e.data, CAST(:part AS BLOB)) END"""  # noqa: S608 - only names of members are in it
"""SQL: whether the payload of an event ``e`` names a person; with :func:`given_of_person`."""
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
        SELECT json_group_array(c.seq) FROM chosen c CROSS JOIN events e ON e.seq = c.event WHERE {})"""

_COUNT = """SELECT json_group_object(r.name, c.count) FROM (
        SELECT registration, count(*) AS count FROM deliveries
        WHERE seq IN (SELECT value FROM json_each(?)) GROUP BY registration) c
    CROSS JOIN names r ON r.number = c.registration"""

_counts_of = msgspec.json.Decoder(dict[str, int]).decode


def given_of_person(value: str) -> dict[str, Any]:
    sought = person(value)
    return {
        "values": as_json(sought.values),
        "begin": sought.others[0] if sought.others else None,
        "others": as_json(sought.others[1:]),
        "part": sought.part,
        "escape": sought.escape,
    }


def search(
    connection: sqlite3.Connection,
    source: str,
    found: str,
    query: CancelQuery | ReplayQuery,
    registrations: Collection[str],
    bounds: Bounds[int],
    *more: str,
    **values: Any,
) -> tuple[int, int | None, str]:
    """Search an instance's deliveries for those of a selection.

    Args:
        source: :data:`PENDING`, :data:`DEAD` or :data:`ALL`.
        found: SQL: a JSON value of the ``chosen`` deliveries.
        more, values: further conditions, and what they need.

    Returns:
        How many were looked at, the last of these, and ``found``.
    """
    conditions, given = DIALECT.conditions_of(query, registrations)
    given |= bounds._asdict() | values | {"instance": of_instance(query.instance)}
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join([*conditions, *more])} AS matches FROM {source}
                AND instance = (SELECT number FROM names WHERE name = :instance)
                AND seq > :after AND seq <= :now
            ORDER BY seq LIMIT :rows
        ),
        chosen AS (SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT :limit)
        SELECT (SELECT count(*) FROM looked_at), (SELECT max(seq) FROM looked_at), (SELECT {found})"""  # noqa: S608 - only the texts above are in it
    count, last, lines = connection.execute(statement, given).fetchone()
    return count, last, lines


def look_at_payloads(
    connection: sqlite3.Connection, query: DeliverySelection, seqs: Collection[int]
) -> Looked:
    conditions = ["1"]
    given: dict[str, Any] = {"seqs": as_json(seqs), "bytes": searches.PAYLOAD_BYTES}
    if query.text is not None:
        given["text"], given["escaped"] = spellings(query.text)
        conditions.append("(instr(e.data, CAST(:text AS BLOB)) OR instr(e.data, CAST(:escaped AS BLOB)))")
    if query.person is not None:
        given |= given_of_person(query.person)
        conditions.append(NAMES_PERSON)
    end, found = connection.execute(_LOOK.format(" AND ".join(conditions)), given).fetchone()
    return Looked(frozenset(numbers_of(found)), len(seqs) if end is None else end)


def count_by_registration(connection: sqlite3.Connection, seqs: Collection[int]) -> dict[str, int]:
    return _counts_of(connection.execute(_COUNT, (as_json(seqs),)).fetchone()[0])
