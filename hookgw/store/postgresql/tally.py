"""What happened to an instance lately, counted and not listed: a few numbers for a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from psycopg import Connection

from hookgw.records.registrations import GLOBAL_ID_PREFIX
from hookgw.store.postgresql.lookups import instance_number, one_row, sought
from hookgw.store.records import seconds
from hookgw.store.searches import LAST

_MINUTE = 60 * 1_000_000

# By the whole key of the index; see history.py. An event's deliveries follow one another, so the only event
# that may be in two parts is that of the last delivery of the part before: it is counted there.
_TALLY = f"""
    WITH looked_at AS MATERIALIZED (
        SELECT d.seq, d.event, d.accepted_at, d.state,
            d.accepted_at >= %(since)s AND (NOT %(without_global)s
                OR left(d.registration, {len(GLOBAL_ID_PREFIX)}) <> '{GLOBAL_ID_PREFIX}') AS is_wanted
        FROM deliveries d
        WHERE (d.instance, d.seq) < (%(instance)s, %(before)s) AND d.instance >= %(instance)s
        ORDER BY d.instance DESC, d.seq DESC LIMIT %(rows)s
    ),
    minutes AS (
        SELECT accepted_at / {_MINUTE} AS minute,
            count(DISTINCT event) FILTER (WHERE event <> %(event)s) AS events,
            count(*) FILTER (WHERE state = 'delivered') AS delivered,
            count(*) FILTER (WHERE state = 'dead') AS dead
        FROM looked_at WHERE is_wanted GROUP BY minute
    )
    SELECT count(*), min(seq), min(accepted_at),
        (SELECT event FROM looked_at WHERE is_wanted ORDER BY seq LIMIT 1),
        ARRAY(SELECT ARRAY[minute, events, delivered, dead] FROM minutes)
    FROM looked_at"""  # noqa: S608
_NEWEST = """SELECT i.name, (
        SELECT d.accepted_at FROM deliveries d
        WHERE (d.instance, d.seq) < (i.number, %s) AND d.instance >= i.number
        ORDER BY d.instance DESC, d.seq DESC LIMIT 1)
    FROM instance_numbers i WHERE i.name = ANY(%s)"""


def tally(connection: Connection, instance: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    number = instance_number(connection, instance)
    if number is None:
        return 0, None, None, None, ()
    return one_row(connection, _TALLY, {**given, "instance": number})


def newest(connection: Connection, instances: Collection[str]) -> dict[str, float]:
    rows = connection.execute(_NEWEST, (LAST, [sought(name) for name in instances])).fetchall()
    return {name: seconds(at) for name, at in rows if at is not None}
