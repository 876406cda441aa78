"""Backfills in a database.

The deliveries of a backfill have the number of the transaction that made the call, and negative numbers in
it: they come before whatever that transaction and later ones make pending, and behind all earlier ones.
Nothing else appears below the oldest open transaction. Here it does no harm: the lanes stop before the number
of the call, and read again from there when they hear that there is more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from psycopg import Connection

from hookgw.records.events import Event
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.store.backfills import READ_EVENTS, MissedEvent, Place, SteppedBackfills, newest_of
from hookgw.store.commits.changes import weigh
from hookgw.store.new_lanes import lanes_by_rule
from hookgw.store.postgresql.append import position
from hookgw.store.postgresql.lookups import instance_number, one_row, sought
from hookgw.store.postgresql.repartition import newest_rules
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import BackfillQuery, micros, seconds
from hookgw.store.searches import LAST, in_time

# BackfillStatements.
__all__ = ["look", "read_events"]

_ENGINE = "xid"
# Below all numbers that the sequence gives, and in the order of events.
_BELOW = -(2**62)

# What the row itself says comes first. An event without a payload is one that was not kept.
_IS_MISSED = "instance = %(instance)s AND heard >= 0 AND octet_length(data) > 0"
# If deliveries of an event were pruned while another one is left, nobody knows whose they were.
_HAS_NONE = """heard = (SELECT count(*) FROM deliveries d WHERE d.event = events.seq)
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.event = events.seq
    AND d.registration = %(registration)s AND NOT (%(dead)s AND d.state = 'dead' AND d.xid < %(first)s))"""
_LOOK = """
WITH looked_at AS MATERIALIZED (
    SELECT seq, {conditions} AS matches FROM events
    WHERE seq > %(after)s AND seq <= %(newest)s ORDER BY seq LIMIT %(rows)s
)
SELECT count(*), max(seq), ARRAY(SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT %(limit)s)
FROM looked_at"""
_FOUND = """SELECT e.seq, e.id, e.time, octet_length(e.data), (
        SELECT max(d.seq) FROM deliveries d WHERE d.event = e.seq AND d.registration = %s)
    FROM events e WHERE e.seq = ANY(%s) ORDER BY e.seq"""
_READ = """SELECT seq, id, kind, time, data, sender, server_url FROM events
    WHERE seq = ANY(%s) AND octet_length(data) > 0"""
_NAMES = "SELECT seq, id FROM events WHERE seq = ANY(%s)"
_PAYLOADS = "SELECT seq, data FROM events WHERE seq = ANY(%s)"
# Found again within the transaction: an event may be erased or pruned by now, or have a delivery. In the
# order of their numbers, as in all statements that lock several rows; see dead_letters.py.
# Dead letters that were pruned since leave events as those without any.
_LOCK_DEAD = "SELECT seq FROM deliveries WHERE seq = ANY(%s) AND state = 'dead' ORDER BY seq FOR UPDATE"
_LOCK = "SELECT FROM events WHERE seq = ANY(%s) ORDER BY seq FOR UPDATE"
_STILL_MISSED = f"""SELECT seq, octet_length(data) FROM events
    WHERE seq = ANY(%(found)s) AND {_IS_MISSED} AND {_HAS_NONE} ORDER BY seq"""  # noqa: S608
_ADD = """INSERT INTO deliveries (seq, event, instance, kind, registration, lane, state, accepted_at, size,
        xid, position, queued_at, attempts, failures, next_at)
    SELECT nextval('delivery_numbers'), e.seq, e.instance, e.kind, %(registration)s, given.lane, 'pending',
        e.accepted_at, octet_length(e.data), %(xid)s, %(below)s::bigint + e.seq, %(at)s, 0, 0, 0
    FROM unnest(%(events)s::bigint[], %(lanes)s::text[]) AS given (event, lane)
    JOIN events e ON e.seq = given.event"""
# Events without a delivery are pruned by themselves.
_COUNT_HEARD = "UPDATE events SET heard = heard + 1 WHERE seq = ANY(%s)"
_AGAIN = """UPDATE deliveries SET state = 'pending', lane = given.lane, xid = %(xid)s,
        position = %(below)s::bigint + given.event, queued_at = %(at)s, failures = 0, next_at = 0,
        finished_at = NULL, reason = NULL
    FROM unnest(%(seqs)s::bigint[], %(events)s::bigint[], %(lanes)s::text[]) AS given (seq, event, lane)
    WHERE deliveries.seq = given.seq"""
_NEWEST_EVENT = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_numbers"
# A number that this server has not reached is that of another one; see restored.py.
_IS_OWN = "SELECT %s < pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def _given(query: BackfillQuery, place: Place | None, instance: int) -> dict[str, Any]:
    return {
        "instance": instance,
        "registration": sought(query.registration),
        "dead": query.dead,
        "first": LAST if place is None else place.first,
    }


def look(
    connection: Connection,
    query: BackfillQuery,
    place: Place | None,
    *,
    after: int,
    limit: int,
    rows: int,
) -> tuple[list[MissedEvent], int, int | None]:
    instance = instance_number(connection, query.instance)
    if instance is None:
        return [], 0, None
    times, given = in_time(query, "%({})s")
    conditions = [_IS_MISSED, *times]
    if query.kinds:
        conditions.append("kind = ANY(%(kinds)s)")
        given["kinds"] = [sought(kind) for kind in query.kinds]
    given |= _given(query, place, instance)
    given |= {"after": after, "newest": newest_of(place), "limit": limit, "rows": rows}
    statement = _LOOK.format(conditions=" AND ".join([*conditions, _HAS_NONE]))
    count, last, seqs = one_row(connection, statement, given)
    rows_found = connection.execute(_FOUND, (given["registration"], seqs)).fetchall() if seqs else []
    return [MissedEvent(*row) for row in rows_found], count, last


def read_events(connection: Connection, instance: str, seqs: Sequence[int]) -> Iterator[tuple[int, Event]]:
    for seq, name, kind, time, data, sender, server_url in connection.execute(_READ, (list(seqs),)):
        yield (
            seq,
            Event(
                id=name,
                kind=kind,
                instance=instance,
                data_json=bytes(data),
                time=seconds(time),
                sender=sender,
                server_url=server_url,
            ),
        )


class PostgresqlBackfills(SteppedBackfills[Connection, Transaction]):
    async def _reserve(self, store: Callable[[Transaction, str], Job]) -> Job:
        def reserve(transaction: Transaction) -> Job:
            (newest,) = one_row(transaction.connection, _NEWEST_EVENT)
            return store(transaction, f"{_ENGINE}.{transaction.xid}.{newest}")

        return await self._commits.call(reserve)

    def _place(self, barrier: str) -> Place | None:
        engine, *numbers = barrier.split(".")
        if engine != _ENGINE:
            return None
        xid, newest = map(int, numbers)
        return Place(xid, newest, position(xid, 0))

    def _is_valid(self, transaction: Transaction, place: Place) -> bool:
        return one_row(transaction.connection, _IS_OWN, (place.first,)) == (True,)

    def _making(
        self, query: BackfillQuery, rule: LaneRule, place: Place, found: Sequence[MissedEvent], at: float
    ) -> Callable[[Transaction], int]:
        return lambda transaction: _make(transaction, query, rule, place, found, at)


def _make(
    transaction: Transaction,
    query: BackfillQuery,
    rule: LaneRule,
    place: Place,
    found: Sequence[MissedEvent],
    at: float,
) -> int:
    connection = transaction.connection
    instance = instance_number(connection, query.instance)
    if instance is None or not found:
        return 0
    seqs = [one.seq for one in found]
    letters = [one.dead for one in found if one.dead is not None]
    dead = {seq for (seq,) in connection.execute(_LOCK_DEAD, (letters,))} if letters else set()
    connection.execute(_LOCK, (seqs,))
    given = {"found": seqs, **_given(query, place, instance)}
    sizes: dict[int, int] = dict(connection.execute(_STILL_MISSED, given).fetchall())
    if not sizes:
        return 0

    def read_names(events: list[int]) -> list[tuple[int, str, str]]:
        return [(seq, name, query.instance) for seq, name in connection.execute(_NAMES, (events,))]

    def read_payloads(events: list[int]) -> Iterable[tuple[int, bytes]]:
        for start in range(0, len(events), READ_EVENTS):
            yield from connection.execute(_PAYLOADS, (events[start : start + READ_EVENTS],))

    # Later rules of re-partitions count in its place; see repartition.py.
    now = newest_rules(connection, {rule.registration: rule})[rule.registration]
    lanes = lanes_by_rule(dict.fromkeys(sizes, now), read_names, read_payloads)
    given = {
        "registration": sought(query.registration),
        "xid": place.first,
        "below": _BELOW,
        "at": micros(at),
    }
    added = [one.seq for one in found if one.seq in sizes and one.dead not in dead]
    if added:
        connection.execute(_ADD, {**given, "events": added, "lanes": [lanes[seq] for seq in added]})
        connection.execute(_COUNT_HEARD, (added,))
    again = {one.dead: one.seq for one in found if one.seq in sizes and one.dead in dead}
    if again:
        events = list(again.values())
        connection.execute(
            _AGAIN, {**given, "seqs": list(again), "events": events, "lanes": [lanes[seq] for seq in events]}
        )
    weight = weigh((query.registration, query.instance, size) for size in sizes.values())
    transaction.count_requeued(Counter(lanes.values()), weight)
    transaction.count_rows(len(sizes))
    return len(sizes)
