"""Pending deliveries that are cancelled: found in the order of their numbers, then made dead letters."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection

from hookgw.store.delivery_searches import end_of_search
from hookgw.store.postgresql.dead_letters import bury
from hookgw.store.postgresql.lookups import instance_number, one_row
from hookgw.store.postgresql.moments import IS_BEFORE, Moment
from hookgw.store.postgresql.selection import conditions_of
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import CancelQuery, PendingChange

# A delivery that was made pending again since the moment is of a later call.
_STILL_MEANT = f"SELECT seq FROM deliveries WHERE seq = ANY(%(seqs)s) AND {IS_BEFORE}"  # noqa: S608


def find_pending(
    connection: Connection,
    query: CancelQuery,
    *,
    after: int,
    now: Moment,
    limit: int,
    rows: int,
    spared: Collection[int] = (),
) -> tuple[list[int], int | None]:
    number = instance_number(connection, query.instance)
    if number is None:
        return [], None
    conditions, given = conditions_of(query, query.registrations)
    conditions += [IS_BEFORE, "seq <> ALL(%(spared)s)"]
    given |= now.given()
    given |= {"instance": number, "spared": list(spared), "after": after, "limit": limit, "rows": rows}
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
    return found, end_of_search(found, limit, after, last, is_end=count < rows)


def cancel(
    transaction: Transaction, found: Collection[int], reason: str, at: float, now: Moment
) -> PendingChange:
    given = {"seqs": list(found), **now.given()}
    meant = [seq for (seq,) in transaction.connection.execute(_STILL_MEANT, given)]
    return bury(transaction.connection, meant, reason, at)


def cancel_one(transaction: Transaction, seq: int, reason: str, at: float) -> PendingChange:
    return bury(transaction.connection, [seq], reason, at)
