"""Pending deliveries that are cancelled: found in the order of their numbers, then made dead letters."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import msgspec

from hookgw.store.delivery_searches import end_of_search
from hookgw.store.records import CancelQuery, PendingChange
from hookgw.store.searches import LAST
from hookgw.store.sqlite.bulk import as_json
from hookgw.store.sqlite.dead_letters import bury
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.selection import conditions_of
from hookgw.store.sqlite.transaction import Transaction

# A delivery that was made pending again behind the newest position is of a later call.
_STILL_PENDING = """SELECT json_group_array(seq) FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending' AND position <= ?"""

_numbers_of = msgspec.json.Decoder(list[int]).decode


def find_pending(
    connection: sqlite3.Connection,
    query: CancelQuery,
    *,
    after: int,
    now: int,
    limit: int,
    rows: int,
    spared: Collection[int] = (),
) -> tuple[list[int], int | None]:
    conditions, given = conditions_of(query, query.registrations)
    given |= {"instance": of_instance(query.instance), "after": after, "newest": now, "rows": rows}
    given |= {"spared": as_json(spared), "limit": limit}
    conditions.append("seq NOT IN (SELECT value FROM json_each(:spared))")
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join(conditions)} AS matches FROM deliveries INDEXED BY undelivered
            WHERE state = 'pending' AND state <> 'delivered'
                AND instance = (SELECT number FROM names WHERE name = :instance)
                AND seq > :after AND seq <= :newest
            ORDER BY seq LIMIT :rows
        )
        SELECT (SELECT count(*) FROM looked_at), (SELECT max(seq) FROM looked_at), (
            SELECT json_group_array(seq) FROM (
                SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT :limit))"""  # noqa: S608 - only the texts above are in it
    count, last, lines = connection.execute(statement, given).fetchone()
    found = _numbers_of(lines)
    return found, end_of_search(found, limit, after, last, is_end=count < rows)


def cancel(
    transaction: Transaction, found: Collection[int], reason: str, at: float, now: int
) -> PendingChange:
    connection = transaction.connection
    seqs = _numbers_of(connection.execute(_STILL_PENDING, (as_json(found), now)).fetchone()[0])
    return bury(connection, seqs, reason, at)


def cancel_one(transaction: Transaction, seq: int, reason: str, at: float) -> PendingChange:
    return cancel(transaction, [seq], reason, at, LAST)
