"""Settling: the outcomes of deliveries go into the outbox. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from psycopg import Connection, Cursor

from hookgw.records.deliveries import Attempt, DeliveryState, Settlement
from hookgw.store.commits.changes import weigh
from hookgw.store.figure_news import BURIED, DELIVERED, entry_of
from hookgw.store.history_rows import attempt_row, heads_of, settled_rows
from hookgw.store.postgresql.lookups import columns_of, count_rows, sought
from hookgw.store.postgresql.removal import remove
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import DROPPED_AS_OLDEST, PendingChange, micros, seconds

# Locked in one order: two commits that settle the same deliveries would otherwise wait for each other. The
# state is in a form that no index has: with old statistics, the server would take a partial index of what is
# pending for short, and walk through all of a backlog.
STILL_PENDING = """SELECT d.seq, d.event, d.registration,
        (SELECT name FROM instance_numbers WHERE number = d.instance), d.size, d.instance, d.queued_at
    FROM deliveries d
    WHERE d.seq = ANY(%b::bigint[]) AND d.state || '' = 'pending' ORDER BY d.seq FOR UPDATE"""
# Without an attempt (parked, expired) the count of attempts stays. The numbers come twice: with a plan of a
# time when the table was small, a join alone would walk through all of it.
SETTLE = """UPDATE deliveries SET state = given.state,
    attempts = coalesce(given.attempts, deliveries.attempts), failures = given.failures,
    next_at = given.next_at, finished_at = given.finished_at, reason = given.reason
    FROM unnest(%b::bigint[], %b::text[], %b::integer[], %b::integer[], %b::bigint[], %b::bigint[],
        %b::text[])
    AS given (seq, state, attempts, failures, next_at, finished_at, reason)
    WHERE deliveries.seq = given.seq AND deliveries.seq = ANY(%b::bigint[])"""
# An attempt that is recorded already stays as it was first written.
_ADD_ATTEMPTS = """INSERT INTO attempts (delivery, number, at, duration, outcome, status, error, answer, url,
        heads)
    SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::bigint[], %b::bigint[], %b::text[], %b::integer[],
        %b::text[], %b::text[], %b::text[], %b::text[])
    ON CONFLICT (delivery, number) DO NOTHING"""
# Another node dropped it to make room, and could not know what this one has in flight. It was counted as gone
# then, and has arrived all the same.
_ARRIVED = f"""WITH given AS (
    SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[],
        %b::integer[], %b::text[], %b::text[], %b::text[])
        AS given (seq, number, finished_at, at, duration, outcome, status, error, answer, url)
),
arrived AS (
    UPDATE deliveries SET state = 'delivered', attempts = given.number, finished_at = given.finished_at,
        reason = NULL
    FROM given WHERE deliveries.seq = given.seq AND deliveries.seq = ANY(%b::bigint[])
        AND deliveries.state || '' = 'dead' AND deliveries.reason ^@ %b
    RETURNING deliveries.seq, deliveries.registration, deliveries.instance, given.finished_at
),
counted AS (
    INSERT INTO figure_news (entries)
    SELECT json_build_array(max(finished_at) / 1000000, json_agg(entry)) FROM (
        SELECT finished_at, json_build_array({BURIED}, registration, instance, -1, -1, -1) AS entry
            FROM arrived
        UNION ALL
        SELECT finished_at, json_build_array({DELIVERED}, registration, instance, 0, -1, -1) FROM arrived
    ) entries HAVING count(*) > 0
)
INSERT INTO attempts (delivery, number, at, duration, outcome, status, error, answer, url)
    SELECT seq, number, at, duration, outcome, status, error, answer, url FROM given JOIN arrived USING (seq)
    ON CONFLICT (delivery, number) DO NOTHING"""  # noqa: S608 - numbers of ours
_STORE_BODIES = """INSERT INTO bodies (seq, body) SELECT * FROM unnest(%b::bigint[], %b::bytea[])
    ON CONFLICT (seq) DO UPDATE SET body = excluded.body"""
_MAKE_DUE = """UPDATE deliveries SET next_at = 0
    WHERE state = 'pending' AND next_at > 0 AND registration = %s"""


def settle(
    transaction: Transaction, settlements: Sequence[Settlement], *, keep_history: bool = True
) -> PendingChange:
    """See :func:`hookgw.store.sqlite.settle.settle`.

    A delivery that was dropped to make room, and has arrived, is settled although it is not pending.
    """
    found = find_unsettled(transaction.connection, settlements)
    if found is None:
        return {}
    # All on their way before the first answer is waited for.
    with transaction.connection.pipeline():
        return write(transaction, found, settlements, keep_history=keep_history)


def find_unsettled(connection: Connection, settlements: Sequence[Settlement]) -> Cursor[Any] | None:
    """Ask which of the deliveries are pending, and lock them; ``None`` without settlements.

    This and :func:`write` are apart, so that what else a commit asks the server goes the same way.
    """
    if not settlements:
        return None
    seqs = sorted({settlement.seq for settlement in settlements})
    return connection.execute(STILL_PENDING, (seqs,))


def write(
    transaction: Transaction,
    pending: Iterable[tuple[Any, ...]],
    settlements: Sequence[Settlement],
    *,
    keep_history: bool,
) -> PendingChange:
    """Do the rest of :func:`settle`, in a pipeline.

    ``pending`` is the answer to :func:`find_unsettled`, of these settlements, and others perhaps.
    """
    connection = transaction.connection
    found = {row[0]: row[1:] for row in pending}
    entries = []
    finished: dict[int, int] = {}
    applied, missed = [], []
    for settlement in settlements:
        if settlement.seq not in found:
            missed.append(settlement)
        # A delivery that is finished is final: a second settlement in this commit must not change it.
        elif settlement.seq not in finished:
            applied.append(settlement)
            _, registration, _, _, instance, queued_at = found[settlement.seq]
            entries.append(entry_of(settlement, registration, instance, seconds(queued_at)))
            if settlement.state is not DeliveryState.PENDING:
                finished[settlement.seq] = found[settlement.seq][0]
    gone = weigh(found[seq][1:4] for seq in finished)
    transaction.count_entries(max((one.at for one in applied), default=0.0), entries)
    if missed and keep_history:
        _settle_dropped(connection, missed)
    if not keep_history and finished:
        remove(connection, list(finished), set(finished.values()))
        # Their rows are gone, and a body or an attempt without its delivery would stay for ever.
        applied = [settlement for settlement in applied if settlement.seq not in finished]
    if not applied:
        return gone
    # In one order, as in all statements that lock several deliveries.
    rows = sorted(settled_rows(applied, text), key=itemgetter(0))
    bodies = {s.seq: s.body for s in applied if s.body is not None}
    attempts = [
        (s.seq, s.attempt.number, *_attempt_row(s.attempt), heads_of(s.attempt, text))
        for s in applied
        if s.attempt
    ]
    connection.execute(SETTLE, [*columns_of(rows), [row[0] for row in rows]])
    if bodies:
        connection.execute(_STORE_BODIES, (list(bodies), list(bodies.values())))
    if keep_history and attempts:
        connection.execute(_ADD_ATTEMPTS, columns_of(attempts))
    return gone


def _settle_dropped(connection: Connection, settlements: Sequence[Settlement]) -> None:
    """Write which of these deliveries have arrived, if they were dropped to make room."""
    arrived = {s.seq: s for s in settlements if s.state is DeliveryState.DELIVERED}
    rows = [
        (seq, s.attempt.number, micros(s.at), *_attempt_row(s.attempt))
        for seq, s in sorted(arrived.items())
        if s.attempt
    ]
    if rows:
        connection.execute(_ARRIVED, [*columns_of(rows), [row[0] for row in rows], DROPPED_AS_OLDEST])


def _attempt_row(attempt: Attempt) -> tuple[object, ...]:
    return (*attempt_row(attempt, text), text(attempt.url))


def make_due(connection: Connection, registration: str) -> int:
    return count_rows(connection, _MAKE_DUE, (registration,))


def text(found: str | None) -> str | None:
    """Return a text of a receiver or of the system, with what the server cannot store replaced."""
    return None if found is None else sought(found)
