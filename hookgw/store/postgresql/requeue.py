"""Finished deliveries become pending again: a single one by a resend, many by a replay.

A new position is the present transaction, and numbers of its own. The caller owns the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from psycopg import Connection

from hookgw.records.lanes import LaneRule
from hookgw.store.commits.changes import weigh
from hookgw.store.postgresql.append import parts_of
from hookgw.store.postgresql.lookups import sought
from hookgw.store.postgresql.repartition import find_lanes, newest_rules
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import micros

# In the order of their numbers, as in all statements that lock several deliveries; see dead_letters.py.
_FINISHED = """SELECT d.seq, d.registration, i.name, d.size
    FROM deliveries d JOIN instance_numbers i ON i.number = d.instance
    WHERE d.seq = ANY(%s) AND d.state <> 'pending' ORDER BY d.seq FOR UPDATE OF d"""
REQUEUE = """UPDATE deliveries SET state = 'pending', lane = again.lane, xid = %(xid)s,
    position = again.position, queued_at = %(at)s, failures = 0, next_at = 0, finished_at = NULL,
    reason = NULL
    FROM unnest(%(seqs)s::bigint[], %(lanes)s::text[], %(positions)s::bigint[]) AS again (seq, lane, position)
    WHERE deliveries.seq = again.seq"""
_DELIVERED = """SELECT d.seq, d.registration, i.name, d.size
    FROM deliveries d JOIN instance_numbers i ON i.number = d.instance
    WHERE d.seq = ANY(%(seqs)s) AND d.state = 'delivered' AND d.registration = %(registration)s
        AND (d.xid, d.position) > (%(xid)s, %(position)s)
    ORDER BY d.seq FOR UPDATE OF d"""
_REOPEN = """UPDATE deliveries SET state = 'pending', lane = again.lane, queued_at = %(at)s, failures = 0,
    next_at = 0, finished_at = NULL, reason = NULL
    FROM unnest(%(seqs)s::bigint[], %(lanes)s::text[]) AS again (seq, lane)
    WHERE deliveries.seq = again.seq"""
_POSITIONS = "SELECT nextval('delivery_numbers') FROM generate_series(1, %s)"
# By instance, so that a key of one instance cannot resend the deliveries of another.
_BELONGS = """SELECT 1 FROM deliveries d JOIN instance_numbers i ON i.number = d.instance
    WHERE d.seq = %s AND d.state <> 'pending' AND i.name = %s"""


def requeue(transaction: Transaction, rules: Mapping[int, LaneRule], at: float) -> dict[int, str]:
    """Make finished deliveries pending again; return their lanes. Those that are pending or gone are skipped.

    Args:
        rules: of each delivery's registration, by number, in the order of sending. Later rules of
            re-partitions count in their place.
    """
    connection = transaction.connection
    finished = {row[0]: row[1:] for row in connection.execute(_FINISHED, (list(rules),))}
    if not finished:
        return {}
    now = newest_rules(connection, {rule.registration: rule for rule in rules.values()})
    lanes = find_lanes(
        connection, {seq: now[rule.registration] for seq, rule in rules.items() if seq in finished}
    )
    positions = [position for (position,) in connection.execute(_POSITIONS, (len(lanes),))]
    given = {
        "at": micros(at),
        "xid": transaction.xid,
        "seqs": list(lanes),
        "lanes": list(lanes.values()),
        "positions": positions,
    }
    connection.execute(REQUEUE, given)
    transaction.count_requeued(lanes.values(), weigh(finished.values()))
    return lanes


def reopen(transaction: Transaction, seqs: Collection[int], after: int, rule: LaneRule, at: float) -> int:
    connection = transaction.connection
    xid, number = parts_of(after)
    given = {"seqs": list(seqs), "registration": rule.registration, "xid": xid, "position": number}
    found = {row[0]: row[1:] for row in connection.execute(_DELIVERED, given)}
    if not found:
        return 0
    newest = newest_rules(connection, {rule.registration: rule})[rule.registration]
    lanes = find_lanes(connection, dict.fromkeys(found, newest))
    connection.execute(_REOPEN, {"at": micros(at), "seqs": list(lanes), "lanes": list(lanes.values())})
    transaction.count_requeued(lanes.values(), weigh(found.values()))
    return len(lanes)


def resend(transaction: Transaction, instance: str, seq: int, rule: LaneRule, at: float) -> str | None:
    if transaction.connection.execute(_BELONGS, (seq, sought(instance))).fetchone() is None:
        return None
    return requeue(transaction, {seq: rule}, at).get(seq)


def to_requeue(connection: Connection, rules: Mapping[int, LaneRule]) -> Mapping[int, LaneRule]:  # noqa: ARG001 -- the lanes are found in the transaction
    return rules
