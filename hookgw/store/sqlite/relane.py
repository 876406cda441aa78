"""Moving what a registration has in the outbox: to other lanes, or to the dead letters.

A walk through the lanes in small steps, each a commit of its own, so that others write in between. SQL
alone; the caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.models.events import Event
from hookgw.store.records import seconds
from hookgw.store.sqlite.bulk import Bulk
from hookgw.store.sqlite.drop_oldest import bury
from hookgw.store.sqlite.name_ids import NameIds

MOST_READ = 2**20
"""A step in which a function gives each delivery its lane reads no more bytes of payload than this,
unless the first one alone has more."""

# One row a lane. Also the deliveries of others are counted, so that what a step looks at is bounded.
_AHEAD = """
SELECT count(*), max(position), json_group_array(json_array(seq, position, size)) FILTER (WHERE is_mine)
FROM (
    SELECT seq, position, size, registration = (SELECT number FROM names WHERE name = :registration)
            AND seq NOT IN (SELECT value FROM json_each(:spared)) AS is_mine
    FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND position > :after
        AND lane = (SELECT number FROM names WHERE name = :lane)
    ORDER BY position LIMIT :limit
)"""
EVENT_COLUMNS = "e.id, k.name, substr(i.name, 2), e.data, e.time, e.sender, e.server_url"
EVENT_JOINS = """
CROSS JOIN events e ON e.seq = d.event
CROSS JOIN names i ON i.number = e.instance
CROSS JOIN names k ON k.number = e.kind"""
"""What :func:`event_of` takes, and where it comes from for deliveries ``d``."""

EVENTS = f"""SELECT d.seq, {EVENT_COLUMNS}
    FROM (SELECT seq, event FROM deliveries WHERE seq IN (SELECT value FROM json_each(?))) d
    {EVENT_JOINS}"""  # noqa: S608 - no value of a caller is in it
_MOVE = Bulk("UPDATE deliveries SET lane = column2 FROM", 2, "WHERE deliveries.seq = column1")
_MOVE_ALL = """UPDATE deliveries NOT INDEXED SET lane = :lane
    WHERE seq IN (SELECT value FROM json_each(:seqs))"""

_places_of = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


class Cursor(NamedTuple):
    """How far a walk through some lanes has come: which of them, and after which position in it."""

    lane: int = 0
    after: int = 0


START = Cursor()


class Look(NamedTuple):
    """What a step found.

    Attributes:
        lanes: the deliveries of the registration, by number, each with the lane it is in.
        size: their bytes of payload.
        then: where the next step begins; ``None`` after the last one.
    """

    lanes: dict[int, str]
    size: int
    then: Cursor | None


def park(
    connection: sqlite3.Connection,
    registration: str,
    lanes: Sequence[str],
    reason: str,
    at: float,
    place: Cursor,
    limit: int,
    *,
    spared: Collection[int] = (),
) -> Look:
    """Make pending deliveries of a registration dead, save those spared: one step.

    Args:
        connection: in a transaction.
        registration: its id.
        lanes: those to walk through.
        reason: a sentence that says why.
        at: the time, in seconds since the epoch.
        place: where to begin.
        limit: how many deliveries to look at, others' included.
        spared: sequence numbers of deliveries that stay pending.

    Returns:
        Those that are dead now.
    """
    found = _look(connection, registration, lanes, place, limit, spared=spared)
    if found.lanes:
        bury(connection, _json(found.lanes), reason, at)
    return found


def relane(
    connection: sqlite3.Connection,
    names: NameIds,
    registration: str,
    lanes: Sequence[str],
    lane_of: Callable[[Event], str] | str,
    place: Cursor,
    limit: int,
) -> Look:
    """Move pending deliveries of a registration, which keep their places: one step.

    Args:
        connection, names: the writing connection, in a transaction, and its names.
        registration: its id.
        lanes: those to walk through.
        lane_of: gives the new lane of an event, or is the new lane of all, which is faster.
        place: where to begin.
        limit: how many deliveries to look at, others' included.

    Returns:
        Those that were looked at, with the lanes they were in.
    """
    if isinstance(lane_of, str):
        lanes = [lane for lane in lanes if lane != lane_of]
        found = _look(connection, registration, lanes, place, limit)
        given = {"lane": names.numbers([lane_of])[lane_of], "seqs": _json(found.lanes)}
        connection.execute(_MOVE_ALL, given)
        return found
    found = _look(connection, registration, lanes, place, limit, most_bytes=MOST_READ)
    events = connection.execute(EVENTS, (_json(found.lanes),))
    now = {seq: lane_of(event_of(columns)) for seq, *columns in events}
    numbers = names.numbers(now.values())
    _MOVE.run(connection, [(seq, numbers[lane]) for seq, lane in now.items() if lane != found.lanes[seq]])
    return found


def _look(
    connection: sqlite3.Connection,
    registration: str,
    lanes: Sequence[str],
    place: Cursor,
    limit: int,
    *,
    spared: Collection[int] = (),
    most_bytes: int | None = None,
) -> Look:
    """What comes next of a registration, lane after lane, each in order."""
    given = {"registration": registration, "spared": _json(spared)}
    mine: dict[int, str] = {}
    total, after = 0, place.after
    for number in range(place.lane, len(lanes)):
        here = {**given, "lane": lanes[number], "after": after, "limit": limit}
        looked, last, places = connection.execute(_AHEAD, here).fetchone()
        for seq, position, size in _places_of(places):
            if mine and most_bytes is not None and total + size > most_bytes:
                return Look(mine, total, Cursor(number, position - 1))
            mine[seq] = lanes[number]
            total += size
        limit, after = limit - looked, 0
        if limit == 0:
            return Look(mine, total, Cursor(number, last))
    return Look(mine, total, None)


def _json(seqs: Collection[int]) -> str:
    return msgspec.json.encode(list(seqs)).decode()


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
