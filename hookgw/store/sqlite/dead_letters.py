"""Pending deliveries of a registration that become dead letters. The caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from heapq import merge

import msgspec

from hookgw.records.lanes import LaneRule, partition_of
from hookgw.records.registrations import Ordering
from hookgw.store.records import PendingChange, micros, storable
from hookgw.store.sqlite.bulk import as_json
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.outbox import PendingLane, lanes_of
from hookgw.store.sqlite.settle import weight
from hookgw.store.steps import Walked

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

# The rows of a lane that are read at first; each further read takes twice as many. One statement a row would
# cost a wait for Python's lock each time, and all rows at once would be too many for many lanes.
_FIRST_ROWS = 16

# The most rows of a lane that are searched for those of one instance: others wait for the commit meanwhile.
MOST_SEARCHED = 50_000

_numbers_of = msgspec.json.Decoder(list[int]).decode
_places_of = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


def park(
    connection: sqlite3.Connection,
    registration: str,
    reason: str,
    at: float,
    *,
    now: int,
    after: int | None,  # noqa: ARG001 -- each step starts over: the deliveries of the former ones left the index
    limit: int,
    spared: Collection[int],
) -> Walked:
    given = {"registration": registration, "spared": as_json(spared), "newest": now, "limit": limit}
    seqs = _numbers_of(connection.execute(_PENDING, given).fetchone()[0])
    return Walked(bury(connection, seqs, reason, at), 0 if len(seqs) == limit else None)


def drop_oldest(
    connection: sqlite3.Connection,
    rule: LaneRule,
    instance: str,
    reason: str,
    at: float,
    *,
    count: int,
    size: int,
    limit: int,
    spared: Collection[int],
) -> PendingChange:
    found = connection.execute(_NUMBER, (of_instance(instance),)).fetchone()
    if found is None:
        return {}
    lanes = lanes_of(connection, rule.registration)
    if rule.ordering is Ordering.INSTANCE:  # thousands of lanes, and one of them is the instance's
        lanes = [
            lane for lane in lanes if not rule.is_current(lane.key) or partition_of(lane.key) == instance
        ]
    places = [_in_order(connection, rule.registration, lane, found[0], limit) for lane in lanes]
    spared = set(spared)
    chosen: list[int] = []
    total = 0
    for _, seq, bytes_of in merge(*places):
        if len(chosen) == limit or (len(chosen) >= count and total >= size):
            break
        if seq and seq not in spared:
            chosen.append(seq)
            total += bytes_of
    return bury(connection, chosen, reason, at)


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
    """Turn these pending deliveries into dead letters; return what they were."""
    connection.execute(_BURY, {"seqs": as_json(seqs), "reason": storable(reason), "at": micros(at)})
    return weight(connection, seqs)
