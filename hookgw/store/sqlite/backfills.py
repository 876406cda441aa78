"""Backfills in a data file.

The call takes as many positions as there are events, at once. A delivery's position follows from the number
of its event, so however often a step is repeated, it gives each delivery the same place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hookgw.records.events import Event
from hookgw.records.jobs import Job
from hookgw.store.backfills import BackfillStep, MissedEvent, MissedSearch, Reserved, SteppedBackfills
from hookgw.store.history_rows import event_of
from hookgw.store.log import Place
from hookgw.store.records import BackfillQuery, micros
from hookgw.store.searches import LAST, in_time
from hookgw.store.sqlite.bulk import Bulk, as_json, numbers_of
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.repartition import find_lanes
from hookgw.store.sqlite.requeue import REQUEUE
from hookgw.store.sqlite.selection import DIALECT
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers, keep_number
from hookgw.store.sqlite.settle import weight
from hookgw.store.sqlite.transaction import Transaction

_ENGINE = "file"

# An event without a payload is one that was not kept.
_IS_KEPT = "e.instance = (SELECT number FROM names WHERE name = :instance) AND length(e.data) > 0"
# If deliveries of an event were pruned while another one is left, nobody knows whose they were.
_HAS_NONE = """e.heard = (SELECT count(*) FROM deliveries d INDEXED BY deliveries_of_event
    WHERE d.event = e.seq) AND NOT EXISTS (SELECT 1 FROM deliveries d INDEXED BY deliveries_of_event
    WHERE d.event = e.seq AND d.registration = (SELECT number FROM names WHERE name = :registration)
        AND NOT (:dead AND d.state = 'dead' AND d.position < :first))"""
# As the searches of the log: see log.py. CROSS JOIN fixes the order.
_ENTRIES = """SELECT l.seq, {conditions} AS matches FROM log_runs r
    CROSS JOIN log l ON l.run = r.run CROSS JOIN events e ON e.seq = l.seq
    WHERE r.run > :after {times} AND l.instance = (SELECT number FROM names WHERE name = :instance)
        AND l.seq > :after AND l.seq <= :end
    ORDER BY r.run, l.seq LIMIT :rows"""
_TAIL = """SELECT e.seq, {conditions} AS matches FROM events e
    WHERE e.seq > :after AND e.seq <= :end ORDER BY e.seq LIMIT :rows"""
_LOOK = """
WITH looked_at AS MATERIALIZED ({source})
SELECT (SELECT count(*) FROM looked_at), (SELECT max(seq) FROM looked_at), (
    SELECT json_group_array(json_array(json_array(0, e.seq), e.id, e.time, length(e.data), (
        SELECT max(d.seq) FROM deliveries d INDEXED BY deliveries_of_event
        WHERE d.event = e.seq AND d.registration = (SELECT number FROM names WHERE name = :registration))))
    FROM (SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT :limit) c
    CROSS JOIN events e ON e.seq = c.seq)"""
_INDEXED = "SELECT indexed FROM log_state"
_READ = """SELECT e.seq, e.id, k.name, e.time, e.data, e.sender, e.server_url
    FROM events e CROSS JOIN names k ON k.number = e.kind
    WHERE e.seq IN (SELECT value FROM json_each(?)) AND length(e.data) > 0"""
_KEYS = """SELECT json_group_array(json_array(e.seq, e.id, substr(i.name, 2)))
    FROM events e CROSS JOIN names i ON i.number = e.instance
    WHERE e.seq IN (SELECT value FROM json_each(?))"""
_PAYLOADS = "SELECT seq, data FROM events WHERE seq IN (SELECT value FROM json_each(?))"
# Found again within the commit: an event may be erased by now, or have a delivery.
_STILL_MISSED = f"""SELECT json_group_array(e.seq) FROM events e NOT INDEXED
    WHERE e.seq IN (SELECT value FROM json_each(:found)) AND {_IS_KEPT} AND {_HAS_NONE}"""  # noqa: S608
# The others were pruned since: their events are as those without any.
_STILL_DEAD = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'dead'"""
_ADD = Bulk(
    """INSERT INTO deliveries (seq, event, instance, kind, registration, lane, accepted_at, size, position,
        queued_at, state, attempts, failures, next_at)
    SELECT column1, e.seq, e.instance, e.kind, column3, column4, e.accepted_at, length(e.data), column5,
        column6, 'pending', 0, 0, 0 FROM""",
    6,
    "CROSS JOIN events e ON e.seq = column2 WHERE column1 <> 0",
)
# Events without a delivery are pruned by themselves.
_COUNT_HEARD = "UPDATE events SET heard = heard + 1 WHERE seq IN (SELECT value FROM json_each(?))"

_found_of = msgspec.json.Decoder(list[MissedEvent]).decode


def _given(query: BackfillQuery, reserved: Reserved | None) -> dict[str, Any]:
    return {
        "instance": of_instance(query.instance),
        "registration": query.registration,
        "dead": query.dead,
        "first": LAST if reserved is None else reserved.first,
    }


def look(connection: sqlite3.Connection, search: MissedSearch) -> tuple[list[MissedEvent], Place | None]:
    query, newest = search.query, search.newest
    times, given = in_time(query, ":{}", "e.accepted_at")
    conditions = [_IS_KEPT, *times]
    if query.kinds:
        conditions.append(DIALECT.among.format("e.kind", "kinds"))
        given["kinds"] = DIALECT.array(query.kinds)
    wanted = " AND ".join([*conditions, _HAS_NONE])
    given |= _given(query, search.reserved)
    (indexed,) = connection.execute(_INDEXED).fetchone()
    runs = ["r.until >= :since"] * (query.since is not None) + ["r.since < :until"] * (
        query.until is not None
    )
    times_of_runs = "".join(f"AND {one} " for one in runs)
    found: list[MissedEvent] = []
    begin, left = search.after[1], search.rows
    for source, end in ((_ENTRIES, min(indexed, newest)), (_TAIL, newest)):
        if begin >= end:
            continue
        statement = _LOOK.format(source=source.format(conditions=wanted, times=times_of_runs))
        given |= {"after": begin, "end": end, "limit": search.limit - len(found), "rows": left}
        count, last, lines = connection.execute(statement, given).fetchone()
        found += sorted(_found_of(lines))
        if len(found) == search.limit:
            return found, found[-1].place if found else search.after
        left -= count
        if not left:
            return found, (0, last)
        begin = end
    return found, None


def read_events(
    connection: sqlite3.Connection, instance: str, seqs: Sequence[int]
) -> Iterator[tuple[int, Event]]:
    for seq, name, kind, time, data, sender, server_url in connection.execute(_READ, (as_json(seqs),)):
        yield seq, event_of(instance, name, kind, time, bytes(data), sender, server_url)


def make(transaction: Transaction, step: BackfillStep) -> int:
    connection = transaction.connection
    query, rule, reserved, found, first_number, at = step
    given = {"found": as_json([one.seq for one in found]), **_given(query, reserved)}
    missed = set(numbers_of(connection.execute(_STILL_MISSED, given).fetchone()[0]))
    if not missed:
        return 0

    letters = as_json([one.dead for one in found if one.dead is not None])
    dead = set(numbers_of(connection.execute(_STILL_DEAD, (letters,)).fetchone()[0]))
    lanes = find_lanes(connection, dict.fromkeys(sorted(missed), rule), _KEYS, _PAYLOADS)
    ids, since = transaction.names.ids({*lanes.values(), query.registration}), micros(at)
    again, added = [], []
    for number, one in enumerate(found, first_number):
        if one.seq not in missed:
            continue
        lane, position = ids[lanes[one.seq]], reserved.first + one.seq
        if one.dead not in dead:
            added.append((number, one.seq, ids[query.registration], lane, position, since))
        else:
            again.append((one.dead, lane, position, since))
    _ADD.run(connection, added)
    connection.execute(_COUNT_HEARD, (as_json([row[1] for row in added]),))
    REQUEUE.run(connection, again)
    made = [row[0] for row in (*added, *again)]
    transaction.count_requeued(lanes.values(), weight(connection, made))
    return len(made)


@dataclass(eq=False, repr=False)
class SqliteBackfills(SteppedBackfills[sqlite3.Connection, Transaction]):
    _numbers: SequenceNumbers

    async def _reserve(self, store: Callable[[Transaction, str], Job]) -> Job:
        # Before the checkpoint: what is appended by later calls is behind it.
        newest = self._numbers.newest_event
        first = self._numbers.next_positions(newest + 1)
        barrier = f"{_ENGINE}.{first}.{newest}"

        def reserve(transaction: Transaction) -> Job:
            keep_number(transaction.connection, first + newest)
            return store(transaction, barrier)

        return await self._commits.call(reserve)

    def _read_barrier(self, barrier: str) -> Reserved | None:
        match barrier.split("."):
            case [engine, first, newest, generation] if engine == _ENGINE:
                return Reserved(int(first), int(newest), int(first) + int(newest) + 1, generation)
        return None

    def _first_number(self, made: int, count: int) -> int:  # noqa: ARG002 -- numbers of the whole file
        return self._numbers.next_positions(count)
