"""Which deliveries a selection has: the conditions of every search, and the look at payloads."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection

from hookgw.records.registrations import GLOBAL_ID_PREFIX
from hookgw.records.selection import DeliverySelection
from hookgw.store import searches
from hookgw.store.delivery_searches import Bounds
from hookgw.store.dialects import Dialect
from hookgw.store.persons import names_person, person, sought_bytes
from hookgw.store.postgresql.lookups import instance_number, one_row, sought
from hookgw.store.postgresql.moments import IS_BEFORE, Moment
from hookgw.store.records import CancelQuery, ReplayQuery
from hookgw.store.searches import Looked

# Registrations of the configuration, present and past, by the beginning of their ids.
IS_LISTED = f"""(NOT %(without_global)s
    OR left(registration, {len(GLOBAL_ID_PREFIX)}) <> '{GLOBAL_ID_PREFIX}')"""
# All are short, or kept only up to a limit.
_HAS_ERROR = """(strpos(coalesce(reason, ''), %(error)s) > 0 OR EXISTS (
    SELECT FROM attempts a WHERE a.delivery = seq AND a.number = attempts
    AND (strpos(coalesce(a.error, ''), %(error)s) > 0 OR strpos(a.answer, %(error)s) > 0)))"""
_HAS_STATUS = """EXISTS (SELECT FROM attempts a WHERE a.delivery = seq AND a.number = attempts
    AND a.status BETWEEN %(least_status)s AND %(most_status)s)"""
DIALECT = Dialect(
    mark="%({})s",
    among="{} = ANY(%({})s)",
    contains="position(%({})s::bytea IN data) > 0",
    array=lambda texts: [sought(text) for text in texts],
    text=sought,
    is_listed=IS_LISTED,
    has_status=_HAS_STATUS,
    has_error=_HAS_ERROR,
    deliveries="deliveries WHERE event = events.seq",
)
# By the whole key of an index; see history.py.
_OF_STATE = """state <> 'delivered' AND (instance, state, seq) > (%(instance)s, '{state}', %(after)s)
    AND (instance, state, seq) <= (%(instance)s, '{state}', %(newest)s) ORDER BY instance, state, seq"""
PENDING, DEAD = (_OF_STATE.format(state=state) for state in ("pending", "dead"))
ALL = """(instance, seq) > (%(instance)s, %(after)s) AND (instance, seq) <= (%(instance)s, %(newest)s)
    ORDER BY instance, seq"""
"""SQL: the deliveries of an instance, in the order of their numbers, behind one number and up to another."""
# Each event is looked up by itself: a plan that goes through all events would read all payloads.
_LOOK = """
    WITH asked AS (
        SELECT d.seq, d.event, d.size, j.place
        FROM unnest(%(seqs)s::bigint[]) WITH ORDINALITY AS j (seq, place) JOIN deliveries d ON d.seq = j.seq
    ),
    summed AS (SELECT seq, event, place, sum(size) OVER (ORDER BY place) - size AS before_it FROM asked)
    SELECT c.place, c.seq, c.before_it >= %(bytes)s, CASE WHEN c.before_it < %(bytes)s THEN (
        SELECT data FROM events e WHERE e.seq = c.event
        AND (position(%(first)s::bytea IN e.data) > 0 OR position(%(second)s::bytea IN e.data) > 0)) END
    FROM summed c ORDER BY c.place"""

_SIZES = "SELECT seq, registration, size FROM deliveries WHERE seq = ANY(%s) ORDER BY seq"


def search(
    connection: Connection,
    query: CancelQuery | ReplayQuery,
    registrations: Collection[str],
    bounds: Bounds[Moment],
    spared: Collection[int] = (),
) -> tuple[list[int], int | None]:
    number = instance_number(connection, query.instance)
    if number is None:
        return [], None
    source, is_meant = PENDING, "seq <> ALL(%(spared)s)"
    if isinstance(query, ReplayQuery):
        source, is_meant = ALL if query.state == "all" else DEAD, "state <> 'pending'"
    conditions, given = DIALECT.conditions_of(query, registrations)
    given |= bounds._asdict() | bounds.now.given() | {"instance": number, "spared": list(spared)}
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join([*conditions, IS_BEFORE, is_meant])} AS matches FROM deliveries
            WHERE {source} LIMIT %(rows)s
        )
        SELECT count(*), max(seq),
            ARRAY(SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT %(limit)s)
        FROM looked_at"""  # noqa: S608 - only the texts above are in it
    count, last, found = one_row(connection, statement, given)
    return found, bounds.end(found, count, last)


def sizes_of(connection: Connection, seqs: Collection[int]) -> list[tuple[int, str, int]]:
    return connection.execute(_SIZES, (list(seqs),)).fetchall() if seqs else []


def look_at_payloads(connection: Connection, query: DeliverySelection, seqs: Collection[int]) -> Looked:
    named = None if query.person is None else person(query.person)
    # The server sends only payloads that may match: those with the text, or with a part of the person's name.
    first, second = sought_bytes(query)
    given = {"seqs": list(seqs), "bytes": searches.PAYLOAD_BYTES, "first": first, "second": second}
    found, end = set(), None
    for place, seq, is_behind, data in connection.execute(_LOOK, given):
        if is_behind:
            end = place - 1 if end is None else end
        elif data is not None and (named is None or names_person(data, named)):
            found.add(seq)
    return Looked(frozenset(found), len(seqs) if end is None else end)
