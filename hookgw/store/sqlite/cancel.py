"""Pending deliveries that are cancelled: found in the order of their numbers, then made dead letters."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

import msgspec

from hookgw.store.records import CancelQuery, PendingChange, ReplayQuery
from hookgw.store.searches import LAST, in_time
from hookgw.store.sqlite.dead_letters import bury
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.transaction import Transaction
from hookgw.store.steps import end_of_search

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
    # What the index has comes first: the row itself is read only if that matches.
    conditions, given = filters(query, query.registrations, after=after, now=now, rows=rows)
    given |= {"spared": _json(spared), "limit": limit}
    conditions.insert(-1, "seq NOT IN (SELECT value FROM json_each(:spared))")
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


def filters(
    query: CancelQuery | ReplayQuery, registrations: Collection[str], *, after: int, now: int, rows: int
) -> tuple[list[str], dict[str, Any]]:
    """Return conditions, the dearest last, and the values of these and of the range of the search."""
    times, given = in_time(query, ":{}")
    conditions = ["1", *times]
    if query.kinds:
        conditions.append(
            "kind IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:kinds)))"
        )
        given["kinds"] = _json(query.kinds)
    conditions.append(
        """registration IN (
            SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:registrations)))"""
    )
    given |= {"instance": of_instance(query.instance), "registrations": _json(registrations)}
    return conditions, given | {"after": after, "newest": now, "rows": rows}


def cancel(
    transaction: Transaction, found: Collection[int], reason: str, at: float, now: int
) -> PendingChange:
    connection = transaction.connection
    seqs = _numbers_of(connection.execute(_STILL_PENDING, (_json(found), now)).fetchone()[0])
    return bury(connection, seqs, reason, at)


def cancel_one(transaction: Transaction, seq: int, reason: str, at: float) -> PendingChange:
    return cancel(transaction, [seq], reason, at, LAST)


def _json(values: Collection[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()
