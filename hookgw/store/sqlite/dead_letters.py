"""Pending deliveries of a registration that become dead letters. The caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from heapq import merge

import msgspec

from hookgw.store.records import micros, storable
from hookgw.store.sqlite.outbox import PendingLane, lanes_of

# In any order: all of them go. The spared ones are few, at most one attempt in flight for each lane.
_PENDING = """
SELECT json_group_array(seq), coalesce(sum(size), 0), count(*) FROM (
    SELECT seq, size FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND registration = (SELECT number FROM names WHERE name = :registration)
        AND seq NOT IN (SELECT value FROM json_each(:spared))
    LIMIT :limit)"""
_NEXT = """
SELECT json_group_array(json_array(position, seq, size)) FROM (
    SELECT position, seq, size FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND registration = (SELECT number FROM names WHERE name = :registration)
        AND lane = :lane AND position > :after
    ORDER BY position LIMIT :limit)"""
_BURY = """UPDATE deliveries NOT INDEXED SET state = 'dead', reason = :reason, finished_at = :at
    WHERE seq IN (SELECT value FROM json_each(:seqs))"""

# The rows of a lane that are read at first; each further read takes twice as many. One statement a row would
# cost a wait for Python's lock each time, and all rows at once would be too many for many lanes.
_FIRST_ROWS = 16

_places_of = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


def park(
    connection: sqlite3.Connection,
    registration: str,
    reason: str,
    at: float,
    *,
    limit: int,
    spared: Collection[int],
) -> tuple[int, int]:
    """Turn pending deliveries of a registration into dead letters, at most ``limit`` of them.

    Returns:
        How many there were, and their bytes of payload. Fewer than ``limit``: no more are left.
    """
    given = {"registration": registration, "spared": _json(spared), "limit": limit}
    # Each step starts at the beginning of the index: the deliveries of the former steps have left it.
    seqs, size, count = connection.execute(_PENDING, given).fetchone()
    connection.execute(_BURY, {"seqs": seqs, "reason": storable(reason), "at": micros(at)})
    return count, size


def drop_oldest(
    connection: sqlite3.Connection,
    registration: str,
    reason: str,
    at: float,
    *,
    count: int,
    size: int,
    limit: int,
    spared: Collection[int],
) -> tuple[int, int]:
    """Turn the oldest pending deliveries of a registration into dead letters, at most ``limit`` of them.

    Returns:
        How many there were, and their bytes of payload.
    """
    lanes = [_in_order(connection, registration, lane, limit) for lane in lanes_of(connection, registration)]
    spared = set(spared)
    chosen: list[int] = []
    total = 0
    for _, seq, bytes_of in merge(*lanes):
        if len(chosen) == limit or (len(chosen) >= count and total >= size):
            break
        if seq and seq not in spared:
            chosen.append(seq)
            total += bytes_of
    connection.execute(_BURY, {"seqs": _json(chosen), "reason": storable(reason), "at": micros(at)})
    return len(chosen), total


def _in_order(
    connection: sqlite3.Connection, registration: str, lane: PendingLane, limit: int
) -> Iterator[tuple[int, int, int]]:
    """Yield position, number and size of a lane's deliveries, in order."""
    # The head's position is known. Yielding it first, with the number 0, keeps merge() from reading lanes
    # that begin behind what is dropped: a registration may have as many lanes as instances.
    yield lane.head, 0, 0
    after, rows = lane.head - 1, _FIRST_ROWS
    while True:
        given = {"registration": registration, "lane": lane.number, "after": after, "limit": rows}
        places = _places_of(connection.execute(_NEXT, given).fetchone()[0])
        yield from places
        if len(places) < rows:
            return
        after, rows = places[-1][0], min(2 * rows, limit)


def _json(seqs: Collection[int]) -> str:
    return msgspec.json.encode(list(seqs)).decode()
