"""Finished deliveries become pending again: a single one by a resend, many by a replay.

A delivery keeps its number, its attempts and its body, and gets a new position at the end of its lane. The
caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from hookgw.records.lanes import LaneRule
from hookgw.store.new_lanes import fitting
from hookgw.store.records import ReplayQuery, micros
from hookgw.store.sqlite.bulk import Bulk
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.repartition import find_lanes
from hookgw.store.sqlite.sequence_numbers import keep_number
from hookgw.store.sqlite.settle import weight
from hookgw.store.sqlite.transaction import Transaction

_FINISHED = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state <> 'pending'"""
_REQUEUE = Bulk(
    """UPDATE deliveries SET state = 'pending', lane = column2, position = column3, queued_at = column4,
    failures = 0, next_at = 0, finished_at = NULL, reason = NULL FROM""",
    4,
    "WHERE deliveries.seq = column1",
)
# By instance, so that a key of one instance cannot resend the deliveries of another.
_BELONGS = """SELECT 1 FROM deliveries d JOIN names i ON i.number = d.instance
    WHERE d.seq = ? AND d.state <> 'pending' AND i.name = ?"""
_SOURCES = {
    # Written out, because SQLite uses the partial index only if its condition is in the statement.
    "dead": "deliveries INDEXED BY undelivered WHERE state = 'dead' AND state <> 'delivered'",
    "all": "deliveries INDEXED BY history WHERE 1",
}

_numbers_of = msgspec.json.Decoder(list[int]).decode
_finished_of = msgspec.json.Decoder(list[tuple[int, str, int]]).decode


def requeue(transaction: Transaction, lanes: Mapping[int, str], position: int, at: float) -> int:
    """Make finished deliveries pending again; deliveries that are pending or gone are skipped.

    Args:
        transaction: counts them.
        lanes: the lane of each delivery, by number, in the order of sending.
        position: of the first; the next ones get the numbers that follow it. They are greater than all
            positions given before, and are not given again.
        at: the time from which their age counts, in seconds since the epoch.

    Returns:
        How many there were.
    """
    connection = transaction.connection
    asked = msgspec.json.encode(list(lanes)).decode()
    finished = set(_numbers_of(connection.execute(_FINISHED, (asked,)).fetchone()[0]))
    if not finished:
        return 0
    ids, since = transaction.names.ids(lanes.values()), micros(at)
    # Positions of skipped deliveries stay unused: the order of the others is all that counts.
    places = enumerate(lanes.items(), position)
    rows = [(seq, ids[lane], place, since) for place, (seq, lane) in places if seq in finished]
    _REQUEUE.run(connection, rows)
    keep_number(connection, position + len(lanes) - 1)
    transaction.count_requeued(
        Counter(lane for seq, lane in lanes.items() if seq in finished), weight(connection, finished)
    )
    transaction.count_rows(len(finished))
    return len(finished)


def resend(
    transaction: Transaction, instance: str, seq: int, rule: LaneRule, position: int, at: float
) -> str | None:
    """Make one finished delivery pending again; return its lane, or ``None`` if the instance has none."""
    if transaction.connection.execute(_BELONGS, (seq, of_instance(instance))).fetchone() is None:
        return None
    lanes = find_lanes(transaction.connection, {seq: rule})
    requeue(transaction, lanes, position, at)
    return lanes[seq]


def find_finished(
    connection: sqlite3.Connection,
    query: ReplayQuery,
    rules: Mapping[str, LaneRule],
    *,
    after: int,
    newest: int,
    limit: int,
    size: int,
    rows: int,
) -> tuple[dict[int, str], int | None]:
    """Find the next deliveries to replay.

    Args:
        connection: a reading one.
        query: which deliveries.
        rules: of the registrations that take part, by id.
        after, newest: the range of the numbers, the first excluded.
        limit: the most deliveries to return.
        size: the most bytes of payload, unless the first delivery alone has more.
        rows: the most deliveries to look at, whether they match or not: other reads wait meanwhile.

    Returns:
        Their lanes by number, in the order of their numbers, and behind which number the search goes on;
        ``None`` if there are no more.
    """
    conditions = ["1"]
    given: dict[str, Any] = {
        "instance": of_instance(query.instance),
        "registrations": msgspec.json.encode(list(rules)).decode(),
        "after": after,
        "newest": newest,
        "limit": limit,
        "rows": rows,
    }
    if query.since is not None:
        conditions.append("accepted_at >= :since")
        given["since"] = micros(query.since)
    if query.until is not None:
        conditions.append("accepted_at < :until")
        given["until"] = micros(query.until)
    if query.kinds:
        conditions.append(
            "kind IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:kinds)))"
        )
        given["kinds"] = msgspec.json.encode(query.kinds).decode()
    # What the index has comes first: the row itself is read only if that matches.
    if query.state == "all":
        conditions.append("state <> 'pending'")
    conditions.append(
        """registration IN (
            SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:registrations)))"""
    )
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join(conditions)} AS matches FROM {_SOURCES[query.state]}
                AND instance = (SELECT number FROM names WHERE name = :instance)
                AND seq > :after AND seq <= :newest
            ORDER BY seq LIMIT :rows
        )
        SELECT (SELECT count(*) FROM looked_at), (SELECT max(seq) FROM looked_at), (
            SELECT json_group_array(json_array(d.seq, r.name, d.size)) FROM (
                SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT :limit) c
            CROSS JOIN deliveries d ON d.seq = c.seq
            CROSS JOIN names r ON r.number = d.registration)"""  # noqa: S608 - only the texts above are in it
    count, last, lines = connection.execute(statement, given).fetchone()
    found, is_cut = fitting(sorted(_finished_of(lines)), rules, size)
    if is_cut:
        return find_lanes(connection, found), max(found)
    if len(found) == limit:
        last = max(found, default=after)
    elif count < rows:
        last = None
    return find_lanes(connection, found), last
