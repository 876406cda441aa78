"""The outbox: the pending deliveries, appended and read in order, and their counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from hookgw.records.deliveries import Delivery, Page, Position
from hookgw.records.instances import name_before_retirement
from hookgw.records.lanes import registration_of
from hookgw.store.commits.jobs import AppendedEvent
from hookgw.store.history_rows import event_of
from hookgw.store.outbox import OUTBOX_PAGE_BYTES, CommittedOutbox
from hookgw.store.records import Append, LaneBacklog, PendingChange, seconds
from hookgw.store.searches import LAST
from hookgw.store.sqlite.history import last_attempt as last_attempt
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers
from hookgw.store.sqlite.transaction import Transaction

# How many rows of a lane with several instances are counted at a time.
COUNTED_ROWS = 50_000

# The page comes as one row: its records as JSON, its payloads and bodies end to end as bytes. It is cut to
# size with the index alone, before a payload is read. It asks for one delivery more than wanted, to know
# whether the lane has more. CROSS JOIN fixes the order of the joins: without statistics SQLite might begin
# with the names. SQLite cannot aggregate blobs, so they are joined as text; the casts keep every byte.
_PAGE = f"""
WITH ahead AS MATERIALIZED (
    SELECT first.seq, row_number() OVER places AS place,
        sum(first.size + coalesce(length(b.body), 0)) OVER places AS bytes
    FROM (
        SELECT seq, position, size FROM deliveries INDEXED BY outbox
        WHERE state = 'pending' AND position > :after AND position < :before
            AND registration = (SELECT number FROM names WHERE name = :registration)
            AND lane = (SELECT number FROM names WHERE name = :lane)
        ORDER BY position LIMIT :limit + 1
    ) first
    LEFT JOIN bodies b ON b.seq = first.seq
    WINDOW places AS (ORDER BY first.position ROWS UNBOUNDED PRECEDING)
),
page AS (
    SELECT d.seq, d.position, d.queued_at, e.id, k.name AS kind, substr(i.name, 2) AS instance, e.time,
        e.sender, e.server_url, d.accepted_at, d.attempts, d.failures, d.next_at, e.data, b.body
    FROM ahead
    CROSS JOIN deliveries d ON d.seq = ahead.seq
    CROSS JOIN events e ON e.seq = d.event
    CROSS JOIN names i ON i.number = d.instance
    CROSS JOIN names k ON k.number = d.kind
    LEFT JOIN bodies b ON b.seq = d.seq
    WHERE place <= :limit AND (bytes <= coalesce(:size, {OUTBOX_PAGE_BYTES}) OR place = 1 AND :size IS NULL)
    ORDER BY place
)
SELECT
    (SELECT count(*) FROM ahead),
    (SELECT bytes FROM ahead WHERE place = 1),
    json_group_array(json_array(seq, position, queued_at, id, kind, instance, time, sender, server_url,
        accepted_at, attempts, failures, next_at, length(data), length(body))),
    CAST(group_concat(CAST(data AS TEXT), '') AS BLOB),
    CAST(group_concat(CAST(body AS TEXT), '') AS BLOB)
FROM page
"""  # noqa: S608 - a number of ours
_BACKLOGS = """
SELECT json_group_array(json_array(n.name, waiting.count))
FROM (
    SELECT lane, count(*) AS count
    FROM deliveries INDEXED BY outbox WHERE state = 'pending' {only} GROUP BY registration, lane
) waiting
CROSS JOIN names n ON n.number = waiting.lane
"""
_ALL_BACKLOGS = _BACKLOGS.format(only="")
_BACKLOGS_OF_ONE = _BACKLOGS.format(only="AND registration = (SELECT number FROM names WHERE name = ?)")
# By lane, not by instance: the index has the rows in this order, and millions need not be sorted. Nearly
# every lane has the events of one instance.
_COUNTS = """
SELECT json_group_array(json_array(r.name, substr(i.name, 2), waiting.registration, waiting.lane,
    waiting.instance, waiting.last_instance, waiting.count, waiting.bytes))
FROM (
    SELECT registration, lane, min(instance) AS instance, max(instance) AS last_instance,
        count(*) AS count, sum(size) AS bytes
    FROM deliveries INDEXED BY outbox WHERE state = 'pending' GROUP BY registration, lane
) waiting
CROSS JOIN names r ON r.number = waiting.registration
CROSS JOIN names i ON i.number = waiting.instance
"""
# A part of a lane at a time, for the same reason: only the part is sorted.
_COUNTS_OF_LANE = """
SELECT json_group_array(json_array(substr(i.name, 2), part.count, part.bytes)),
    max(part.last), sum(part.count)
FROM (
    SELECT instance, count(*) AS count, sum(size) AS bytes, max(position) AS last FROM (
        SELECT position, instance, size FROM deliveries INDEXED BY outbox
        WHERE state = 'pending' AND registration = :registration AND lane = :lane AND position > :after
        ORDER BY position LIMIT :limit
    ) GROUP BY instance
) part
CROSS JOIN names i ON i.number = part.instance
"""
_COUNT_LANE = """SELECT count(*) FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND registration = (SELECT number FROM names WHERE name = ?)
        AND lane = (SELECT number FROM names WHERE name = ?)"""
# A loose index scan: one search of the index for each lane, however many deliveries each lane has.
_LANES = """
WITH RECURSIVE target (registration) AS MATERIALIZED (SELECT number FROM names WHERE name = ?),
found (lane) AS (
    SELECT (SELECT min(d.lane) FROM deliveries d INDEXED BY outbox
        WHERE d.state = 'pending' AND d.registration = target.registration)
    FROM target
    UNION ALL
    SELECT (SELECT min(d.lane) FROM deliveries d INDEXED BY outbox
        WHERE d.state = 'pending' AND d.registration = target.registration AND d.lane > found.lane)
    FROM found CROSS JOIN target WHERE found.lane IS NOT NULL
)
SELECT json_group_array(json_array(found.lane, n.name, (
    SELECT min(d.position) FROM deliveries d INDEXED BY outbox
    WHERE d.state = 'pending' AND d.registration = target.registration AND d.lane = found.lane)))
FROM found CROSS JOIN target CROSS JOIN names n ON n.number = found.lane
"""


class PendingLane(NamedTuple):
    """A lane with pending deliveries; ``head`` is its first position."""

    number: int
    key: str
    head: int


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
    accepted_at: int
    attempts: int
    failures: int
    next_at: int
    data_size: int
    body_size: int | None


_rows_of = msgspec.json.Decoder(list[_Row]).decode
_counts_of = msgspec.json.Decoder(list[tuple[str, int, int]]).decode
_backlogs_of = msgspec.json.Decoder(list[LaneBacklog]).decode
_lane_counts_of = msgspec.json.Decoder(list[tuple[str, str, int, int, int, int, int, int]]).decode
_lanes_of = msgspec.json.Decoder(list[PendingLane]).decode


def transaction_of(place: Position) -> int:  # noqa: ARG001
    """Return the transaction in a place in a lane. A file numbers none, and has no former generations."""
    return 0


def read_lane(
    connection: sqlite3.Connection,
    lane: str,
    after: int,
    limit: int,
    size: int | None = None,
    before: int | None = None,
) -> Page:
    # The index leads with the registration, and the key of the lane names it.
    registration = registration_of(lane)
    given = {
        "registration": registration,
        "lane": lane,
        "after": after,
        "before": LAST if before is None else before,
        "limit": limit,
        "size": size,
    }
    ahead, needed, records, payloads, bodies = connection.execute(_PAGE, given).fetchone()
    deliveries = list(_deliveries(registration, lane, _rows_of(records), payloads or b"", bodies or b""))
    return Page(deliveries, ahead > len(deliveries), needed or 0)


def _deliveries(
    registration: str, lane: str, rows: list[_Row], payloads: bytes, bodies: bytes
) -> Iterator[Delivery]:
    data_at = body_at = 0
    for row in rows:
        data = payloads[data_at : data_at + row.data_size]
        data_at += row.data_size
        body = None
        if row.body_size is not None:
            body = bodies[body_at : body_at + row.body_size]
            body_at += row.body_size
        instance = name_before_retirement(row.instance)
        event = event_of(instance, row.id, row.kind, row.time, data, row.sender, row.server_url)
        yield Delivery(
            seq=row.seq,
            event=event,
            registration=registration,
            lane=lane,
            accepted_at=seconds(row.accepted_at),
            position=row.position,
            queued_at=seconds(row.queued_at),
            attempts=row.attempts,
            failures=row.failures,
            next_at=seconds(row.next_at),
            body=body,
        )


def pending_lanes(connection: sqlite3.Connection, registration: str | None = None) -> list[LaneBacklog]:
    """Return the lanes with pending deliveries: one walk through the index of the outbox, or a part of it."""
    if registration is None:
        rows = connection.execute(_ALL_BACKLOGS)
    else:
        rows = connection.execute(_BACKLOGS_OF_ONE, (registration,))
    return _backlogs_of(rows.fetchone()[0])


def pending_counts(connection: sqlite3.Connection) -> PendingChange:
    """Return the count and bytes of pending deliveries: one walk through the index of the outbox.

    Only lanes with the events of several instances are walked a second time.
    """
    total: dict[tuple[str, str], tuple[int, int]] = {}

    def add(registration: str, instance: str, count: int, size: int) -> None:
        has, has_bytes = total.get((registration, instance), (0, 0))
        total[registration, instance] = (has + count, has_bytes + size)

    for registration, instance, number, lane, first, last, count, size in _lane_counts_of(
        connection.execute(_COUNTS).fetchone()[0]
    ):
        if first == last:
            add(registration, instance, count, size)
            continue
        after, counted = -1, COUNTED_ROWS
        while counted == COUNTED_ROWS:
            given = {"registration": number, "lane": lane, "after": after, "limit": COUNTED_ROWS}
            rows, after, counted = connection.execute(_COUNTS_OF_LANE, given).fetchone()
            for name, part, part_bytes in _counts_of(rows):
                add(registration, name, part, part_bytes)
    return total


def count_pending(connection: sqlite3.Connection, lane: str) -> int:
    return int(connection.execute(_COUNT_LANE, (registration_of(lane), lane)).fetchone()[0])


def lanes_of(connection: sqlite3.Connection, registration: str) -> list[PendingLane]:
    return _lanes_of(connection.execute(_LANES, (registration,)).fetchone()[0])


@dataclass(eq=False, repr=False)
class SqliteOutbox(CommittedOutbox[sqlite3.Connection, Transaction]):
    _numbers: SequenceNumbers

    def _new_events(self, appends: Sequence[Append], now: float) -> list[AppendedEvent]:
        # A call that is refused now leaves a gap in the numbers, which does no harm.
        numbers = self._numbers
        news = []
        for append in appends:
            deliveries = []
            for registration, lane in append.targets:
                numbers.newest = seq = numbers.newest + 1
                deliveries.append(
                    Delivery(
                        seq=seq,
                        event=append.event,
                        registration=registration,
                        lane=lane,
                        accepted_at=now,
                        position=seq,
                        queued_at=now,
                    )
                )
            numbers.newest_event += 1
            news.append(AppendedEvent(numbers.newest_event, append.event, now, deliveries))
        return news
