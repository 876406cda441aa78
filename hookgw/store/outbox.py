"""The outbox: pending deliveries, in order. SQL alone; the caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookgw.deliveries import Delivery, DeliveryState, Settlement
from hookgw.events import Event
from hookgw.store.bulk import Bulk
from hookgw.store.names import Names
from hookgw.store.records import LaneBacklog, micros, seconds

PAGE_BYTES = 8 * 2**20
"""A page of a lane ends before the delivery that would take its payloads and bodies over this."""

_RELANE_PAGE = 500

_ADD_EVENTS = Bulk(
    """INSERT INTO events (seq, instance, id, kind, time, accepted_at, data, sender, server_url, heard)
    SELECT * FROM""",
    10,
    "WHERE column1 IS NOT NULL ON CONFLICT (id, instance) DO NOTHING",
)
_ADD_DELIVERIES = Bulk(
    """INSERT INTO deliveries
    (seq, event, instance, kind, registration, lane, accepted_at, state, attempts, failures, next_at)
    SELECT *, 'pending', 0, 0, 0 FROM""",
    7,
    "WHERE column1 IS NOT NULL",
)
_KEPT_EVENTS = "SELECT json_group_array(seq) FROM events WHERE seq BETWEEN ? AND ?"

_STILL_PENDING = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'"""
_SETTLE = Bulk(
    """UPDATE deliveries SET state = column2, attempts = coalesce(column3, attempts),
    failures = column4, next_at = column5, finished_at = column6, reason = column7 FROM""",
    7,
    "WHERE deliveries.seq = column1",
)
_ADD_ATTEMPTS = Bulk(
    "INSERT INTO attempts (delivery, number, at, duration, outcome, status, error, answer) SELECT * FROM",
    8,
    "WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING",
)
_KEEP_BODIES = Bulk("REPLACE INTO bodies (seq, body) SELECT * FROM", 2, "WHERE column1 IS NOT NULL")
_DROP_BODIES = "DELETE FROM bodies WHERE seq IN (SELECT value FROM json_each(?))"

# The page comes as one row: its records as JSON, its payloads and bodies end to end as bytes.
_PAGE = """
WITH
lined_up AS (
    SELECT d.seq, d.event, d.registration, d.accepted_at, d.attempts, d.failures, d.next_at,
        length(e.data) AS data_size, length(b.body) AS body_size
    FROM deliveries d INDEXED BY outbox
    CROSS JOIN events e ON e.seq = d.event
    LEFT JOIN bodies b ON b.seq = d.seq
    WHERE d.state = 'pending' AND d.seq > :after
        AND d.lane = (SELECT number FROM names WHERE name = :lane)
    ORDER BY d.seq LIMIT :limit
),
measured AS (
    SELECT *, sum(data_size + coalesce(body_size, 0))
        OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM lined_up
),
page AS (
    SELECT m.*, e.id, e.time, e.sender, e.server_url, e.data, b.body,
        i.name AS instance, k.name AS kind, r.name AS registration_id
    FROM measured m
    CROSS JOIN events e ON e.seq = m.event
    CROSS JOIN names i ON i.number = e.instance
    CROSS JOIN names k ON k.number = e.kind
    CROSS JOIN names r ON r.number = m.registration
    LEFT JOIN bodies b ON b.seq = m.seq
    WHERE coalesce(bytes_before, 0) < :bytes
    ORDER BY m.seq
)
SELECT
    json_group_array(json_array(seq, id, kind, instance, time, sender, server_url, registration_id,
        accepted_at, attempts, failures, next_at, data_size, body_size)),
    CAST(group_concat(CAST(data AS TEXT), '') AS BLOB),
    CAST(group_concat(CAST(body AS TEXT), '') AS BLOB)
FROM page
"""
_BACKLOG = """
SELECT json_group_array(json_array(n.name, waiting.count, d.accepted_at))
FROM (
    SELECT lane, count(*) AS count, min(seq) AS first
    FROM deliveries INDEXED BY outbox WHERE state = 'pending' GROUP BY lane
) waiting
CROSS JOIN deliveries d ON d.seq = waiting.first
CROSS JOIN names n ON n.number = waiting.lane
"""
_MINE = """seq IN (
    SELECT seq FROM deliveries INDEXED BY outbox WHERE state = 'pending'
        AND lane IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:lanes)))
        AND registration = (SELECT number FROM names WHERE name = :registration)
        AND seq > :after
    ORDER BY seq LIMIT :limit)"""


class NewEvent(msgspec.Struct):
    """One event on its way into the outbox, with the deliveries that it makes."""

    seq: int
    event: Event
    accepted_at: float
    deliveries: list[Delivery]


class _Row(msgspec.Struct, array_like=True):
    seq: int
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


def append(connection: sqlite3.Connection, names: Names, news: Sequence[NewEvent]) -> set[int]:
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
        yield new.event.instance
        yield new.event.kind
        for delivery in new.deliveries:
            yield delivery.registration
            yield delivery.lane


def _event_row(new: NewEvent, numbers: Mapping[str, int]) -> tuple[Any, ...]:
    event = new.event
    data = event.data_json if new.deliveries else b""
    return (
        new.seq,
        numbers[event.instance],
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
    instance, kind = numbers[new.event.instance], numbers[new.event.kind]
    at = micros(new.accepted_at)
    for delivery in new.deliveries:
        registration, lane = numbers[delivery.registration], numbers[delivery.lane]
        yield delivery.seq, new.seq, instance, kind, registration, lane, at


def settle(connection: sqlite3.Connection, settlements: Sequence[Settlement]) -> int:
    """Write what came of deliveries, in order; one that is not pending when its turn comes is left alone.

    Returns:
        How many deliveries are no longer pending.
    """
    if not settlements:
        return 0
    asked = msgspec.json.encode(list({settlement.seq for settlement in settlements})).decode()
    pending = set(_numbers_of(connection.execute(_STILL_PENDING, (asked,)).fetchone()[0]))
    before = len(pending)
    applied = []
    for settlement in settlements:
        if settlement.seq in pending:
            applied.append(settlement)
            if settlement.state is not DeliveryState.PENDING:
                pending.remove(settlement.seq)
    _write_settlements(connection, applied)
    return before - len(pending)


def _write_settlements(connection: sqlite3.Connection, settlements: Sequence[Settlement]) -> None:
    attempts = [_attempt_row(settlement) for settlement in settlements if settlement.attempt]
    numbers = {row[0]: row[1] for row in attempts}
    last = {settlement.seq: settlement for settlement in settlements}
    bodies = {s.seq: s.body for s in settlements if s.body is not None}
    done = [s.seq for s in last.values() if _is_done_with_body(s)]
    _SETTLE.run(connection, [_settled_row(s, numbers.get(s.seq)) for s in last.values()])
    _ADD_ATTEMPTS.run(connection, attempts)
    _KEEP_BODIES.run(connection, list(bodies.items()))
    if done:
        connection.execute(_DROP_BODIES, (msgspec.json.encode(done).decode(),))


def _is_done_with_body(settlement: Settlement) -> bool:
    """Whether a stored body may be there and is of no more use: a first attempt never finds one."""
    if settlement.state not in (DeliveryState.DELIVERED, DeliveryState.DROPPED):
        return False
    return settlement.attempt is None or settlement.attempt.number > 1 or settlement.body is not None


def _settled_row(settlement: Settlement, attempts: int | None) -> tuple[Any, ...]:
    finished = None if settlement.state is DeliveryState.PENDING else micros(settlement.at)
    return (
        settlement.seq,
        settlement.state.value,
        attempts,
        settlement.failures,
        micros(settlement.next_at),
        finished,
        _storable(settlement.reason),
    )


def _attempt_row(settlement: Settlement) -> tuple[Any, ...]:
    attempt = settlement.attempt
    assert attempt is not None  # noqa: S101 - for the type checker; the caller has filtered
    return (
        settlement.seq,
        attempt.number,
        micros(attempt.at),
        micros(attempt.duration),
        attempt.outcome.value,
        attempt.status,
        _storable(attempt.error),
        _storable(attempt.answer),
    )


def _storable(text: str | None) -> str | None:
    """The text without lone surrogates, which system messages can bring and UTF-8 cannot hold."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def page(connection: sqlite3.Connection, lane: str, after: int, limit: int) -> list[Delivery]:
    """The pending deliveries of a lane with a sequence number over ``after``, in order.

    At most ``limit``, and fewer where their payloads are large; at least one if there is one.
    """
    given = {"lane": lane, "after": after, "limit": limit, "bytes": PAGE_BYTES}
    records, payloads, bodies = connection.execute(_PAGE, given).fetchone()
    return list(_deliveries(lane, _rows_of(records), payloads or b"", bodies or b""))


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
        attempts=row.attempts,
        failures=row.failures,
        next_at=seconds(row.next_at),
        body=body,
    )


def backlog(connection: sqlite3.Connection) -> list[LaneBacklog]:
    """What every lane with pending deliveries has before it."""
    lanes = _backlogs_of(connection.execute(_BACKLOG).fetchone()[0])
    return [LaneBacklog(lane, count, seconds(accepted_at)) for lane, count, accepted_at in lanes]


def count_pending(connection: sqlite3.Connection) -> int:
    """How many deliveries are pending."""
    statement = "SELECT count(*) FROM deliveries INDEXED BY outbox WHERE state = 'pending'"
    return int(connection.execute(statement).fetchone()[0])


def last_numbers(connection: sqlite3.Connection) -> tuple[int, int]:
    """The highest sequence numbers ever given: of an event, and of a delivery."""
    rows: dict[str, int] = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    return rows.get("events", 0), rows.get("deliveries", 0)


def park(
    connection: sqlite3.Connection,
    registration: str,
    lanes: Sequence[str],
    reason: str,
    at: float,
    limit: int = -1,
) -> int:
    """Make pending deliveries of a registration dead; return how many."""
    given = _mine(registration, lanes, limit) | {"reason": _storable(reason), "at": micros(at)}
    return connection.execute(
        f"UPDATE deliveries SET state = 'dead', reason = :reason, finished_at = :at WHERE {_MINE}",  # noqa: S608
        given,
    ).rowcount


def relane(
    connection: sqlite3.Connection,
    names: Names,
    registration: str,
    old_lanes: Sequence[str],
    lane_of: Callable[[Event], str] | str,
) -> list[str]:
    """Move pending deliveries of a registration, which keep their numbers; return where they are now."""
    if isinstance(lane_of, str):
        return _relane_all(connection, names, registration, old_lanes, lane_of)
    reached: set[str] = set()
    given = _mine(registration, old_lanes, _RELANE_PAGE)
    while rows := connection.execute(_MOVING, given).fetchall():
        lanes = {row[0]: lane_of(_moving_event(row)) for row in rows}
        numbers = names.numbers(lanes.values())
        _MOVE.run(connection, [(seq, numbers[lane]) for seq, lane in lanes.items()])
        reached.update(lanes.values())
        given["after"] = rows[-1][0]
    return sorted(reached)


_MOVING = f"""
SELECT d.seq, e.id, k.name, i.name, e.data, e.time, e.sender, e.server_url
FROM (SELECT seq, event FROM deliveries WHERE {_MINE}) d
CROSS JOIN events e ON e.seq = d.event
CROSS JOIN names i ON i.number = e.instance
CROSS JOIN names k ON k.number = e.kind
ORDER BY d.seq
"""  # noqa: S608 - no value of a caller is in it
_MOVE = Bulk("UPDATE deliveries SET lane = column2 FROM", 2, "WHERE deliveries.seq = column1")


def _moving_event(row: tuple[Any, ...]) -> Event:
    _, event_id, kind, instance, data, time, sender, server_url = row
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
    moved = connection.execute(f"UPDATE deliveries SET lane = :lane WHERE {_MINE}", given).rowcount  # noqa: S608
    return [lane] if moved else []


def _mine(registration: str, lanes: Sequence[str], limit: int) -> dict[str, Any]:
    return {
        "registration": registration,
        "lanes": msgspec.json.encode(list(lanes)).decode(),
        "after": 0,
        "limit": limit,
    }
