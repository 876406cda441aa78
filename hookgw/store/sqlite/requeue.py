"""Finished deliveries become pending again: by a resend or a replay. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hookgw.records.lanes import LaneRule
from hookgw.store.records import micros
from hookgw.store.sqlite.bulk import Bulk, as_json, numbers_of
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.repartition import find_lanes
from hookgw.store.sqlite.sequence_numbers import keep_number
from hookgw.store.sqlite.settle import weight
from hookgw.store.sqlite.transaction import Transaction

_FINISHED = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state <> 'pending'"""
REQUEUE = Bulk(
    """UPDATE deliveries SET state = 'pending', lane = column2, position = column3, queued_at = column4,
    failures = 0, next_at = 0, finished_at = NULL, reason = NULL FROM""",
    4,
    "WHERE deliveries.seq = column1",
)
_DELIVERED = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state = 'delivered' AND position > :after
        AND registration = (SELECT number FROM names WHERE name = :registration)"""
_REOPEN = Bulk(
    """UPDATE deliveries SET state = 'pending', lane = column2, queued_at = column3, failures = 0,
    next_at = 0, finished_at = NULL, reason = NULL FROM""",
    3,
    "WHERE deliveries.seq = column1",
)
# By instance, so that a key of one instance cannot resend the deliveries of another.
_BELONGS = """SELECT 1 FROM deliveries d JOIN names i ON i.number = d.instance
    WHERE d.seq = ? AND d.state <> 'pending' AND i.name = ?"""


def requeue(transaction: Transaction, lanes: Mapping[int, str], position: int, at: float) -> int:
    """Make finished deliveries pending again; return how many. Those that are pending or gone are skipped.

    Args:
        lanes: of the deliveries, by number, in the order of sending.
        position: of the first; the next ones get the numbers that follow it. They are greater than all
            positions given before, and are not given again.
        at: the time from which their age counts.
    """
    connection = transaction.connection
    finished = set(numbers_of(connection.execute(_FINISHED, (as_json(lanes),)).fetchone()[0]))
    if not finished:
        return 0
    ids, since = transaction.names.ids(lanes.values()), micros(at)
    # Positions of skipped deliveries stay unused: the order of the others is all that counts.
    places = enumerate(lanes.items(), position)
    rows = [(seq, ids[lane], place, since) for place, (seq, lane) in places if seq in finished]
    REQUEUE.run(connection, rows)
    keep_number(connection, position + len(lanes) - 1)
    transaction.count_requeued(
        [lane for seq, lane in lanes.items() if seq in finished], weight(connection, finished)
    )
    return len(finished)


def reopen(transaction: Transaction, seqs: Collection[int], after: int, rule: LaneRule, at: float) -> int:
    connection = transaction.connection
    asked = {"seqs": as_json(seqs), "after": after, "registration": rule.registration}
    found = numbers_of(connection.execute(_DELIVERED, asked).fetchone()[0])
    if not found:
        return 0
    lanes = find_lanes(connection, dict.fromkeys(found, rule))
    ids, since = transaction.names.ids(lanes.values()), micros(at)
    _REOPEN.run(connection, [(seq, ids[lane], since) for seq, lane in lanes.items()])
    transaction.count_requeued(lanes.values(), weight(connection, lanes))
    return len(lanes)


def resend(
    transaction: Transaction, instance: str, seq: int, rule: LaneRule, position: int, at: float
) -> str | None:
    if transaction.connection.execute(_BELONGS, (seq, of_instance(instance))).fetchone() is None:
        return None
    lanes = find_lanes(transaction.connection, {seq: rule})
    requeue(transaction, lanes, position, at)
    return lanes[seq]
