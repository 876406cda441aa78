"""Figures over time in the database; see :mod:`hookgw.store.figures`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from psycopg import Connection

from hookgw.records.figures import FIVE_MINUTES, MINUTE, Holder
from hookgw.records.rhythms import HOUR
from hookgw.store.figures import ROW_BYTES, FigureRow, Place
from hookgw.store.postgresql.lookups import columns_of, one_row
from hookgw.store.postgresql.transaction import INSTANCES, Transaction
from hookgw.store.records import seconds

# One node folds at a time, or two would change the same rows. Nobody waits for it: it folds all news.
_LOCK = "SELECT pg_try_advisory_xact_lock(%s, hashtext(current_schema()))"
_FOLDING = 0x686B6766
_TAKE_NEWS = """WITH taken AS (
    DELETE FROM figure_news WHERE number IN (
        SELECT number FROM (
            SELECT number, sum(size) OVER (ORDER BY number) - size AS before_it FROM (
                SELECT number, octet_length(entries) AS size FROM figure_news ORDER BY number LIMIT %s
            ) oldest
        ) summed WHERE before_it < %s
    )
    RETURNING entries
)
SELECT '[' || coalesce(string_agg(entries, ','), '') || ']' FROM taken"""
_ADD_NEWS = "INSERT INTO figure_news (entries) VALUES (%s)"
_NAMES = "SELECT number, name FROM instance_numbers WHERE number = ANY(%s)"
_ROW = "f.step, f.at, f.holder, f.accepted, f.delivered, f.dead, f.dropped, f.more"
_READ = f"""SELECT {_ROW} FROM unnest(%s::integer[], %s::bigint[], %s::text[]) AS place (step, at, holder)
    JOIN figures f USING (step, at, holder)"""  # noqa: S608
_WRITE = """INSERT INTO figures (step, at, holder, accepted, delivered, dead, dropped, more)
    SELECT * FROM unnest(%s::integer[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
        %s::bigint[], %s::text[])
    ON CONFLICT (step, at, holder) DO UPDATE SET accepted = excluded.accepted,
        delivered = excluded.delivered, dead = excluded.dead, dropped = excluded.dropped,
        more = excluded.more"""
_TAKE_OLDEST = f"""DELETE FROM figures f USING (
    SELECT step, at, holder FROM figures WHERE step = %s AND at < %s ORDER BY step, at, holder LIMIT %s
) oldest WHERE f.step = oldest.step AND f.at = oldest.at AND f.holder = oldest.holder
RETURNING {_ROW}"""  # noqa: S608
# One search for each step of the span, between the oldest row and the newest: minutes are kept for a day.
_OF_SPAN = """FROM generate_series(
        greatest(%(since)s, (SELECT min(at) FROM figures WHERE step = %(step)s)),
        least(%(until)s - 1, (SELECT max(at) FROM figures WHERE step = %(step)s)), %(step)s::bigint
    ) AS time (at)
    CROSS JOIN unnest(%(holders)s::text[]) AS one (holder)
    JOIN figures f ON f.step = %(step)s AND f.at = time.at AND f.holder = one.holder"""
_SERIES = f"SELECT {_ROW} {_OF_SPAN}"
_PARTS = f"""SELECT f.holder, (f.at - %(since)s) / %(part)s, sum(f.delivered)::bigint, sum(f.dead)::bigint
    {_OF_SPAN} GROUP BY 1, 2"""
_MEASURE = f"SELECT coalesce(sum(octet_length(more) + {ROW_BYTES}), 0) FROM figures"  # noqa: S608
_OLDEST_STEP = "SELECT min(at) FROM figures WHERE step = %s"
# A loose index scan, as in outbox.py of the other engine: one search for each lane.
_OLDEST_PENDING = """WITH RECURSIVE found AS (
    SELECT one.registration, first.lane, first.queued_at
    FROM unnest(%(registrations)s::text[]) AS one (registration)
    CROSS JOIN LATERAL (SELECT d.lane, d.queued_at FROM deliveries d
        WHERE d.state = 'pending' AND d.registration = one.registration
        ORDER BY d.registration, d.lane, d.xid, d.position LIMIT 1) first
    UNION ALL
    SELECT found.registration, next.lane, next.queued_at FROM found
    CROSS JOIN LATERAL (SELECT d.lane, d.queued_at FROM deliveries d
        WHERE d.state = 'pending' AND d.registration = found.registration AND d.lane > found.lane
        ORDER BY d.registration, d.lane, d.xid, d.position LIMIT 1) next
)
SELECT registration, min(queued_at) FROM found GROUP BY registration"""
_FORGET = f"""DELETE FROM figures f USING (
    SELECT step, at, holder FROM (
        WITH RECURSIVE places AS (
            SELECT step, (SELECT min(at) FROM figures WHERE figures.step = one.step) AS at
            FROM (VALUES ({MINUTE}), ({FIVE_MINUTES}), ({HOUR})) AS one (step)
            UNION ALL
            SELECT step, (SELECT min(at) FROM figures WHERE figures.step = places.step
                AND figures.at > places.at) FROM places WHERE at IS NOT NULL
        )
        SELECT step, at FROM places WHERE at IS NOT NULL
    ) place CROSS JOIN unnest(%s::text[]) AS one (holder)
) gone WHERE f.step = gone.step AND f.at = gone.at AND f.holder = gone.holder"""  # noqa: S608 - numbers of ours


def add_news(transaction: Transaction) -> None:
    """Insert what counts the transaction, as its last change."""
    if (news := transaction.news()) is not None:
        transaction.connection.execute(_ADD_NEWS, (news,))


def take_news(transaction: Transaction, limit: int, size: int) -> str | None:
    connection = transaction.connection
    if connection.execute(_LOCK, (_FOLDING,)).fetchone() != (True,):
        return None
    return str(one_row(connection, _TAKE_NEWS, (limit, size))[0])


def names_of(
    transaction: Transaction, registrations: Collection[int | str], instances: Collection[int]
) -> tuple[Mapping[int | str, str], Mapping[int, str]]:
    found: dict[int, str] = dict(transaction.connection.execute(_NAMES, (list(instances),)).fetchall())
    return {one: str(one) for one in registrations}, found


def keys_of(transaction: Transaction, holders: Collection[Holder]) -> Mapping[Holder, str]:
    return _keys(transaction.connection, holders)


def read_rows(connection: Connection, places: Collection[Place]) -> list[FigureRow]:
    return [FigureRow(*row) for row in connection.execute(_READ, columns_of(places))]


def write_rows(transaction: Transaction, rows: Sequence[FigureRow]) -> None:
    transaction.connection.execute(_WRITE, columns_of(rows))


def take_oldest(transaction: Transaction, step: int, before: int, limit: int) -> list[FigureRow]:
    return [FigureRow(*row) for row in transaction.connection.execute(_TAKE_OLDEST, (step, before, limit))]


def read_series(
    connection: Connection, holders: Collection[Holder], span: Mapping[str, int]
) -> list[FigureRow]:
    given = {"holders": list(_keys(connection, holders).values()), **span}
    return [FigureRow(*row) for row in connection.execute(_SERIES, given)]


def sum_parts(
    connection: Connection, holders: Sequence[Holder], span: Mapping[str, int]
) -> list[tuple[str, int, int, int]]:
    known = {key: holder.name for holder, key in _keys(connection, holders).items()}
    found = connection.execute(_PARTS, {"holders": list(known), **span})
    return [(known[key], place, delivered, died) for key, place, delivered, died in found]


def measure(connection: Connection) -> int:
    return int(one_row(connection, _MEASURE)[0])


def oldest_step(connection: Connection, step: int) -> int | None:
    found: int | None = one_row(connection, _OLDEST_STEP, (step,))[0]
    return found


def oldest_pending(connection: Connection, registrations: Collection[str]) -> Mapping[str, float]:
    found = connection.execute(_OLDEST_PENDING, {"registrations": list(registrations)})
    return {name: seconds(at) for name, at in found}


def forget_figures(transaction: Transaction, holders: Collection[Holder]) -> None:
    keys = list(_keys(transaction.connection, holders).values())
    transaction.connection.execute(_FORGET, (keys,))


def _keys(connection: Connection, holders: Collection[Holder]) -> dict[Holder, str]:
    """Return the keys of holders; an instance without events has none."""
    instances = [holder.name for holder in holders if holder.kind == "instance"]
    numbers: dict[str, int] = {}
    if instances:
        numbers = dict(connection.execute(INSTANCES, (instances,)).fetchall())
    found: dict[Holder, str] = {}
    for holder in holders:
        if holder.kind == "instance":
            if holder.name in numbers:
                found[holder] = f"@{numbers[holder.name]}"
        else:
            found[holder] = f"#{holder.name}" if holder.kind == "tag" else holder.name
    return found
