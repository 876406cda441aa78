"""Pending deliveries that are cancelled: found in the order of their numbers, then made dead letters."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

import msgspec

from hookgw.store.records import CancelQuery, PendingChange, micros
from hookgw.store.sqlite.dead_letters import bury
from hookgw.store.sqlite.name_ids import of_instance
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
    newest: int,
    limit: int,
    rows: int,
    spared: Collection[int] = (),
) -> tuple[list[int], int | None]:
    """Find the next deliveries to cancel.

    Args:
        connection: a reading one.
        query: which deliveries.
        after, newest: the range of the numbers, the first excluded.
        limit: the most deliveries to return.
        rows: the most deliveries to look at, whether they match or not: other reads wait meanwhile.
        spared: numbers of deliveries to leave out.

    Returns:
        Their numbers, and behind which number the search goes on; ``None`` if there are no more.
    """
    conditions = ["1"]
    given: dict[str, Any] = {
        "instance": of_instance(query.instance),
        "registrations": _json(query.registrations),
        "spared": _json(spared),
        "after": after,
        "newest": newest,
        "limit": limit,
        "rows": rows,
    }
    # What the index has comes first: the row itself is read only if that matches.
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
        given["kinds"] = _json(query.kinds)
    conditions.append("seq NOT IN (SELECT value FROM json_each(:spared))")
    conditions.append(
        """registration IN (
            SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:registrations)))"""
    )
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
    if len(found) == limit:
        return found, max(found)
    return found, last if count == rows else None


def cancel(
    transaction: Transaction, found: Collection[int], reason: str, at: float, newest: int
) -> dict[str, int]:
    """Turn deliveries into dead letters, if they are still pending.

    Returns:
        How many there were, by registration id.
    """
    connection = transaction.connection
    seqs = _numbers_of(connection.execute(_STILL_PENDING, (_json(found), newest)).fetchone()[0])
    gone = bury(connection, seqs, reason, at)
    transaction.count_finished(gone)
    transaction.count_rows(len(seqs))
    counts: dict[str, int] = {}
    for (registration, _), (count, _) in gone.items():
        counts[registration] = counts.get(registration, 0) + count
    return counts


def cancel_one(connection: sqlite3.Connection, seq: int, reason: str, at: float) -> PendingChange:
    """Turn a delivery into a dead letter, if it is pending; return what it was."""
    found = connection.execute("SELECT 1 FROM deliveries WHERE seq = ? AND state = 'pending'", (seq,))
    return {} if found.fetchone() is None else bury(connection, [seq], reason, at)


def _json(values: Collection[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()
