"""Giving up the oldest of what a registration has in the outbox.

SQL alone; the caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from heapq import merge

import msgspec

from hookgw.store.records import micros, storable

# One row a lane, so that each lane costs one step of the connection.
_OLDEST = """
SELECT json_group_array(json_array(position, seq, size)) FROM (
    SELECT position, seq, size FROM deliveries INDEXED BY outbox
    WHERE state = 'pending'
        AND lane = (SELECT number FROM names WHERE name = :lane)
        AND registration = (SELECT number FROM names WHERE name = :registration)
        AND seq NOT IN (SELECT value FROM json_each(:spared))
    ORDER BY position LIMIT :limit
)"""
_BURY = """UPDATE deliveries NOT INDEXED SET state = 'dead', reason = :reason, finished_at = :at
    WHERE seq IN (SELECT value FROM json_each(:seqs))"""

_places_of = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


def drop_oldest(
    connection: sqlite3.Connection,
    registration: str,
    lanes: Sequence[str],
    reason: str,
    at: float,
    *,
    count: int,
    size: int,
    spared: Sequence[int],
    limit: int,
) -> tuple[int, int]:
    """Make the oldest pending deliveries of a registration dead, save those spared.

    Args:
        connection: in a transaction.
        registration: its id.
        lanes: the lanes they can be in; what is oldest is decided over all of them.
        reason: a sentence that says why.
        at: the time, in seconds since the epoch.
        count, size: until there are so many, and so many bytes of payload.
        spared: sequence numbers of deliveries that stay pending.
        limit: at most so many.

    Returns:
        How many there were, and their bytes of payload.
    """
    given = {
        "registration": registration,
        "spared": msgspec.json.encode(list(spared)).decode(),
        "limit": limit,
    }
    of_each = (
        _places_of(connection.execute(_OLDEST, {**given, "lane": lane}).fetchone()[0]) for lane in lanes
    )
    chosen = list(_first(merge(*of_each), count, size, limit))
    seqs = msgspec.json.encode([seq for seq, _ in chosen]).decode()
    bury(connection, seqs, reason, at)
    return len(chosen), sum(bytes_of for _, bytes_of in chosen)


def bury(connection: sqlite3.Connection, seqs: str, reason: str, at: float) -> None:
    """Make deliveries dead, whose numbers are a JSON array."""
    connection.execute(_BURY, {"seqs": seqs, "reason": storable(reason), "at": micros(at)})


def _first(
    places: Iterator[tuple[int, int, int]], count: int, size: int, limit: int
) -> Iterator[tuple[int, int]]:
    """The first of them that make up a count and a size, at most ``limit``."""
    for number, (_, seq, bytes_of) in enumerate(places):
        if number == limit or (number >= count and size <= 0):
            return
        size -= bytes_of
        yield seq, bytes_of
