"""The deliveries of the instances that hold most of the history; see :mod:`hookgw.store.holdings`."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from hookgw.store.holdings import ROW_BYTES, SAMPLED, Oldest, Part
from hookgw.store.postgresql.removal import Removed, remove
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import micros

# On a reading session: those of others may be many, and are passed over. The next step begins behind them.
_OLDEST_OF = """SELECT finished_at, seq, instance, size FROM deliveries
    WHERE (finished_at, seq) > (%(at)s, %(after)s) AND finished_at < %(before)s
        AND instance = ANY(%(holders)s)
    ORDER BY finished_at, seq LIMIT %(rows)s"""
# Again: one may have been sent again meanwhile, or another node may remove it.
_STILL_OLD = """SELECT seq, event FROM deliveries WHERE seq = ANY(%s) AND finished_at < %s
    ORDER BY seq FOR UPDATE SKIP LOCKED"""
# In parts: what each instance holds. All rows of deliveries are read, but of the rest a sample.
_HELD = f"""
    WITH part AS MATERIALIZED (
        SELECT seq, instance, size, finished_at, (seq %% {SAMPLED} = %(sample)s)::integer AS sampled
        FROM deliveries WHERE seq > %(after)s ORDER BY seq LIMIT %(rows)s
    )
    SELECT instance, count(*), sum(size)::bigint, sum(sampled)::bigint, sum(CASE WHEN sampled = 1 THEN
        (SELECT coalesce(sum(octet_length(answer) + coalesce(octet_length(error), 0)
            + coalesce(octet_length(heads), 0) + 150), 0)
            FROM attempts WHERE delivery = part.seq)
        + coalesce((SELECT octet_length(body) FROM bodies WHERE bodies.seq = part.seq), 0)
        ELSE 0 END)::bigint, max(seq)
    FROM part WHERE finished_at IS NOT NULL GROUP BY instance
    UNION ALL SELECT NULL, 0, 0, 0, 0, max(seq) FROM part"""  # noqa: S608 - constants


def count_held(connection: Connection, given: dict[str, int]) -> tuple[int | None, list[Part]]:
    *found, (*_, last) = connection.execute(_HELD, given).fetchall()
    return last, [Part(*row[:5]) for row in found]


def find_oldest(
    connection: Connection, holders: Sequence[int], after: Oldest, before: float, *, rows: int
) -> list[Oldest]:
    given = {"holders": list(holders), "at": after.at, "after": after.seq, "before": micros(before)}
    return [Oldest(*row) for row in connection.execute(_OLDEST_OF, {**given, "rows": rows})]


def remove_oldest(transaction: Transaction, found: Sequence[Oldest], before: float) -> tuple[int, int]:
    # The bytes are what they took: the server does not tell what it uses.
    given = ([one.seq for one in found], micros(before))
    rows = transaction.connection.execute(_STILL_OLD, given).fetchall()
    gone = Removed(0, 0)
    if rows:
        gone = remove(transaction.connection, [seq for seq, _ in rows], {event for _, event in rows})
    transaction.count_rows(len(rows))
    return len(rows), gone.size + ROW_BYTES * len(rows)
