"""Pending deliveries that are cancelled: found in the order of their numbers, then made dead letters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from psycopg import Connection

from hookgw.store.postgresql.dead_letters import bury
from hookgw.store.postgresql.lookups import instance_number, one_row, sought
from hookgw.store.postgresql.moments import IS_BEFORE, Moment
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import CancelQuery, micros

# A delivery that was made pending again since the moment is of a later call.
_STILL_MEANT = f"SELECT seq FROM deliveries WHERE seq = ANY(%(seqs)s) AND {IS_BEFORE}"  # noqa: S608


def find_pending(
    connection: Connection,
    query: CancelQuery,
    *,
    after: int,
    moment: Moment,
    limit: int,
    rows: int,
    spared: Collection[int] = (),
) -> tuple[list[int], int | None]:
    """Find the next deliveries to cancel.

    Args:
        connection: a reading one.
        query: which deliveries.
        after: only deliveries with a higher number.
        moment: only deliveries that were made pending before it.
        limit: the most deliveries to return.
        rows: the most deliveries to look at, whether they match or not: other reads wait meanwhile.
        spared: numbers of deliveries to leave out.

    Returns:
        Their numbers, and behind which number the search goes on; ``None`` if there are no more.
    """
    number = instance_number(connection, query.instance)
    if number is None:
        return [], None
    given: dict[str, Any] = {
        "instance": number,
        "registrations": [sought(one) for one in query.registrations],
        "spared": list(spared),
        "after": after,
        "limit": limit,
        "rows": rows,
        **moment.given(),
    }
    conditions = ["registration = ANY(%(registrations)s)", "seq <> ALL(%(spared)s)", IS_BEFORE]
    if query.since is not None:
        conditions.append("accepted_at >= %(since)s")
        given["since"] = micros(query.since)
    if query.until is not None:
        conditions.append("accepted_at < %(until)s")
        given["until"] = micros(query.until)
    if query.kinds:
        conditions.append("kind = ANY(%(kinds)s)")
        given["kinds"] = [sought(kind) for kind in query.kinds]
    # By the whole key of the index; see history.py.
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join(conditions)} AS matches FROM deliveries
            WHERE state <> 'delivered' AND (instance, state, seq) > (%(instance)s, 'pending', %(after)s)
                AND (instance, state, seq) <= (%(instance)s, 'pending', %(newest)s)
            ORDER BY instance, state, seq LIMIT %(rows)s
        )
        SELECT count(*), max(seq),
            ARRAY(SELECT seq FROM looked_at WHERE matches ORDER BY seq LIMIT %(limit)s)
        FROM looked_at"""  # noqa: S608 - only the texts above are in it
    count, last, found = one_row(connection, statement, given)
    if len(found) == limit:
        return found, max(found, default=after)
    return found, last if count == rows else None


def cancel(
    transaction: Transaction, found: Collection[int], reason: str, at: float, moment: Moment
) -> dict[str, int]:
    """Turn deliveries into dead letters, if they are still pending.

    Returns:
        How many there were, by registration id.
    """
    given = {"seqs": list(found), **moment.given()}
    meant = [seq for (seq,) in transaction.connection.execute(_STILL_MEANT, given)]
    gone = bury(transaction.connection, meant, reason, at)
    transaction.count_finished(gone)
    counts: dict[str, int] = {}
    for (registration, _), (count, _) in gone.items():
        counts[registration] = counts.get(registration, 0) + count
    transaction.count_rows(sum(counts.values()))
    return counts
