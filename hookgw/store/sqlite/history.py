"""The history: deliveries listed, found and pruned. SQL alone; the caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.models.deliveries import Attempt, DeliveryState, Outcome, parse_delivery_id
from hookgw.models.events import Event
from hookgw.store.records import DeliveryQuery, DeliveryReport, DeliverySummary, micros, seconds
from hookgw.store.sqlite.name_ids import of_instance

_SUMMARY = """json_array(d.seq, e.id, k.name, substr(i.name, 2), e.time, r.name, l.name, d.state, d.reason,
    d.accepted_at, d.attempts, d.failures, d.next_at, d.finished_at, a.number, a.at, a.duration,
    a.outcome, a.status, a.error, a.answer)"""
_JOINS = """
    CROSS JOIN events e ON e.seq = d.event
    CROSS JOIN names k ON k.number = d.kind
    CROSS JOIN names i ON i.number = d.instance
    CROSS JOIN names r ON r.number = d.registration
    CROSS JOIN names l ON l.number = d.lane
    LEFT JOIN attempts a ON a.delivery = d.seq AND a.number = d.attempts"""
_FOUND = f"SELECT {_SUMMARY}, e.data, e.sender, e.server_url FROM deliveries d {_JOINS}"  # noqa: S608
_BY_SEQ = f"{_FOUND} WHERE d.seq = ? AND i.name = ?"
_BY_EVENT = f"""{_FOUND} WHERE d.seq = (
    SELECT max(n.seq) FROM deliveries n JOIN events m ON m.seq = n.event
    WHERE m.id = ? AND m.instance = (SELECT number FROM names WHERE name = ?))"""  # noqa: S608
_ATTEMPTS = """SELECT number, at, duration, outcome, status, error, answer
    FROM attempts WHERE delivery = ? ORDER BY number"""

_OLD = """SELECT json_group_array(seq), json_group_array(DISTINCT event), count(*), max(finished_at) FROM (
    SELECT seq, event, finished_at FROM deliveries WHERE finished_at < ? ORDER BY finished_at LIMIT ?)"""
_EVENTS_OF = """SELECT json_group_array(DISTINCT event) FROM deliveries
    WHERE seq IN (SELECT value FROM json_each(?))"""
_REMOVE = (
    "DELETE FROM attempts WHERE delivery IN (SELECT value FROM json_each(:seqs))",
    "DELETE FROM bodies WHERE seq IN (SELECT value FROM json_each(:seqs))",
    "DELETE FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs))",
    """DELETE FROM events WHERE seq IN (SELECT value FROM json_each(:events))
        AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = events.seq)""",
)
_PRUNE_UNHEARD = """DELETE FROM events WHERE seq IN (
    SELECT seq FROM events INDEXED BY unheard WHERE heard = 0 AND accepted_at < ? LIMIT ?)"""
_USED = """SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
# An event is a row of about 60 bytes beside its payload. As many as fit share a page of 4,096 bytes; a
# larger one fills pages of its own, and its rest shares one. All else of a delivery takes 210 bytes.
_NEEDED = """SELECT
    (SELECT coalesce(sum(210 + iif(size < 4000, 4096 / max(1, 4060 / (size + 60)), size + 400)), 0)
        FROM deliveries INDEXED BY outbox WHERE state = 'pending')
    + (SELECT coalesce(sum(length(key) + length(value) + 60), 0) FROM shelves)"""


class _Row(msgspec.Struct, array_like=True):
    seq: int
    event_id: str
    kind: str
    instance: str
    time: int
    registration: str
    lane: str
    state: DeliveryState
    reason: str | None
    accepted_at: int
    attempts: int
    failures: int
    next_at: int
    finished_at: int | None
    number: int | None
    at: int | None
    duration: int | None
    outcome: Outcome | None
    status: int | None
    error: str | None
    answer: str | None


_row_of = msgspec.json.Decoder(_Row).decode
_rows_of = msgspec.json.Decoder(list[_Row]).decode


def list_deliveries(connection: sqlite3.Connection, query: DeliveryQuery) -> list[DeliverySummary]:
    """The newest deliveries that a query asks for, the newest first."""
    conditions, given = _conditions(query)
    chosen = f"""SELECT seq FROM deliveries
        WHERE instance = (SELECT number FROM names WHERE name = :instance) {conditions}
        ORDER BY seq DESC LIMIT :limit"""  # noqa: S608 - made of the conditions below alone
    statement = f"""SELECT json_group_array(json(line)) FROM (
        SELECT {_SUMMARY} AS line FROM ({chosen}) c
        CROSS JOIN deliveries d ON d.seq = c.seq {_JOINS} ORDER BY d.seq DESC)"""  # noqa: S608
    return [_summary(row) for row in _rows_of(connection.execute(statement, given).fetchone()[0])]


def _conditions(query: DeliveryQuery) -> tuple[str, dict[str, Any]]:
    """What a query adds to the WHERE clause, and the values that it names."""
    given: dict[str, Any] = {"instance": of_instance(query.instance), "limit": query.limit}
    conditions = []
    if query.state is not None:
        # Written out and said twice, so that the index of what is not delivered can be used.
        conditions.append(f"AND state = '{query.state.value}'")
        if query.state is not DeliveryState.DELIVERED:
            conditions.append("AND state <> 'delivered'")
    if query.kind is not None:
        conditions.append("AND kind = (SELECT number FROM names WHERE name = :kind)")
        given["kind"] = query.kind
    for name, condition in (("since", ">= :since"), ("until", "< :until")):
        moment = getattr(query, name)
        if moment is not None:
            conditions.append(f"AND accepted_at {condition}")
            given[name] = micros(moment)
    if query.cursor is not None:
        conditions.append("AND seq < :cursor")
        given["cursor"] = query.cursor
    return " ".join(conditions), given


def find_delivery(connection: sqlite3.Connection, instance: str, name: str) -> DeliveryReport | None:
    """The delivery of that id, or the newest one of the event of that id; ``None`` if there is none."""
    seq = parse_delivery_id(name)
    owner = of_instance(instance)
    found = seq is not None and connection.execute(_BY_SEQ, (seq, owner)).fetchone()
    found = found or connection.execute(_BY_EVENT, (name, owner)).fetchone()
    if not found:
        return None
    line, data, sender, server_url = found
    summary = _summary(_row_of(line))
    event = Event(
        id=summary.event_id,
        kind=summary.kind,
        instance=summary.instance,
        data_json=data,
        time=summary.time,
        sender=sender,
        server_url=server_url,
    )
    attempts = tuple(_attempt(*row) for row in connection.execute(_ATTEMPTS, (summary.seq,)))
    return DeliveryReport(summary=summary, event=event, attempts=attempts)


def _summary(row: _Row) -> DeliverySummary:
    last = None
    if row.number is not None:
        assert row.at is not None and row.duration is not None and row.outcome is not None  # noqa: S101, PT018
        last = _attempt(
            row.number, row.at, row.duration, row.outcome, row.status, row.error, row.answer or ""
        )
    reason = row.reason
    if reason is None and row.state is DeliveryState.DEAD and last is not None:
        reason = last.error
    return DeliverySummary(
        seq=row.seq,
        event_id=row.event_id,
        kind=row.kind,
        instance=row.instance,
        time=seconds(row.time),
        registration=row.registration,
        lane=row.lane,
        state=row.state,
        reason=reason,
        accepted_at=seconds(row.accepted_at),
        attempts=row.attempts,
        failures=row.failures,
        next_at=seconds(row.next_at),
        finished_at=None if row.finished_at is None else seconds(row.finished_at),
        last_attempt=last,
    )


def _attempt(
    number: int, at: int, duration: int, outcome: str, status: int | None, error: str | None, answer: str
) -> Attempt:
    return Attempt(
        number=number,
        at=seconds(at),
        duration=seconds(duration),
        outcome=Outcome(outcome),
        status=status,
        error=error,
        answer=answer,
    )


def prune(connection: sqlite3.Connection, before: float, limit: int) -> int:
    """Remove the oldest deliveries that finished before a time, and events that none refers to any more.

    Returns:
        How many deliveries and unheard events went; 0 where nothing is left to remove.
    """
    end = micros(before)
    row: tuple[str, str, int, int] = connection.execute(_OLD, (end, limit)).fetchone()
    seqs, events, count, last = row
    if count:
        _remove(connection, seqs, events)
    # Where older deliveries are left, unheard events that are younger than those removed stay too.
    until = last if count == limit else end
    unheard: int = connection.execute(_PRUNE_UNHEARD, (until, limit)).rowcount
    return count + unheard


def forget(connection: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Remove deliveries of these numbers, and events that none refers to any more."""
    if not seqs:
        return
    asked = msgspec.json.encode(seqs).decode()
    _remove(connection, asked, connection.execute(_EVENTS_OF, (asked,)).fetchone()[0])


def _remove(connection: sqlite3.Connection, seqs: str, events: str) -> None:
    for statement in _REMOVE:
        connection.execute(statement, {"seqs": seqs, "events": events})


def used_bytes(connection: sqlite3.Connection) -> int:
    """How much of the data file is in use; it reads two numbers that the file keeps."""
    return int(connection.execute(_USED).fetchone()[0])


def needed_bytes(connection: sqlite3.Connection) -> int:
    """About how much of that the outbox and the shelves take."""
    return int(connection.execute(_NEEDED).fetchone()[0])
