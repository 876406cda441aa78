"""Pending deliveries that become dead letters: parked, dropped, cancelled. The caller owns transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from heapq import merge

import msgspec

from hookgw.records.lanes import LaneRule, partition_of
from hookgw.records.registrations import Ordering
from hookgw.store.records import PendingChange, micros, storable
from hookgw.store.searches import LAST
from hookgw.store.sqlite.bulk import as_json, numbers_of
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.outbox import PendingLane, lanes_of
from hookgw.store.sqlite.settle import weight

# In any order: all of them go. The spared ones are few, at most one attempt in flight for each lane.
_PENDING = """
SELECT json_group_array(seq) FROM (
    SELECT seq FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND registration = (SELECT number FROM names WHERE name = :registration)
        AND position <= :newest AND seq NOT IN (SELECT value FROM json_each(:spared))
    LIMIT :limit)"""
_NEXT = """
SELECT json_group_array(json_array(position, seq, size)) FILTER (WHERE instance = :instance),
    max(position), count(*)
FROM (
    SELECT position, seq, size, instance FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND registration = (SELECT number FROM names WHERE name = :registration)
        AND lane = :lane AND position > :after
    ORDER BY position LIMIT :limit)"""
_NUMBER = "SELECT number FROM names WHERE name = ?"
_BURY = """UPDATE deliveries NOT INDEXED SET state = 'dead', reason = :reason, finished_at = :at
    WHERE seq IN (SELECT value FROM json_each(:seqs))"""
# A delivery that was made pending again behind the newest position is of a later call.
_STILL_PENDING = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending' AND position <= ?"""

# The rows of a lane that are read at first; each further read takes twice as many. One statement a row would
# cost a wait for Python's lock each time, and all rows at once would be too many for many lanes.
_FIRST_ROWS = 16

# The most rows of a lane that are searched for those of one instance: others wait for the commit meanwhile.
MOST_SEARCHED = 50_000

_places_of = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


def next_pending(
    connection: sqlite3.Connection,
    registration: str,
    now: int,
    after: int | None,  # noqa: ARG001 -- each step starts over: the deliveries of the former ones left the index
    limit: int,
    spared: Collection[int],
) -> tuple[list[int], int | None]:
    given = {"registration": registration, "spared": as_json(spared), "newest": now, "limit": limit}
    seqs = numbers_of(connection.execute(_PENDING, given).fetchone()[0])
    return seqs, 0 if len(seqs) == limit else None


def oldest_first(
    connection: sqlite3.Connection, rule: LaneRule, instance: str, limit: int, spared: Collection[int]
) -> Iterator[tuple[int, int]]:
    found = connection.execute(_NUMBER, (of_instance(instance),)).fetchone()
    if found is None:
        return
    lanes = lanes_of(connection, rule.registration)
    if rule.ordering is Ordering.INSTANCE:  # thousands of lanes, and one of them is the instance's
        lanes = [
            lane for lane in lanes if not rule.is_current(lane.key) or partition_of(lane.key) == instance
        ]
    places = [_in_order(connection, rule.registration, lane, found[0], limit) for lane in lanes]
    spared = {0, *spared}
    for _, seq, size in merge(*places):
        if seq not in spared:
            yield seq, size


def _in_order(
    connection: sqlite3.Connection, registration: str, lane: PendingLane, instance: int, limit: int
) -> Iterator[tuple[int, int, int]]:
    """Yield position, number and size of an instance's deliveries in a lane, in order."""
    # The head's position is known. Yielding it first, with the number 0, keeps merge() from reading lanes
    # that begin behind what is dropped: a registration may have as many lanes as instances.
    yield lane.head, 0, 0
    after, rows, searched = lane.head - 1, _FIRST_ROWS, 0
    while searched < MOST_SEARCHED:
        given = {
            "registration": registration,
            "lane": lane.number,
            "instance": instance,
            "after": after,
            "limit": rows,
        }
        places, after, count = connection.execute(_NEXT, given).fetchone()
        yield from _places_of(places)
        if count < rows:
            return
        searched += count
        rows = min(2 * rows, limit)


def bury(connection: sqlite3.Connection, seqs: Collection[int], reason: str, at: float) -> PendingChange:
    connection.execute(_BURY, {"seqs": as_json(seqs), "reason": storable(reason), "at": micros(at)})
    return weight(connection, seqs)


def still_meant(connection: sqlite3.Connection, seqs: Collection[int], now: int | None) -> list[int]:
    given = as_json(seqs), LAST if now is None else now
    return numbers_of(connection.execute(_STILL_PENDING, given).fetchone()[0])
