"""Pending deliveries that become dead letters: parked, dropped, cancelled. The caller owns transactions."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from psycopg import Connection

from hookgw.records.lanes import LaneRule, partition_of
from hookgw.records.registrations import Ordering
from hookgw.store.commits.changes import pending_change
from hookgw.store.postgresql.lookups import instance_number, sought
from hookgw.store.postgresql.moments import IS_BEFORE, Moment
from hookgw.store.records import PendingChange, micros

# In the order of the index, behind where the former step ended: the server would otherwise go through the
# entries of what is parked already, which stay in the index until it is cleaned up.
_PENDING = f"""SELECT lane, xid, position, seq, {IS_BEFORE} AND seq <> ALL(%(spared)s)
    FROM deliveries
    WHERE state = 'pending' AND registration = %(registration)s
        AND (lane, xid, position) > (%(lane)s, %(after_xid)s, %(after)s)
    ORDER BY registration, lane, xid, position LIMIT %(limit)s"""  # noqa: S608 - only the text above is in it
_MISSED = f"""SELECT seq FROM deliveries
    WHERE state = 'pending' AND registration = %(registration)s AND {IS_BEFORE} AND seq <> ALL(%(spared)s)
    LIMIT %(limit)s"""  # noqa: S608 - only the text above is in it
# A loose index scan: one search of the index for each lane, however many deliveries each lane has.
_LANES = """
    WITH RECURSIVE found (lane) AS (
        (SELECT d.lane FROM deliveries d WHERE d.state = 'pending' AND d.registration = %(registration)s
            ORDER BY d.registration, d.lane LIMIT 1)
        UNION ALL
        SELECT (SELECT d.lane FROM deliveries d
            WHERE d.state = 'pending' AND d.registration = %(registration)s AND d.lane > found.lane
            ORDER BY d.registration, d.lane LIMIT 1)
        FROM found WHERE found.lane IS NOT NULL
    )
    SELECT lane FROM found WHERE lane IS NOT NULL"""
# Of each lane, the oldest deliveries of the instance among a bounded number.
_OLDEST = """
    SELECT found.seq, found.size FROM unnest(%(lanes)s::text[]) AS lanes (lane)
    CROSS JOIN LATERAL (
        SELECT seq, size, xid, position FROM (
            SELECT seq, size, xid, position, instance FROM deliveries
            WHERE state = 'pending' AND registration = %(registration)s AND lane = lanes.lane
            ORDER BY registration, lane, xid, position LIMIT %(searched)s
        ) searched
        WHERE instance = %(instance)s AND seq <> ALL(%(spared)s)
        ORDER BY xid, position LIMIT %(limit)s
    ) found
    ORDER BY found.xid, found.position LIMIT %(limit)s"""
# In the order of their numbers, as in all statements that lock several deliveries: two nodes that lock the
# same ones in different orders would wait for each other.
_LOCK = (
    """SELECT seq FROM deliveries WHERE seq = ANY(%s) AND state || '' = 'pending' ORDER BY seq FOR UPDATE"""
)
_BURY = """
    WITH buried AS (
        UPDATE deliveries SET state = 'dead', reason = %(reason)s, finished_at = %(at)s
        WHERE seq = ANY(%(seqs)s) RETURNING registration, instance, size
    )
    SELECT b.registration, i.name, count(*), sum(b.size)::bigint
    FROM buried b JOIN instance_numbers i ON i.number = b.instance GROUP BY b.registration, i.name"""
# A delivery that was made pending again since the moment is of a later call.
_STILL_MEANT = f"SELECT seq FROM deliveries WHERE seq = ANY(%(seqs)s) AND {IS_BEFORE}"  # noqa: S608

# The most rows that are searched for those of one instance: others wait for the commit meanwhile.
MOST_SEARCHED = 50_000
_LEAST_SEARCHED = 500


class Place(NamedTuple):
    """Where a walk through the pending deliveries of a registration is."""

    lane: str
    xid: int
    position: int


BEGIN = Place("", 0, 0)


def next_pending(
    connection: Connection,
    registration: str,
    now: Moment,
    after: Place | None,
    limit: int,
    spared: Collection[int],
) -> tuple[list[int], Place | None]:
    after = after or BEGIN
    given = {
        "registration": registration,
        "lane": after.lane,
        "after_xid": after.xid,
        "after": after.position,
        "spared": list(spared),
        "limit": limit,
        **now.given(),
    }
    rows = connection.execute(_PENDING, given).fetchall()
    seqs = [seq for _, _, _, seq, is_meant in rows if is_meant]
    place = Place(*rows[-1][:3]) if len(rows) == limit else None
    if place is None and after != BEGIN:
        # A re-partition may have moved deliveries to before the place of the walk.
        missed = [seq for (seq,) in connection.execute(_MISSED, given)]
        seqs = list({*seqs, *missed})
        place = BEGIN if len(missed) == limit else None
    return seqs, place


def oldest_first(
    connection: Connection, rule: LaneRule, instance: str, limit: int, spared: Collection[int]
) -> list[tuple[int, int]]:
    number = instance_number(connection, instance)
    if number is None:
        return []
    lanes = lanes_of(connection, rule.registration)
    if rule.ordering is Ordering.INSTANCE:  # thousands of lanes, and one of them is the instance's
        lanes = [lane for lane in lanes if not rule.is_current(lane) or partition_of(lane) == instance]
    given = {
        "registration": rule.registration,
        "lanes": lanes,
        "instance": number,
        "spared": list(spared),
        "searched": max(_LEAST_SEARCHED, MOST_SEARCHED // max(1, len(lanes))),
        "limit": limit,
    }
    return connection.execute(_OLDEST, given).fetchall()


def lanes_of(connection: Connection, registration: str) -> list[str]:
    return [lane for (lane,) in connection.execute(_LANES, {"registration": registration})]


def bury(connection: Connection, seqs: Collection[int], reason: str, at: float) -> PendingChange:
    if not seqs:
        return {}
    locked = [seq for (seq,) in connection.execute(_LOCK, (list(seqs),))]
    given = {"seqs": locked, "reason": sought(reason), "at": micros(at)}
    return pending_change(connection.execute(_BURY, given))


def still_meant(connection: Connection, seqs: Collection[int], now: Moment | None) -> list[int]:
    if now is None:
        return list(seqs)
    return [seq for (seq,) in connection.execute(_STILL_MEANT, {"seqs": list(seqs), **now.given()})]
