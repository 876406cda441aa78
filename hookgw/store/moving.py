"""Moving what a registration has in the outbox: to other lanes, or to the dead letters.

SQL alone; the caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hookgw.events import Event
from hookgw.store.bulk import Bulk
from hookgw.store.dropping import bury
from hookgw.store.names import Names
from hookgw.store.records import seconds

RELANE_PAGE = 500
"""How many deliveries are looked at at once where a function gives each its new lane."""

# No order is asked for: the index gives one lane after another, each in order, and nothing is sorted.
_MINE = """
    SELECT seq, size FROM deliveries INDEXED BY outbox WHERE state = 'pending'
        AND lane IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:lanes)))
        AND registration = (SELECT number FROM names WHERE name = :registration)
        AND seq NOT IN (SELECT value FROM json_each(:spared))
    LIMIT :limit"""
EVENT_COLUMNS = "e.id, k.name, substr(i.name, 2), e.data, e.time, e.sender, e.server_url"
EVENT_JOINS = """
CROSS JOIN events e ON e.seq = d.event
CROSS JOIN names i ON i.number = e.instance
CROSS JOIN names k ON k.number = e.kind"""
"""What :func:`event_of` takes, and where it comes from for deliveries ``d``."""

_MOVING = f"""
SELECT d.seq, d.position, {EVENT_COLUMNS}
FROM (
    SELECT seq, position, event FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND position > :after
        AND lane = (SELECT number FROM names WHERE name = :lane)
        AND registration = (SELECT number FROM names WHERE name = :registration)
    ORDER BY position LIMIT :limit
) d {EVENT_JOINS}
ORDER BY d.position
"""  # noqa: S608 - no value of a caller is in it
_MOVE = Bulk("UPDATE deliveries SET lane = column2 FROM", 2, "WHERE deliveries.seq = column1")


def park(
    connection: sqlite3.Connection,
    registration: str,
    lanes: Sequence[str],
    reason: str,
    at: float,
    *,
    spared: Sequence[int] = (),
    limit: int = -1,
) -> tuple[int, int]:
    """Make pending deliveries of a registration dead, save those spared.

    Returns:
        How many there were, and their bytes of payload.
    """
    given = _mine(registration, lanes, limit) | {"spared": msgspec.json.encode(list(spared)).decode()}
    chosen = f"SELECT json_group_array(seq), count(*), coalesce(sum(size), 0) FROM ({_MINE})"  # noqa: S608
    seqs, count, size = connection.execute(chosen, given).fetchone()
    if count:
        bury(connection, seqs, reason, at)
    return count, size


def relane(
    connection: sqlite3.Connection,
    names: Names,
    registration: str,
    old_lanes: Sequence[str],
    lane_of: Callable[[Event], str] | str,
) -> list[str]:
    """Move pending deliveries of a registration, which keep their places; return where they are now."""
    if isinstance(lane_of, str):
        return _relane_all(connection, names, registration, old_lanes, lane_of)
    reached: set[str] = set()
    for lane in old_lanes:
        _relane_each(connection, names, registration, lane, lane_of, reached)
    return sorted(reached)


def _relane_each(
    connection: sqlite3.Connection,
    names: Names,
    registration: str,
    lane: str,
    lane_of: Callable[[Event], str],
    reached: set[str],
) -> None:
    """Move what is in one lane, with no more than one event in memory."""
    after = 0
    while True:
        given = {"registration": registration, "lane": lane, "after": after, "limit": RELANE_PAGE}
        lanes: dict[int, str] = {}
        for seq, position, *columns in connection.execute(_MOVING, given):
            lanes[seq], after = lane_of(event_of(columns)), position
        if not lanes:
            return
        numbers = names.numbers(lanes.values())
        _MOVE.run(connection, [(seq, numbers[lane]) for seq, lane in lanes.items()])
        reached.update(lanes.values())


def event_of(columns: Sequence[Any]) -> Event:
    """The event that :data:`EVENT_COLUMNS` hold."""
    event_id, kind, instance, data, time, sender, server_url = columns
    return Event(
        id=event_id,
        kind=kind,
        instance=instance,
        data_json=data,
        time=seconds(time),
        sender=sender,
        server_url=server_url,
    )


def _relane_all(
    connection: sqlite3.Connection, names: Names, registration: str, old_lanes: Sequence[str], lane: str
) -> list[str]:
    given = _mine(registration, old_lanes, -1) | {"lane": names.numbers([lane])[lane]}
    mine = f"SELECT seq FROM ({_MINE})"  # noqa: S608
    moved = connection.execute(f"UPDATE deliveries SET lane = :lane WHERE seq IN ({mine})", given).rowcount  # noqa: S608
    return [lane] if moved else []


def _mine(registration: str, lanes: Sequence[str], limit: int) -> dict[str, Any]:
    return {
        "registration": registration,
        "lanes": msgspec.json.encode(list(lanes)).decode(),
        "spared": "[]",
        "limit": limit,
    }
