"""Appending: events and their first deliveries go into the outbox. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection, Cursor

from hookgw.store.commits.jobs import AppendedEvent
from hookgw.store.figure_news import ACCEPTED, WANTED
from hookgw.store.postgresql.transaction import ADD_INSTANCES, INSTANCES
from hookgw.store.records import micros

# One statement tells what the next one needs, because each costs a way to the server and back.
PREPARE = """SELECT
    (SELECT array_agg(nextval('event_numbers')) FROM generate_series(1, %s)),
    (SELECT array_agg(nextval('delivery_numbers')) FROM generate_series(1, %s)),
    (SELECT json_object_agg(name, number) FROM instance_numbers WHERE name = ANY(%s))"""
# The unique index finds duplicates in the same statement, so no read is needed before the write. If another
# node is about to store the same event, this waits for its commit.
APPEND = f"""WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bigint[], %b::bigint[],
        %b::bytea[], %b::text[], %b::text[], %b::integer[])
    AS event (seq, instance, id, kind, time, accepted_at, data, sender, server_url, heard)
),
added AS (
    INSERT INTO events (seq, instance, id, kind, time, accepted_at, data, sender, server_url, heard)
    SELECT * FROM given ON CONFLICT (id, instance) DO NOTHING RETURNING seq
),
sent AS (
    INSERT INTO deliveries (seq, event, instance, kind, registration, lane, state, accepted_at, size, xid,
        position, queued_at, attempts, failures, next_at)
    SELECT target.seq, target.event, given.instance, given.kind, target.registration, target.lane, 'pending',
        given.accepted_at, octet_length(given.data), %b, target.seq, given.accepted_at, 0, 0, 0
    FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[])
        AS target (seq, event, registration, lane)
    JOIN added ON added.seq = target.event
    JOIN given ON given.seq = target.event
    RETURNING registration, instance
),
counted AS (
    INSERT INTO figure_news (entries)
    SELECT json_build_array(%b::bigint, json_agg(entry)) FROM (
        SELECT json_build_array({ACCEPTED}, '', instance, count(*), -1, -1) AS entry
            FROM added JOIN given USING (seq) GROUP BY instance
        UNION ALL
        SELECT json_build_array({WANTED}, registration, instance, count(*), -1, -1)
            FROM sent GROUP BY registration, instance
    ) entries HAVING count(*) > 0
)
SELECT coalesce(array_agg(seq), ARRAY[]::bigint[]) FROM added"""  # noqa: S608 - numbers of ours
_STORED = """SELECT e.seq FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS given (seq, id, name)
    JOIN events e ON e.seq = given.seq AND e.id = given.id
    JOIN instance_numbers i ON i.number = e.instance AND i.name = given.name"""


def append(
    connection: Connection, xid: int, news: Sequence[AppendedEvent], *, keep_unwanted: bool = True
) -> set[int]:
    """See :func:`hookgw.store.sqlite.append.append`."""
    prepared = prepare(connection, news)
    if prepared is None:
        return set()
    return added(send(connection, xid, prepared, news, keep_unwanted=keep_unwanted))


def prepare(connection: Connection, news: Sequence[AppendedEvent]) -> Cursor[Any] | None:
    """Ask for the numbers that events and deliveries will have; ``None`` without events.

    This and :func:`send` are apart, so that what else a commit asks the server goes the same way.
    """
    if not news:
        return None
    names = list({new.event.instance for new in news})
    count = sum(len(new.deliveries) for new in news)
    return connection.execute(PREPARE, (len(news), count, names))


def send(
    connection: Connection,
    xid: int,
    prepared: Cursor[Any],
    news: Sequence[AppendedEvent],
    *,
    keep_unwanted: bool = True,
) -> Cursor[Any] | None:
    """Add events and deliveries, which get their numbers here, in the order given, and their positions.

    Args:
        prepared: from :func:`prepare`, of these events, and others perhaps.

    Returns:
        The answer, for :func:`added`; ``None`` if there was nothing to add.
    """
    row = prepared.fetchone()
    assert row is not None  # noqa: S101
    event_numbers, delivery_numbers, instances = iter(row[0]), iter(row[1] or ()), row[2] or {}
    unknown = sorted({new.event.instance for new in news if new.event.instance not in instances})
    if unknown:
        connection.execute(ADD_INSTANCES, (unknown,))
        # Another statement: it sees what another node has added meanwhile.
        instances.update(connection.execute(INSTANCES, (unknown,)).fetchall())
    targets: list[tuple[int, int, str, str]] = []
    for new in news:
        new.seq = next(event_numbers)
        for delivery in new.deliveries:
            delivery.seq = next(delivery_numbers)
            delivery.position = position(xid, delivery.seq)
            targets.append((delivery.seq, new.seq, delivery.registration, delivery.lane))
    # In one order on all nodes: two that store the same events in different orders would wait for each other.
    # Of events with one id, the first one comes first.
    events = [
        (
            new.seq,
            instances[new.event.instance],
            new.event.id,
            new.event.kind,
            micros(new.event.time),
            micros(new.accepted_at),
            new.event.data_json if keep_unwanted or new.deliveries else b"",
            new.event.sender,
            new.event.server_url,
            len(new.deliveries),
        )
        for new in sorted(news, key=lambda new: (new.event.id, new.event.instance))
    ]
    if not events:
        return None
    columns = [list(column) for column in zip(*events, strict=True)]
    target_columns = [list(column) for column in zip(*targets, strict=True)] or [[], [], [], []]
    at = int(news[-1].accepted_at)
    return connection.execute(APPEND, (*columns, xid, *target_columns, at))


def added(answer: Cursor[Any] | None) -> set[int]:
    row = None if answer is None else answer.fetchone()
    return set() if row is None else set(row[0])


def find_stored(connection: Connection, news: Sequence[AppendedEvent]) -> set[int]:
    seqs, ids = [new.seq for new in news], [new.event.id for new in news]
    names = [new.event.instance for new in news]
    return {seq for (seq,) in connection.execute(_STORED, (seqs, ids, names))} if news else set()


def position(xid: int, number: int) -> int:
    """Return a place in a lane: by the transaction first, then by the number, which may be negative."""
    return (xid << 64) + number


def parts_of(place: int) -> tuple[int, int]:
    """Return the transaction and the number of a place in a lane, as the server takes them."""
    xid = (place + 2**63) >> 64
    return min(xid, 2**63 - 1), place - (xid << 64)
