"""Figures over time in the data file; see :mod:`hookgw.store.figures`."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

import msgspec

from hookgw.records.figures import FIVE_MINUTES, GATEWAY, MINUTE, Holder
from hookgw.records.rhythms import HOUR
from hookgw.store.figures import ROW_BYTES, FigureRow, Place
from hookgw.store.records import seconds
from hookgw.store.sqlite.bulk import Bulk, as_json
from hookgw.store.sqlite.name_ids import FIND_NUMBERS, of_instance, of_tag
from hookgw.store.sqlite.transaction import Transaction

# One row with all of them: each step of a statement costs a wait for Python's lock.
_TAKE_NEWS = """WITH RECURSIVE taken (number, entries, size) AS (
    SELECT number, entries, length(entries) FROM figure_news
        WHERE number = (SELECT min(number) FROM figure_news)
    UNION ALL
    SELECT n.number, n.entries, taken.size + length(n.entries) FROM taken CROSS JOIN figure_news n
        ON n.number = (SELECT min(number) FROM figure_news WHERE number > taken.number)
        WHERE taken.size < :size
    LIMIT :rows
)
SELECT '[' || coalesce(group_concat(entries), '') || ']', max(number) FROM taken"""
_REMOVE_NEWS = "DELETE FROM figure_news WHERE number <= ?"
_ADD_NEWS = "INSERT INTO figure_news (entries) VALUES (?)"
_ROW = "json_array(f.step, f.at, f.holder, f.accepted, f.delivered, f.dead, f.dropped, f.more)"
_READ = f"""SELECT json_group_array({_ROW}) FROM json_each(?) place CROSS JOIN figures f
    ON f.step = place.value ->> 0 AND f.at = place.value ->> 1 AND f.holder = place.value ->> 2"""  # noqa: S608
_WRITE = Bulk(
    "REPLACE INTO figures (step, at, holder, accepted, delivered, dead, dropped, more) SELECT * FROM",
    8,
    "WHERE column1 <> 0",
)
_OLDEST = f"""SELECT json_group_array({_ROW}) FROM (
    SELECT * FROM figures WHERE step = ? AND at < ? ORDER BY step, at, holder LIMIT ?) f"""  # noqa: S608
_REMOVE = """DELETE FROM figures WHERE (step, at, holder) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))"""
# One search for each step of the span, between the oldest row and the newest: minutes are kept for a day.
_TIMES = """WITH RECURSIVE kept (first, last) AS MATERIALIZED (
    SELECT max(:since, (SELECT min(at) FROM figures WHERE step = :step)),
        min(:until - 1, (SELECT max(at) FROM figures WHERE step = :step))
),
times (at) AS (
    SELECT first FROM kept WHERE first <= last
    UNION ALL SELECT at + :step FROM times, kept WHERE at + :step <= last
)"""
_SERIES = f"""{_TIMES} SELECT json_group_array({_ROW})
    FROM json_each(:holders) one CROSS JOIN times CROSS JOIN figures f
    ON f.step = :step AND f.at = times.at AND f.holder = one.value"""  # noqa: S608
_PARTS = f"""{_TIMES} SELECT json_group_array(json_array(holder, part, delivered, dead)) FROM (
    SELECT f.holder AS holder, (f.at - :since) / :part AS part, sum(f.delivered) AS delivered,
        sum(f.dead) AS dead
    FROM json_each(:holders) one CROSS JOIN times CROSS JOIN figures f
    ON f.step = :step AND f.at = times.at AND f.holder = one.value
    GROUP BY 1, 2)"""  # noqa: S608
_MEASURE = f"SELECT coalesce(sum(length(more) + {ROW_BYTES}), 0) FROM figures"  # noqa: S608
_OLDEST_STEP = "SELECT min(at) FROM figures WHERE step = ?"
# As in outbox.py, a loose index scan: one search for each lane.
_OLDEST_PENDING = """WITH RECURSIVE wanted (registration, name) AS MATERIALIZED (
    SELECT number, name FROM names WHERE name IN (SELECT value FROM json_each(?))),
found (registration, lane) AS (
    SELECT registration, (SELECT min(d.lane) FROM deliveries d INDEXED BY outbox
        WHERE d.state = 'pending' AND d.registration = wanted.registration) FROM wanted
    UNION ALL
    SELECT registration, (SELECT min(d.lane) FROM deliveries d INDEXED BY outbox
        WHERE d.state = 'pending' AND d.registration = found.registration AND d.lane > found.lane)
    FROM found WHERE lane IS NOT NULL
),
oldest (registration, at) AS MATERIALIZED (
    SELECT found.registration, min(d.queued_at)
    FROM found CROSS JOIN deliveries d INDEXED BY outbox ON d.state = 'pending'
    AND d.registration = found.registration AND d.lane = found.lane AND d.position = (
        SELECT min(first.position) FROM deliveries first INDEXED BY outbox
        WHERE first.state = 'pending' AND first.registration = found.registration AND first.lane = found.lane)
    GROUP BY 1
)
SELECT json_group_object(name, at) FROM wanted JOIN oldest USING (registration)"""
# A search for each step that there is; the table is not in the order of holders.
_FORGET = f"""WITH RECURSIVE places (step, at) AS (
    SELECT step, (SELECT min(at) FROM figures f WHERE f.step = one.step)
        FROM (SELECT {MINUTE} AS step UNION ALL SELECT {FIVE_MINUTES} UNION ALL SELECT {HOUR}) one
    UNION ALL
    SELECT step, (SELECT min(at) FROM figures f WHERE f.step = places.step AND f.at > places.at)
        FROM places WHERE at IS NOT NULL
)
DELETE FROM figures WHERE (step, at, holder) IN (
    SELECT places.step, places.at, one.value FROM places CROSS JOIN json_each(?) one WHERE at IS NOT NULL)"""  # noqa: S608 - numbers of ours

_rows_of = msgspec.json.Decoder(list[FigureRow]).decode
_numbers_of = msgspec.json.Decoder(dict[str, int]).decode
_parts_of = msgspec.json.Decoder(list[tuple[int, int, int, int]]).decode


def _name_of(holder: Holder) -> str:
    """Return the name of a holder in the table of names; a gateway has none."""
    if holder.kind == "instance":
        return of_instance(holder.name)
    return of_tag(holder.name) if holder.kind == "tag" else holder.name


def add_news(transaction: Transaction) -> None:
    """Insert what counts the transaction, as its last change."""
    if (news := transaction.news()) is not None:
        transaction.connection.execute(_ADD_NEWS, (news,))


def take_news(transaction: Transaction, limit: int, size: int) -> str:
    text, last = transaction.connection.execute(_TAKE_NEWS, {"rows": limit, "size": size}).fetchone()
    if last is not None:
        transaction.connection.execute(_REMOVE_NEWS, (last,))
    return str(text)


def names_of(
    transaction: Transaction, registrations: Collection[int | str], instances: Collection[int]
) -> tuple[Mapping[int | str, str], Mapping[int, str]]:
    numbers = [*(one for one in registrations if isinstance(one, int)), *instances]
    found = transaction.names.names(numbers)
    ids = {one: one if isinstance(one, str) else found.get(one) for one in registrations}
    known = {one: name for one, name in ids.items() if name is not None}
    return known, {one: found[one][1:] for one in instances if one in found}


def keys_of(transaction: Transaction, holders: Collection[Holder]) -> Mapping[Holder, int]:
    names = {holder: _name_of(holder) for holder in holders if holder.name}
    numbers = transaction.names.ids(names.values())
    return {holder: numbers[names[holder]] if holder.name else 0 for holder in holders}


def read_rows(connection: sqlite3.Connection, places: Collection[Place]) -> list[FigureRow]:
    return _rows_of(connection.execute(_READ, (as_json(places),)).fetchone()[0])


def write_rows(transaction: Transaction, rows: Sequence[FigureRow]) -> None:
    _WRITE.run(transaction.connection, rows)


def take_oldest(transaction: Transaction, step: int, before: int, limit: int) -> list[FigureRow]:
    connection = transaction.connection
    rows = _rows_of(connection.execute(_OLDEST, (step, before, limit)).fetchone()[0])
    connection.execute(_REMOVE, (as_json([row[:3] for row in rows]),))
    return rows


def read_series(
    connection: sqlite3.Connection, holders: Collection[Holder], span: Mapping[str, int]
) -> list[FigureRow]:
    given = {"holders": as_json(_known(connection, holders)), **span}
    return _rows_of(connection.execute(_SERIES, given).fetchone()[0])


def sum_parts(
    connection: sqlite3.Connection, holders: Sequence[Holder], span: Mapping[str, int]
) -> list[tuple[str, int, int, int]]:
    known = _known(connection, holders)
    given = {"holders": as_json(known), **span}
    found = _parts_of(connection.execute(_PARTS, given).fetchone()[0])
    return [(known[number].name, place, delivered, died) for number, place, delivered, died in found]


def measure(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_MEASURE).fetchone()[0])


def oldest_step(connection: sqlite3.Connection, step: int) -> int | None:
    found: int | None = connection.execute(_OLDEST_STEP, (step,)).fetchone()[0]
    return found


def oldest_pending(connection: sqlite3.Connection, registrations: Collection[str]) -> Mapping[str, float]:
    found = connection.execute(_OLDEST_PENDING, (as_json(registrations),)).fetchone()[0]
    return {name: seconds(at) for name, at in _numbers_of(found).items()}


def forget_figures(transaction: Transaction, holders: Collection[Holder]) -> None:
    connection = transaction.connection
    connection.execute(_FORGET, (as_json(_known(connection, holders)),))


def _known(connection: sqlite3.Connection, holders: Collection[Holder]) -> dict[int, Holder]:
    """Return those of some holders that have a number, by their numbers."""
    names = {_name_of(holder): holder for holder in holders if holder.name}
    numbers = _numbers_of(connection.execute(FIND_NUMBERS, (as_json(names),)).fetchone()[0])
    found = {number: names[name] for name, number in numbers.items()}
    if GATEWAY in holders:
        found[0] = GATEWAY
    return found
