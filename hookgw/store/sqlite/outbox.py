"""The outbox: what is appended, and the pending deliveries in order.

SQL alone; the caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookgw.models.deliveries import Delivery, Page
from hookgw.models.events import Event
from hookgw.store.records import LaneBacklog, micros, seconds
from hookgw.store.sqlite.bulk import Bulk
from hookgw.store.sqlite.name_ids import NameIds, of_instance

_ADD_EVENTS = Bulk(
    """INSERT INTO events (seq, instance, id, kind, time, accepted_at, data, sender, server_url, heard)
    SELECT * FROM""",
    10,
    "WHERE column1 IS NOT NULL ON CONFLICT (id, instance) DO NOTHING",
)
_ADD_DELIVERIES = Bulk(
    """INSERT INTO deliveries (seq, event, instance, kind, registration, lane, accepted_at, size,
    position, queued_at, state, attempts, failures, next_at)
    SELECT *, column1, column7, 'pending', 0, 0, 0 FROM""",
    8,
    "WHERE column1 IS NOT NULL",
)
_KEPT_EVENTS = "SELECT json_group_array(seq) FROM events WHERE seq BETWEEN ? AND ?"

PAGE_BYTES = 4 * 2**20
"""A page has no more payload and bodies than this, unless its first delivery alone has."""

# The page comes as one row: its records as JSON, its payloads and bodies end to end as bytes. It is cut
# to size with the help of the index alone, before a payload is read; one more is asked for than wanted,
# to know whether there are more.
_PAGE = f"""
WITH ahead AS MATERIALIZED (
    SELECT first.seq, row_number() OVER places AS place,
        sum(first.size + coalesce(length(b.body), 0)) OVER places AS bytes
    FROM (
        SELECT seq, position, size FROM deliveries INDEXED BY outbox
        WHERE state = 'pending' AND position > :after
            AND lane = (SELECT number FROM names WHERE name = :lane)
        ORDER BY position LIMIT :limit + 1
    ) first
    LEFT JOIN bodies b ON b.seq = first.seq
    WINDOW places AS (ORDER BY first.position ROWS UNBOUNDED PRECEDING)
),
page AS (
    SELECT d.seq, d.position, d.queued_at, e.id, k.name AS kind, substr(i.name, 2) AS instance, e.time,
        e.sender, e.server_url, r.name AS registration, d.accepted_at, d.attempts, d.failures, d.next_at,
        e.data, b.body
    FROM ahead
    CROSS JOIN deliveries d ON d.seq = ahead.seq
    CROSS JOIN events e ON e.seq = d.event
    CROSS JOIN names i ON i.number = d.instance
    CROSS JOIN names k ON k.number = d.kind
    CROSS JOIN names r ON r.number = d.registration
    LEFT JOIN bodies b ON b.seq = d.seq
    WHERE place <= :limit AND (bytes <= {PAGE_BYTES} OR place = 1)
    ORDER BY place
)
SELECT
    (SELECT count(*) FROM ahead),
    json_group_array(json_array(seq, position, queued_at, id, kind, instance, time, sender, server_url,
        registration, accepted_at, attempts, failures, next_at, length(data), length(body))),
    CAST(group_concat(CAST(data AS TEXT), '') AS BLOB),
    CAST(group_concat(CAST(body AS TEXT), '') AS BLOB)
FROM page
"""  # noqa: S608 - a number of ours
_BACKLOG = """
SELECT json_group_array(json_array(n.name, waiting.count, d.queued_at))
FROM (
    SELECT lane, count(*) AS count, min(position) AS first
    FROM deliveries INDEXED BY outbox WHERE state = 'pending' GROUP BY lane
) waiting
CROSS JOIN deliveries d INDEXED BY outbox
    ON d.state = 'pending' AND d.lane = waiting.lane AND d.position = waiting.first
CROSS JOIN names n ON n.number = waiting.lane
"""
_PENDING_OF = """
SELECT json_group_array(json_array(n.name, waiting.count, waiting.bytes))
FROM (
    SELECT registration, count(*) AS count, sum(size) AS bytes
    FROM deliveries INDEXED BY outbox WHERE state = 'pending' GROUP BY registration
) waiting
CROSS JOIN names n ON n.number = waiting.registration
"""


class NewEvent(msgspec.Struct):
    """One event on its way into the outbox, with the deliveries that it makes."""

    seq: int
    event: Event
    accepted_at: float
    deliveries: list[Delivery]


class _Row(msgspec.Struct, array_like=True):
    seq: int
    position: int
    queued_at: int
    id: str
    kind: str
    instance: str
    time: int
    sender: str | None
    server_url: str | None
    registration: str
    accepted_at: int
    attempts: int
    failures: int
    next_at: int
    data_size: int
    body_size: int | None


_rows_of = msgspec.json.Decoder(list[_Row]).decode
_backlogs_of = msgspec.json.Decoder(list[tuple[str, int, int]]).decode
_numbers_of = msgspec.json.Decoder(list[int]).decode


def append(connection: sqlite3.Connection, names: NameIds, news: Sequence[NewEvent]) -> set[int]:
    """Add events and their deliveries, save those whose (instance, id) is known.

    Returns:
        The sequence numbers of the events that were added.
    """
    if not news:
        return set()
    numbers = names.numbers(_names_in(news))
    added = {new.seq for new in news}
    if _ADD_EVENTS.run(connection, [_event_row(new, numbers) for new in news]) < len(news):
        kept = connection.execute(_KEPT_EVENTS, (news[0].seq, news[-1].seq)).fetchone()[0]
        added.intersection_update(_numbers_of(kept))
    _ADD_DELIVERIES.run(
        connection, [row for new in news if new.seq in added for row in _delivery_rows(new, numbers)]
    )
    return added


def _names_in(news: Iterable[NewEvent]) -> Iterator[str]:
    for new in news:
        yield of_instance(new.event.instance)
        yield new.event.kind
        for delivery in new.deliveries:
            yield delivery.registration
            yield delivery.lane


def _event_row(new: NewEvent, numbers: Mapping[str, int]) -> tuple[Any, ...]:
    event = new.event
    data = event.data_json if new.deliveries else b""
    return (
        new.seq,
        numbers[of_instance(event.instance)],
        event.id,
        numbers[event.kind],
        micros(event.time),
        micros(new.accepted_at),
        data,
        event.sender,
        event.server_url,
        len(new.deliveries),
    )


def _delivery_rows(new: NewEvent, numbers: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    instance, kind = numbers[of_instance(new.event.instance)], numbers[new.event.kind]
    at, size = micros(new.accepted_at), len(new.event.data_json)
    for delivery in new.deliveries:
        registration, lane = numbers[delivery.registration], numbers[delivery.lane]
        yield delivery.seq, new.seq, instance, kind, registration, lane, at, size


def page(connection: sqlite3.Connection, lane: str, after: int, limit: int) -> Page:
    """The first pending deliveries of a lane with a position over ``after``, in order.

    There are at most ``limit``, and no more than :data:`PAGE_BYTES` allow.
    """
    given = {"lane": lane, "after": after, "limit": limit}
    ahead, records, payloads, bodies = connection.execute(_PAGE, given).fetchone()
    deliveries = list(_deliveries(lane, _rows_of(records), payloads or b"", bodies or b""))
    return Page(deliveries, more=ahead > len(deliveries))


def _deliveries(lane: str, rows: list[_Row], payloads: bytes, bodies: bytes) -> Iterator[Delivery]:
    data_at = body_at = 0
    for row in rows:
        data = payloads[data_at : data_at + row.data_size]
        data_at += row.data_size
        body = None
        if row.body_size is not None:
            body = bodies[body_at : body_at + row.body_size]
            body_at += row.body_size
        yield _delivery(lane, row, data, body)


def _delivery(lane: str, row: _Row, data: bytes, body: bytes | None) -> Delivery:
    event = Event(
        id=row.id,
        kind=row.kind,
        instance=row.instance,
        data_json=data,
        time=seconds(row.time),
        sender=row.sender,
        server_url=row.server_url,
    )
    return Delivery(
        seq=row.seq,
        event=event,
        registration=row.registration,
        lane=lane,
        accepted_at=seconds(row.accepted_at),
        position=row.position,
        queued_at=seconds(row.queued_at),
        attempts=row.attempts,
        failures=row.failures,
        next_at=seconds(row.next_at),
        body=body,
    )


def backlog(connection: sqlite3.Connection) -> list[LaneBacklog]:
    """What every lane with pending deliveries has before it."""
    lanes = _backlogs_of(connection.execute(_BACKLOG).fetchone()[0])
    return [LaneBacklog(lane, count, seconds(queued_at)) for lane, count, queued_at in lanes]


def pending_by_registration(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """How many deliveries are pending for each registration that has any, and their bytes of payload."""
    found = _backlogs_of(connection.execute(_PENDING_OF).fetchone()[0])
    return {registration: (count, size) for registration, count, size in found}


def count_pending(connection: sqlite3.Connection, lane: str | None = None) -> int:
    """How many deliveries are pending, in a lane or in all."""
    statement = "SELECT count(*) FROM deliveries INDEXED BY outbox WHERE state = 'pending'"
    if lane is None:
        return int(connection.execute(statement).fetchone()[0])
    statement += " AND lane = (SELECT number FROM names WHERE name = ?)"
    return int(connection.execute(statement, (lane,)).fetchone()[0])


def last_numbers(connection: sqlite3.Connection) -> tuple[int, int]:
    """The highest numbers ever given: of an event, and of a delivery or its position."""
    rows: dict[str, int] = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    return rows.get("events", 0), rows.get("deliveries", 0)
