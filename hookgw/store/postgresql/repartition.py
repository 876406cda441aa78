"""Pending deliveries that move to the lanes of their registration's present rule.

The rule of a registration's newest re-partition is in the table ``lane_rules``. What makes deliveries pending
again, on whatever node, reads it in its transaction: otherwise a step that began with the rule of before
could bring back a lane whose deliveries have all been moved. The caller owns the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from psycopg import Connection

from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Ordering
from hookgw.store.new_lanes import lanes_by_rule, readable
from hookgw.store.postgresql.dead_letters import lanes_of
from hookgw.store.postgresql.locks import lock
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.steps import Moved

# In the order of the index, behind where the former step ended; see dead_letters.py. Positions do not change,
# so the order in the new lanes does not depend on it.
_IN_LANE = """SELECT seq, size, xid, position FROM deliveries
    WHERE state = 'pending' AND registration = %(registration)s AND lane = %(lane)s
        AND (xid, position) > (%(xid)s, %(position)s)
    ORDER BY registration, lane, xid, position LIMIT %(limit)s"""
# In the order of their numbers: see dead_letters.py.
_LOCK = """SELECT seq FROM deliveries
    WHERE seq = ANY(%(seqs)s) AND state || '' = 'pending' AND lane = ANY(%(lanes)s) ORDER BY seq FOR UPDATE"""
_MOVE = """UPDATE deliveries SET lane = moved.lane
    FROM unnest(%s::bigint[], %s::text[]) AS moved (seq, lane) WHERE deliveries.seq = moved.seq"""
_KEYS = """SELECT d.seq, e.id, i.name FROM deliveries d JOIN events e ON e.seq = d.event
    JOIN instance_numbers i ON i.number = d.instance WHERE d.seq = ANY(%s)"""
_PAYLOADS = """SELECT d.seq, e.data FROM deliveries d JOIN events e ON e.seq = d.event
    WHERE d.seq = ANY(%s)"""
# At most this many payloads are in memory at a time.
_PAYLOAD_ROWS = 50

_STORE_RULE = """INSERT INTO lane_rules VALUES (%s, %s, %s, %s)
    ON CONFLICT (registration) DO UPDATE SET generation = excluded.generation, ordering = excluded.ordering,
        concurrency = excluded.concurrency
    WHERE lane_rules.generation < excluded.generation"""
_RULES = """SELECT registration, generation, ordering, concurrency FROM lane_rules
    WHERE registration = ANY(%s)"""
# The lock with which a re-partition begins alone: what makes deliveries pending again shares it, and so has
# ended, or finds its rule.
_REPARTITIONS = 0x686B6778


class LanePlace(NamedTuple):
    """Where a re-partition is: which outdated lanes are left, and behind which place the first one is."""

    lanes: tuple[str, ...]
    xid: int = 0
    position: int = 0


def newest_rules(connection: Connection, rules: Mapping[str, LaneRule]) -> dict[str, LaneRule]:
    """Return the rules, or those of the newest re-partition if they have a later generation.

    They hold until the transaction ends: no re-partition begins before.
    """
    lock(connection, _REPARTITIONS, is_shared=True)
    found = dict(rules)
    for name, generation, ordering, concurrency in connection.execute(_RULES, (list(rules),)):
        if generation > rules[name].generation:
            found[name] = LaneRule(name, generation, Ordering(ordering), concurrency)
    return found


def repartition(transaction: Transaction, rule: LaneRule, place: LanePlace | None, limit: int) -> Moved:
    connection = transaction.connection
    if place is None:
        # What makes deliveries pending again knows the rule before the first step moves some.
        lock(connection, _REPARTITIONS)
        stored = (rule.registration, rule.generation, rule.ordering.value, rule.concurrency)
        connection.execute(_STORE_RULE, stored)
        begin = LanePlace(_outdated(connection, rule))
    else:
        begin = place
    # By number: bytes, and the place behind it.
    found: dict[int, tuple[int, LanePlace]] = {}
    lanes, xid, position = begin
    while lanes and len(found) < limit:
        given = {
            "registration": rule.registration,
            "lane": lanes[0],
            "xid": xid,
            "position": position,
            "limit": limit - len(found),
        }
        for seq, size, xid, position in connection.execute(_IN_LANE, given):
            found[seq] = (size, LanePlace(lanes, xid, position))
        if len(found) < limit:
            lanes, xid, position = lanes[1:], 0, 0
    if not found:
        return Moved(0, None)
    chosen = [seq for seq, _ in readable([(seq, size) for seq, (size, _) in found.items()], rule)]
    locked = {"seqs": chosen, "lanes": list(begin.lanes)}
    moved = find_lanes(connection, {seq: rule for (seq,) in connection.execute(_LOCK, locked)})
    connection.execute(_MOVE, (list(moved), list(moved.values())))
    if len(found) == limit or len(chosen) < len(found):
        return Moved(len(moved), found[chosen[-1]][1])
    # Another node, which did not know the rule yet, may have appended to a lane that this walk had left.
    left = () if place is None else _outdated(connection, rule)
    return Moved(len(moved), LanePlace(left) if left else None)


def _outdated(connection: Connection, rule: LaneRule) -> tuple[str, ...]:
    return tuple(lane for lane in lanes_of(connection, rule.registration) if not rule.is_current(lane))


def find_lanes(
    connection: Connection, rules: Mapping[int, LaneRule], keys: str = _KEYS, payloads: str = _PAYLOADS
) -> dict[int, str]:
    """Return the lanes of deliveries; or of whatever the statements read, by the same numbers."""

    def read_names(seqs: list[int]) -> list[tuple[int, str, str]]:
        return connection.execute(keys, (seqs,)).fetchall()

    def read_payloads(seqs: list[int]) -> Iterable[tuple[int, bytes]]:
        for start in range(0, len(seqs), _PAYLOAD_ROWS):
            yield from connection.execute(payloads, (seqs[start : start + _PAYLOAD_ROWS],))

    return lanes_by_rule(rules, read_names, read_payloads)
