"""The deliveries of the instances that hold most of the history; see :mod:`hookgw.store.holdings`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

import msgspec

from hookgw.store.holdings import SAMPLED, Oldest, Part
from hookgw.store.records import micros
from hookgw.store.sqlite.settle import remove
from hookgw.store.sqlite.transaction import Transaction

# In parts, by number: what each instance holds. All of the table is read, but of the rest a sample.
_HELD = f"""
    WITH part AS MATERIALIZED (
        SELECT seq, instance, size, finished_at, seq % {SAMPLED} = :sample AS sampled
        FROM deliveries NOT INDEXED WHERE seq > :after ORDER BY seq LIMIT :rows
    ),
    counted AS (
        SELECT instance, count(*) AS count, sum(size) AS size, sum(sampled) AS sampled, sum(iif(sampled,
            (SELECT coalesce(sum(length(answer) + coalesce(length(heads), 0) + 150), 0)
                FROM attempts WHERE delivery = part.seq)
            + coalesce((SELECT length(body) FROM bodies WHERE bodies.seq = part.seq), 0), 0)) AS more
        FROM part WHERE finished_at IS NOT NULL GROUP BY instance
    )
    SELECT (SELECT max(seq) FROM part),
        (SELECT json_group_array(json_array(instance, count, size, sampled, more)) FROM counted)"""  # noqa: S608
# On a reading connection: those of others may be many, and are passed over. The next step begins behind them.
_OLDEST_OF = """
    WITH old AS MATERIALIZED (
        SELECT finished_at, seq, instance, size FROM deliveries INDEXED BY finished
        WHERE (finished_at, seq) > (:at, :after) AND finished_at < :end
            AND instance IN (SELECT value FROM json_each(:holders))
        ORDER BY finished_at, seq LIMIT :rows
    ),
    summed AS (SELECT *, sum(size) OVER (ORDER BY finished_at, seq) - size AS before_it FROM old)
    SELECT json_group_array(json(line)) FROM (
        SELECT json_array(finished_at, seq, instance, size) AS line FROM summed
        WHERE before_it < :bytes ORDER BY finished_at, seq)"""
# Again: one may have been sent again meanwhile.
_STILL_OLD = """SELECT json_group_array(seq), json_group_array(DISTINCT event), count(*) FROM deliveries
    WHERE seq IN (SELECT value FROM json_each(:seqs)) AND finished_at < :end"""

# Each page of a payload is overwritten, so a commit removes at most so many bytes of payloads, or one
# delivery.
PRUNE_BYTES = 2 * 2**20

_parts_of = msgspec.json.Decoder(list[Part]).decode
_oldest_of = msgspec.json.Decoder(list[Oldest]).decode


def count_held(connection: sqlite3.Connection, given: dict[str, int]) -> tuple[int | None, list[Part]]:
    last, parts = connection.execute(_HELD, given).fetchone()
    return last, _parts_of(parts)


def find_oldest(
    connection: sqlite3.Connection,
    holders: Sequence[int],
    after: Oldest,
    before: float,
    *,
    rows: int,
) -> list[Oldest]:
    given = {"holders": json.dumps(holders), "at": after.at, "after": after.seq, "end": micros(before)}
    return _oldest_of(
        connection.execute(_OLDEST_OF, {**given, "rows": rows, "bytes": PRUNE_BYTES}).fetchone()[0]
    )


def remove_oldest(transaction: Transaction, found: Sequence[Oldest], before: float) -> tuple[int, int]:
    # The bytes are those of the ids: the file tells what it uses.
    given = {"seqs": json.dumps([one.seq for one in found]), "end": micros(before)}
    seqs, events, count = transaction.connection.execute(_STILL_OLD, given).fetchone()
    transaction.count_rows(count)
    return count, remove(transaction.connection, seqs, events) if count else 0
