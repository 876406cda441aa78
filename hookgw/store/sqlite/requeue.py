"""Finished deliveries that become pending again: one that is resent, many that are replayed.

A delivery keeps its number, its attempts and its body, and gets a new position at the end of its lane.
SQL alone; the caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hookgw.models.events import Event
from hookgw.models.registrations import Registration, lane_of, lanes_of
from hookgw.store.records import ReplayQuery, micros
from hookgw.store.sqlite.bulk import Bulk
from hookgw.store.sqlite.name_ids import NameIds, of_instance
from hookgw.store.sqlite.pending_counts import Change, weight
from hookgw.store.sqlite.relane import EVENT_COLUMNS, EVENT_JOINS, EVENTS, event_of

_FINISHED = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state <> 'pending'"""
_REQUEUE = Bulk(
    """UPDATE deliveries SET state = 'pending', lane = column2, position = column3, queued_at = column4,
    failures = 0, next_at = 0, finished_at = NULL, reason = NULL FROM""",
    4,
    "WHERE deliveries.seq = column1",
)
_GIVEN_UP_TO = "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'deliveries'"
_ONE = f"""SELECT {EVENT_COLUMNS} FROM deliveries d {EVENT_JOINS}
    WHERE d.seq = ? AND d.state <> 'pending' AND i.name = ?"""  # noqa: S608 - no value of a caller is in it
_SOURCES = {
    # Written out, so that the index of what is not delivered can be used.
    "dead": "deliveries INDEXED BY undelivered WHERE state = 'dead' AND state <> 'delivered'",
    "all": "deliveries INDEXED BY history WHERE state <> 'pending'",
}

_numbers_of = msgspec.json.Decoder(list[int]).decode


def requeue(
    connection: sqlite3.Connection, names: NameIds, chosen: Mapping[int, str], position: int, at: float
) -> tuple[Counter[str], Change]:
    """Make finished deliveries pending again; those that are pending or gone are passed over.

    Args:
        connection, names: the writing connection, and its names.
        chosen: the lane of each delivery, by its number, in the order of sending.
        position: of the first; the next ones get the numbers that follow it. They are greater than
            every position that was given before, and are not given again.
        at: from when on their age counts, in seconds since the epoch.

    Returns:
        How many there were, by the key of the lane; and what is pending more than before.
    """
    asked = msgspec.json.encode(list(chosen)).decode()
    finished = set(_numbers_of(connection.execute(_FINISHED, (asked,)).fetchone()[0]))
    if not finished:
        return Counter(), {}
    numbers, since = names.numbers(chosen.values()), micros(at)
    places = enumerate(chosen.items(), position)
    rows = [(seq, numbers[lane], place, since) for place, (seq, lane) in places if seq in finished]
    _REQUEUE.run(connection, rows)
    connection.execute(_GIVEN_UP_TO, (position + len(chosen) - 1,))
    return Counter(lane for seq, lane in chosen.items() if seq in finished), weight(connection, finished)


def lane_now(
    connection: sqlite3.Connection, instance: str, seq: int, lane_of: Callable[[Event], str] | str
) -> str | None:
    """The lane of a finished delivery; ``None`` where the instance has none of that number."""
    columns = connection.execute(_ONE, (seq, of_instance(instance))).fetchone()
    if columns is None:
        return None
    return lane_of if isinstance(lane_of, str) else lane_of(event_of(columns))


def find(
    connection: sqlite3.Connection,
    query: ReplayQuery,
    registrations: Mapping[str, Registration],
    after: int,
    newest: int,
    limit: int,
) -> dict[int, str]:
    """The next deliveries to replay, in the order of their numbers, with the lane of each.

    Args:
        connection: any.
        query: which ones.
        registrations: those that take part, by id.
        after, newest: the numbers between which to look, the first excluded.
        limit: at most so many.
    """
    conditions, given = _conditions(query)
    given |= {"after": after, "newest": newest, "limit": limit}
    given["registrations"] = msgspec.json.encode(list(registrations)).decode()
    statement = f"""SELECT c.seq, r.name FROM (
        SELECT seq, registration FROM {_SOURCES[query.state]}
            AND instance = (SELECT number FROM names WHERE name = :instance)
            AND seq > :after AND seq <= :newest {conditions}
            AND registration IN (
                SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:registrations)))
        ORDER BY seq LIMIT :limit) c
        CROSS JOIN names r ON r.number = c.registration"""  # noqa: S608 - made of the texts here alone
    found = {seq: registrations[name] for seq, name in connection.execute(statement, given)}
    return _lanes(connection, found)


def _conditions(query: ReplayQuery) -> tuple[str, dict[str, Any]]:
    conditions = []
    given: dict[str, Any] = {"instance": of_instance(query.instance)}
    if query.since is not None:
        conditions.append("AND accepted_at >= :since")
        given["since"] = micros(query.since)
    if query.until is not None:
        conditions.append("AND accepted_at < :until")
        given["until"] = micros(query.until)
    if query.kinds:
        conditions.append(
            "AND kind IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:kinds)))"
        )
        given["kinds"] = msgspec.json.encode(query.kinds).decode()
    return " ".join(conditions), given


def _lanes(connection: sqlite3.Connection, found: Mapping[int, Registration]) -> dict[int, str]:
    """The lane of each delivery; an event is read only where its registration has several lanes."""
    lanes = {seq: registration.address for seq, registration in found.items()}
    spread = [seq for seq, registration in found.items() if len(lanes_of(registration)) > 1]
    for seq, *columns in connection.execute(EVENTS, (msgspec.json.encode(spread).decode(),)):
        lanes[seq] = lane_of(found[seq], event_of(columns))
    return lanes
