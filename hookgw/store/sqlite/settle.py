"""Settling: what came of deliveries goes into the outbox. SQL alone; the caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.models.deliveries import DeliveryState, Settlement
from hookgw.store.records import micros, storable
from hookgw.store.sqlite import history
from hookgw.store.sqlite.bulk import Bulk
from hookgw.store.sqlite.pending_counts import Change, weight

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

_numbers_of = msgspec.json.Decoder(list[int]).decode


def settle(
    connection: sqlite3.Connection, settlements: Sequence[Settlement], *, keep_history: bool = True
) -> Change:
    """Write what came of deliveries, in order; one that is not pending when its turn comes is left alone.

    Args:
        connection: in a transaction.
        settlements: what came of them.
        keep_history: whether attempts and finished deliveries are kept; else what is finished goes.

    Returns:
        What is no longer pending.
    """
    if not settlements:
        return {}
    asked = msgspec.json.encode(list({settlement.seq for settlement in settlements})).decode()
    pending = set(_numbers_of(connection.execute(_STILL_PENDING, (asked,)).fetchone()[0]))
    finished = []
    applied = []
    for settlement in settlements:
        if settlement.seq in pending:
            applied.append(settlement)
            if settlement.state is not DeliveryState.PENDING:
                pending.remove(settlement.seq)
                finished.append(settlement.seq)
    gone = weight(connection, finished)
    if not keep_history:
        history.forget(connection, finished)
        applied = [settlement for settlement in applied if settlement.seq in pending]
    _write_settlements(connection, applied)
    if keep_history:
        _ADD_ATTEMPTS.run(connection, [_attempt_row(s) for s in applied if s.attempt])
    return gone


def _write_settlements(connection: sqlite3.Connection, settlements: Sequence[Settlement]) -> None:
    numbers = {s.seq: s.attempt.number for s in settlements if s.attempt}
    last = {settlement.seq: settlement for settlement in settlements}
    bodies = {s.seq: s.body for s in settlements if s.body is not None}
    _SETTLE.run(connection, [_settled_row(s, numbers.get(s.seq)) for s in last.values()])
    _KEEP_BODIES.run(connection, list(bodies.items()))


def _settled_row(settlement: Settlement, attempts: int | None) -> tuple[Any, ...]:
    finished = None if settlement.state is DeliveryState.PENDING else micros(settlement.at)
    return (
        settlement.seq,
        settlement.state.value,
        attempts,
        settlement.failures,
        micros(settlement.next_at),
        finished,
        storable(settlement.reason),
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
        storable(attempt.error),
        storable(attempt.answer),
    )
