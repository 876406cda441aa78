"""Backfills in a database.

The deliveries of a backfill have the number of the transaction that made the call, and negative numbers in
it: they come before whatever that transaction and later ones make pending, and behind all earlier ones.
Nothing else appears below the oldest open transaction. Here it does no harm: the lanes stop before the number
of the call, and read again from there when they hear that there is more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from psycopg import Connection

from hookgw.records.events import Event
from hookgw.records.jobs import Job
from hookgw.store.backfills import BackfillStep, MissedEvent, MissedSearch, Reserved, SteppedBackfills
from hookgw.store.commits.changes import weigh
from hookgw.store.history_rows import event_of
from hookgw.store.log import Place
from hookgw.store.postgresql.append import position
from hookgw.store.postgresql.lookups import NEWEST_EVENT, instance_number, one_row, sought
from hookgw.store.postgresql.repartition import find_lanes, newest_rules
from hookgw.store.postgresql.requeue import REQUEUE
from hookgw.store.postgresql.selection import DIALECT
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import BackfillQuery, micros
from hookgw.store.searches import LAST, in_time

_ENGINE = "xid"
# Below all numbers that the sequence gives.
_BELOW = -(2**62)

# An event without a payload is one that was not kept.
_IS_KEPT = "e.instance = %(instance)s AND e.heard >= 0 AND octet_length(e.data) > 0"
# If deliveries of an event were pruned while another one is left, nobody knows whose they were.
_HAS_NONE = """e.heard = (SELECT count(*) FROM deliveries d WHERE d.event = e.seq)
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.event = e.seq
        AND d.registration = %(registration)s
        AND NOT (%(dead)s AND d.state = 'dead' AND d.xid < %(first)s))"""
# As the searches of the log: see log.py. What is not settled is looked at, too: whatever commits from now on
# has its deliveries.
_ENTRIES = """SELECT l.xid, l.seq, {conditions} AS matches FROM log l
    CROSS JOIN LATERAL (SELECT * FROM events WHERE events.seq = l.seq OFFSET 0) e
    WHERE (l.instance, l.xid, l.seq) > (%(instance)s, %(after_xid)s, %(after)s)
        AND (l.instance, l.xid, l.seq) <= (%(instance)s, %(end_xid)s, %(end)s)
    ORDER BY l.instance, l.xid, l.seq LIMIT %(rows)s"""
_TAIL = """SELECT e.xid, e.seq, {conditions} AS matches FROM events e
    WHERE e.heard >= 0 AND (e.xid, e.seq) > (%(after_xid)s, %(after)s)
    ORDER BY e.xid, e.seq LIMIT %(rows)s"""
_LOOK = """
WITH looked_at AS MATERIALIZED ({source})
SELECT (SELECT count(*) FROM looked_at),
    (SELECT ARRAY[xid, seq] FROM looked_at ORDER BY xid DESC, seq DESC LIMIT 1),
    ARRAY(SELECT seq FROM looked_at WHERE matches ORDER BY xid, seq LIMIT %(limit)s)"""
_FOUND = """SELECT e.xid, e.seq, e.id, e.time, octet_length(e.data), (
        SELECT max(d.seq) FROM deliveries d WHERE d.event = e.seq AND d.registration = %s)
    FROM events e WHERE e.seq = ANY(%s) ORDER BY e.xid, e.seq"""
_INDEXED = "SELECT xid, seq FROM log_state"
_READ = """SELECT seq, id, kind, time, data, sender, server_url FROM events
    WHERE seq = ANY(%s) AND octet_length(data) > 0"""
_KEYS = """SELECT e.seq, e.id, i.name FROM events e JOIN instance_numbers i ON i.number = e.instance
    WHERE e.seq = ANY(%s)"""
_PAYLOADS = "SELECT seq, data FROM events WHERE seq = ANY(%s)"
# Found again within the transaction: an event may be erased or pruned by now, or have a delivery. In the
# order of their numbers, as in all statements that lock several rows; see dead_letters.py.
# Dead letters that were pruned since leave events as those without any.
_LOCK_DEAD = "SELECT seq FROM deliveries WHERE seq = ANY(%s) AND state = 'dead' ORDER BY seq FOR UPDATE"
_LOCK = "SELECT FROM events WHERE seq = ANY(%s) ORDER BY seq FOR UPDATE"
_STILL_MISSED = f"""SELECT e.seq, octet_length(e.data) FROM events e
    WHERE e.seq = ANY(%(found)s) AND {_IS_KEPT} AND {_HAS_NONE}"""  # noqa: S608
_ADD = """INSERT INTO deliveries (seq, event, instance, kind, registration, lane, state, accepted_at, size,
        xid, position, queued_at, attempts, failures, next_at)
    SELECT nextval('delivery_numbers'), e.seq, e.instance, e.kind, %(registration)s, given.lane, 'pending',
        e.accepted_at, octet_length(e.data), %(xid)s, given.position, %(at)s, 0, 0, 0
    FROM unnest(%(events)s::bigint[], %(lanes)s::text[], %(positions)s::bigint[])
        AS given (event, lane, position)
    JOIN events e ON e.seq = given.event"""
# Events without a delivery are pruned by themselves.
_COUNT_HEARD = "UPDATE events SET heard = heard + 1 WHERE seq = ANY(%s)"


def _given(query: BackfillQuery, reserved: Reserved | None, instance: int) -> dict[str, Any]:
    return {
        "instance": instance,
        "registration": sought(query.registration),
        "dead": query.dead,
        "first": LAST if reserved is None else reserved.first,
    }


def look(connection: Connection, search: MissedSearch) -> tuple[list[MissedEvent], Place | None]:
    query = search.query
    instance = instance_number(connection, query.instance)
    if instance is None:
        return [], None
    times, given = in_time(query, "%({})s", "e.accepted_at")
    conditions = [_IS_KEPT, "e.seq <= %(newest)s", *times]
    if query.kinds:
        conditions.append(DIALECT.among.format("e.kind", "kinds"))
        given["kinds"] = DIALECT.array(query.kinds)
    indexed: Place = one_row(connection, _INDEXED)[:2]
    wanted = " AND ".join([*conditions, _HAS_NONE])
    given |= _given(query, search.reserved, instance) | {"newest": search.newest}
    given |= {"end_xid": indexed[0], "end": indexed[1]}
    found: list[MissedEvent] = []
    begin, left = search.after, search.rows
    for source, end in ((_ENTRIES, indexed), (_TAIL, None)):
        if end is not None and begin >= end:
            continue
        given |= {"after_xid": begin[0], "after": begin[1], "limit": search.limit - len(found), "rows": left}
        statement = _LOOK.format(source=source.format(conditions=wanted))
        count, last, seqs = one_row(connection, statement, given)
        if seqs:
            lines = connection.execute(_FOUND, (given["registration"], seqs))
            found += [MissedEvent((xid, seq), *more) for xid, seq, *more in lines]
        if len(found) == search.limit:
            return found, found[-1].place if found else search.after
        left -= count
        if not left:
            return found, (last[0], last[1])
        begin = end or begin
    return found, None


def read_events(connection: Connection, instance: str, seqs: Sequence[int]) -> Iterator[tuple[int, Event]]:
    for seq, name, kind, time, data, sender, server_url in connection.execute(_READ, (list(seqs),)):
        yield seq, event_of(instance, name, kind, time, bytes(data), sender, server_url)


class PostgresqlBackfills(SteppedBackfills[Connection, Transaction]):
    async def _reserve(self, store: Callable[[Transaction, str], Job]) -> Job:
        def reserve(transaction: Transaction) -> Job:
            (newest,) = one_row(transaction.connection, NEWEST_EVENT)
            return store(transaction, f"{_ENGINE}.{transaction.xid}.{newest}")

        return await self._commits.call(reserve)

    def _read_barrier(self, barrier: str) -> Reserved | None:
        match barrier.split("."):
            case [engine, xid, newest, generation] if engine == _ENGINE:
                return Reserved(int(xid), int(newest), position(int(xid), 0), generation)
        return None

    def _first_number(self, made: int, count: int) -> int:  # noqa: ARG002 -- numbers of the backfill alone
        return made


def make(transaction: Transaction, step: BackfillStep) -> int:
    connection = transaction.connection
    query, rule, reserved, found, first_number, at = step
    instance = instance_number(connection, query.instance)
    if instance is None or not found:
        return 0
    letters = [one.dead for one in found if one.dead is not None]
    dead = {seq for (seq,) in connection.execute(_LOCK_DEAD, (letters,))} if letters else set()
    seqs = [one.seq for one in found]
    connection.execute(_LOCK, (seqs,))
    given = {"found": seqs, **_given(query, reserved, instance)}
    sizes: dict[int, int] = dict(connection.execute(_STILL_MISSED, given).fetchall())
    if not sizes:
        return 0

    # Later rules of re-partitions count in its place; see repartition.py.
    now = newest_rules(connection, {rule.registration: rule})[rule.registration]
    lanes = find_lanes(connection, dict.fromkeys(sizes, now), _KEYS, _PAYLOADS)
    # Those of skipped events stay unused: the order of the others is all that counts.
    places = {one: _BELOW + number for number, one in enumerate(found, first_number) if one.seq in sizes}
    common = {"registration": sought(query.registration), "xid": reserved.first, "at": micros(at)}
    for statement, key, chosen in (
        (_ADD, "events", [one for one in places if one.dead not in dead]),
        (REQUEUE, "seqs", [one for one in places if one.dead in dead]),
    ):
        if chosen:
            rows = {
                key: [one.seq if key == "events" else one.dead for one in chosen],
                "lanes": [lanes[one.seq] for one in chosen],
                "positions": [places[one] for one in chosen],
            }
            connection.execute(statement, common | rows)
    added = [one.seq for one in places if one.dead not in dead]
    connection.execute(_COUNT_HEARD, (added,))
    weight = weigh((query.registration, query.instance, size) for size in sizes.values())
    transaction.count_requeued(lanes.values(), weight)
    return len(sizes)
