"""The outbox: the pending deliveries, appended and read in order, and their counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from hookgw.records.deliveries import Delivery, Page, Position
from hookgw.records.instances import name_before_retirement
from hookgw.records.lanes import registration_of
from hookgw.store.commits.changes import pending_change
from hookgw.store.commits.jobs import AppendedEvent
from hookgw.store.history_rows import event_of
from hookgw.store.outbox import OUTBOX_PAGE_BYTES, CommittedOutbox
from hookgw.store.postgresql.append import parts_of, position
from hookgw.store.postgresql.history import last_attempt as last_attempt
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.schema import SETTLED
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import Append, LaneBacklog, PendingChange, seconds
from hookgw.store.searches import LAST

# With the whole key of the index compared and sorted by, no other index serves. With equality, the server
# might take the index of the feed, which is in the wanted order, too, and walk through all other lanes.
DELIVERY = """d.seq, d.xid, d.position, d.registration, d.lane, d.accepted_at, d.queued_at, d.attempts,
    d.failures, d.next_at, e.id, d.kind, {instance}, e.time, e.data, e.sender, e.server_url"""
_IN_LANE = """(registration, lane, xid, position)
        > (%(registration)s, %(lane)s, %(xid)s::bigint, %(position)s::bigint)
    AND (registration, lane, xid, position)
        < (%(registration)s, %(lane)s, %(before_xid)s::bigint, %(before)s::bigint)"""
# Nothing can appear before what is read here; see schema.py. The page is cut to size before a payload is
# read. It looks at one delivery more than wanted, to know whether the lane has more.
PAGE_STATEMENT = f"""WITH ahead AS MATERIALIZED (
    SELECT first.seq, row_number() OVER places AS place, count(*) OVER () AS found,
        (sum(first.size + coalesce(octet_length(b.body), 0)) OVER places)::bigint AS bytes
    FROM (
        SELECT seq, xid, position, size FROM deliveries
        WHERE state = 'pending' AND {_IN_LANE} AND xid < {SETTLED}
        ORDER BY registration, lane, xid, position LIMIT %(limit)s + 1
    ) first
    LEFT JOIN bodies b ON b.seq = first.seq
    WINDOW places AS (ORDER BY first.xid, first.position ROWS UNBOUNDED PRECEDING)
)
SELECT ahead.found, ahead.bytes, b.body, {DELIVERY.format(instance="i.name")} FROM ahead
JOIN deliveries d ON d.seq = ahead.seq
JOIN events e ON e.seq = d.event
JOIN instance_numbers i ON i.number = d.instance
LEFT JOIN bodies b ON b.seq = d.seq
WHERE ahead.place <= %(limit)s AND (ahead.bytes <= coalesce(%(size)s::bigint, {OUTBOX_PAGE_BYTES})
    OR ahead.place = 1 AND %(size)s::bigint IS NULL)
ORDER BY ahead.place"""  # noqa: S608 - numbers of ours
# Of a lane whose first delivery does not fit.
_FIRST_SIZE = f"""SELECT d.size + coalesce(octet_length(b.body), 0)
    FROM deliveries d LEFT JOIN bodies b ON b.seq = d.seq
    WHERE d.state = 'pending' AND {_IN_LANE} AND d.xid < {SETTLED}
    ORDER BY d.registration, d.lane, d.xid, d.position LIMIT 1"""  # noqa: S608 - constants
# What the feed has not reported yet is not counted: lanes hear of it.
_IS_PENDING = f"state = 'pending' AND xid < {SETTLED}"
_BACKLOGS = f"SELECT lane, count(*) FROM deliveries WHERE {_IS_PENDING}"  # noqa: S608 - constants
_COUNTS = """SELECT d.registration, i.name, d.count, d.bytes FROM (
        SELECT registration, instance, count(*) AS count, sum(size)::bigint AS bytes FROM deliveries
        WHERE state = 'pending' GROUP BY registration, instance
    ) d JOIN instance_numbers i ON i.number = d.instance"""
_COUNT_LANE = f"""SELECT count(*) FROM deliveries
    WHERE {_IS_PENDING} AND registration = %s AND lane = %s"""  # noqa: S608 - constants


def transaction_of(place: Position) -> int:
    return parts_of(place)[0]


def read_lane(
    connection: Connection,
    lane: str,
    after: int,
    limit: int,
    size: int | None = None,
    before: int | None = None,
) -> Page:
    registration = registration_of(lane)
    xid, number = parts_of(after)
    before_xid, before_number = (LAST, LAST) if before is None else parts_of(before)
    given: dict[str, Any] = {
        "registration": registration,
        "lane": lane,
        "xid": xid,
        "position": number,
        "before_xid": before_xid,
        "before": before_number,
        "limit": limit,
        "size": size,
    }
    rows = connection.cursor(binary=True).execute(PAGE_STATEMENT.encode(), given).fetchall()
    if not rows:
        found = None if size is None else connection.execute(_FIRST_SIZE.encode(), given).fetchone()
        return Page([], found is not None, found[0] if found else 0)
    deliveries = [delivery_of(row, body) for _, _, body, *row in rows]
    ahead, needed = rows[0][:2]
    return Page(deliveries, ahead > len(deliveries), needed)


def delivery_of(row: Sequence[Any], body: bytes | None = None) -> Delivery:
    seq, xid, number, registration, lane, accepted_at, queued_at, attempts, failures, next_at, *event = row
    name, kind, instance, time, data, sender, server_url = event
    return Delivery(
        seq=seq,
        event=event_of(name_before_retirement(instance), name, kind, time, data, sender, server_url),
        registration=registration,
        lane=lane,
        accepted_at=seconds(accepted_at),
        position=position(xid, number),
        queued_at=seconds(queued_at),
        attempts=attempts,
        failures=failures,
        next_at=seconds(next_at),
        body=body,
    )


def pending_lanes(connection: Connection, registration: str | None = None) -> list[LaneBacklog]:
    """Return the lanes with pending deliveries: one walk through the index of the outbox, or a part of it."""
    if registration is None:
        rows = connection.execute(f"{_BACKLOGS} GROUP BY lane".encode())
    else:
        statement = f"{_BACKLOGS} AND registration = %s GROUP BY lane"
        rows = connection.execute(statement.encode(), (registration,))
    return [LaneBacklog(*row) for row in rows]


def pending_counts(connection: Connection) -> PendingChange:
    """Return the count and bytes of pending deliveries: one walk through the index of the outbox."""
    return pending_change(connection.execute(_COUNTS))


def count_pending(connection: Connection, lane: str) -> int:
    return int(one_row(connection, _COUNT_LANE, (registration_of(lane), lane))[0])


class PostgresqlOutbox(CommittedOutbox[Connection, Transaction]):
    def _new_events(self, appends: Sequence[Append], now: float) -> list[AppendedEvent]:
        # The commit gives the numbers and positions: all nodes take them from the same sequences.
        return [
            AppendedEvent(
                0,
                append.event,
                now,
                [
                    Delivery(
                        seq=0,
                        event=append.event,
                        registration=registration,
                        lane=lane,
                        accepted_at=now,
                        position=0,
                        queued_at=now,
                    )
                    for registration, lane in append.targets
                ],
            )
            for append in appends
        ]
