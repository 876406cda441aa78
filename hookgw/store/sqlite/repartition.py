"""Pending deliveries that move to the lanes of their registration's present rule.

The caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

import msgspec

from hookgw.records.lanes import LaneRule
from hookgw.store.new_lanes import lanes_by_rule, readable
from hookgw.store.sqlite.bulk import Bulk, as_json, pairs_of
from hookgw.store.sqlite.outbox import lanes_of
from hookgw.store.sqlite.selection import PAYLOADS
from hookgw.store.sqlite.transaction import Transaction
from hookgw.store.steps import Moved

# In any order: positions do not change, so the order in the new lanes does not depend on it.
_IN_LANES = """
SELECT json_group_array(json_array(seq, size)) FROM (
    SELECT seq, size FROM deliveries INDEXED BY outbox
    WHERE state = 'pending' AND registration = (SELECT number FROM names WHERE name = :registration)
        AND lane IN (SELECT value FROM json_each(:lanes))
    LIMIT :limit)"""
_MOVE = Bulk("UPDATE deliveries SET lane = column2 FROM", 2, "WHERE deliveries.seq = column1")
_KEYS = """
SELECT json_group_array(json_array(d.seq, e.id, substr(i.name, 2)))
FROM (SELECT seq, event FROM deliveries WHERE seq IN (SELECT value FROM json_each(?))) d
CROSS JOIN events e ON e.seq = d.event
CROSS JOIN names i ON i.number = e.instance"""

_keys_of = msgspec.json.Decoder(list[tuple[int, str, str]]).decode


def repartition(transaction: Transaction, rule: LaneRule, place: object, limit: int) -> Moved:  # noqa: ARG001
    # No step needs a place: the deliveries of the former ones have left these lanes.
    connection = transaction.connection
    outdated = [
        lane.number for lane in lanes_of(connection, rule.registration) if not rule.is_current(lane.key)
    ]
    if not outdated:
        return Moved(0, None)
    # Each of these lanes has at least one delivery, so a step cannot reach more lanes than its limit.
    lanes = as_json(outdated[:limit])
    given = {"registration": rule.registration, "lanes": lanes, "limit": limit}
    found = pairs_of(connection.execute(_IN_LANES, given).fetchone()[0])
    # Sizes are in the index: the step is cut before a payload is read.
    fitting = readable(found, rule)
    moved = find_lanes(connection, {seq: rule for seq, _ in fitting})
    ids = transaction.names.ids(moved.values())
    _MOVE.run(connection, [(seq, ids[lane]) for seq, lane in moved.items()])
    return Moved(len(moved), 0 if len(found) == limit or len(fitting) < len(found) else None)


def find_lanes(
    connection: sqlite3.Connection,
    rules: Mapping[int, LaneRule],
    keys: str = _KEYS,
    payloads: str = PAYLOADS,
) -> dict[int, str]:
    """Return the lanes of deliveries; or of whatever the statements read, by the same numbers."""

    def read_names(seqs: list[int]) -> list[tuple[int, str, str]]:
        return _keys_of(connection.execute(keys, (as_json(seqs),)).fetchone()[0])

    def read_payloads(seqs: list[int]) -> Iterable[tuple[int, bytes]]:
        # Row by row, not as one value: the payloads of a replay together may be larger than the memory.
        return connection.execute(payloads, (as_json(seqs),))

    return lanes_by_rule(rules, read_names, read_payloads)
