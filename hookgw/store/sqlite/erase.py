"""Erasing what concerns a person: events found by their payloads, then removed with all that belongs to them.

SQLite looks which payloads have the text, and Python whether it is a value in them, both in the thread of a
reading connection, and in parts of bounded size.

What is removed is overwritten, see :func:`~hookgw.store.sqlite.settle.remove`. The write-ahead log still has
earlier images of those pages until :class:`~hookgw.store.sqlite.checkpoints.Checkpoints` has emptied it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

import msgspec

from hookgw.store.erasure_statements import ROWS, SEARCH_BYTES, UNWANTED_ROWS, ErasedDelivery
from hookgw.store.persons import Person, names_person, person
from hookgw.store.records import Concerned
from hookgw.store.sqlite.bulk import as_json, numbers_of
from hookgw.store.sqlite.event_ids import forget_ids_with
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.selection import ALL, PENDING
from hookgw.store.sqlite.settle import remove

_FIND = """
WITH looked_at AS MATERIALIZED (
    SELECT seq, event, size FROM {source}
        AND instance = (SELECT number FROM names WHERE name = :instance) AND seq > :after AND seq <= :newest
    ORDER BY seq LIMIT :rows
),
summed AS (SELECT seq, event, sum(size) OVER (ORDER BY seq) - size AS before_it FROM looked_at),
chosen AS MATERIALIZED (SELECT seq, event FROM summed WHERE before_it < :bytes)
SELECT (SELECT count(*) FROM looked_at), (SELECT count(*) FROM chosen), (SELECT max(seq) FROM chosen),
    {concerned}"""
# The same of events without deliveries, which no index has by instance. Erasures are few.
_FIND_UNWANTED = """
WITH looked_at AS MATERIALIZED (
    SELECT accepted_at, seq FROM events INDEXED BY unheard
    WHERE heard = 0 AND (accepted_at, seq) > (:at, :after) ORDER BY accepted_at, seq LIMIT :rows
),
ours AS MATERIALIZED (
    SELECT e.accepted_at, e.seq, length(e.data) AS size
    FROM looked_at one CROSS JOIN events e ON e.seq = one.seq
    WHERE e.instance = (SELECT number FROM names WHERE name = :instance) AND e.seq <= :newest
),
summed AS (SELECT *, sum(size) OVER (ORDER BY accepted_at, seq) - size AS before_it FROM ours),
chosen AS MATERIALIZED (SELECT accepted_at, seq, seq AS event FROM summed WHERE before_it < :bytes)
SELECT (SELECT count(*) FROM looked_at), (SELECT count(*) FROM ours), (SELECT count(*) FROM chosen),
    (SELECT json_array(accepted_at, seq) FROM looked_at ORDER BY accepted_at DESC, seq DESC LIMIT 1),
    (SELECT json_array(accepted_at, seq) FROM chosen ORDER BY accepted_at DESC, seq DESC LIMIT 1),
    {concerned}"""
# A payload without the text, and without an escape that may be in its spelling, is not read by Python.
_CONCERNED = """(
    SELECT json_group_array(DISTINCT c.event) FROM chosen c CROSS JOIN events e ON e.seq = c.event
    WHERE instr(e.data, :first) OR instr(e.data, :second))"""
_PAYLOADS = "SELECT seq, data FROM events WHERE seq IN (SELECT value FROM json_each(?))"
_EVENTS = """SELECT json_group_array(seq) FROM events
    WHERE seq IN (SELECT value FROM json_each(?)) AND heard >= 0"""
_DELIVERIES = """
    SELECT json_group_array(json_array(d.event, d.seq, d.state, r.name, substr(i.name, 2), d.size))
    FROM deliveries d INDEXED BY deliveries_of_event
    CROSS JOIN names r ON r.number = d.registration
    CROSS JOIN names i ON i.number = d.instance
    WHERE d.event IN (SELECT value FROM json_each(?))"""

_place_of = msgspec.json.Decoder(tuple[int, int]).decode
_deliveries_of = msgspec.json.Decoder(list[ErasedDelivery]).decode


def find_concerned(
    connection: sqlite3.Connection, instance: str, value: str, *, after: int, now: int, pending: bool
) -> Concerned:
    named = person(value)
    given = {**_sought(instance, named), "after": after, "newest": now, "rows": ROWS}
    statement = _FIND.format(source=PENDING if pending else ALL, concerned=_CONCERNED)
    looked_at, chosen, last, events = connection.execute(statement, given).fetchone()
    is_end = looked_at < ROWS and chosen == looked_at
    return Concerned(_concerned(connection, events, named), None if is_end else f"{last}-{now}")


def find_unwanted(
    connection: sqlite3.Connection, instance: str, value: str, *, after: tuple[int, int], newest: int
) -> tuple[list[int], tuple[int, int] | None]:
    named, rows = person(value), UNWANTED_ROWS * ROWS
    given = {**_sought(instance, named), "at": after[0], "after": after[1], "newest": newest, "rows": rows}
    row = connection.execute(_FIND_UNWANTED.format(concerned=_CONCERNED), given).fetchone()
    looked_at, ours, chosen, last, last_chosen, events = row
    if chosen < ours:
        last = last_chosen
    elif looked_at < rows:
        last = None
    return _concerned(connection, events, named), None if last is None else _place_of(last)


def _sought(instance: str, named: Person) -> dict[str, Any]:
    first, second = named.spellings
    return {"instance": of_instance(instance), "first": first, "second": second, "bytes": SEARCH_BYTES}


def _concerned(connection: sqlite3.Connection, events: str, named: Person) -> list[int]:
    """Return which of some events concern a person. Together they have no more bytes than a search."""
    return [seq for seq, data in connection.execute(_PAYLOADS, (events,)) if names_person(data, named)]


def find_events(connection: sqlite3.Connection, events: Collection[int]) -> list[int]:
    return numbers_of(connection.execute(_EVENTS, (as_json(events),)).fetchone()[0])


def find_deliveries(connection: sqlite3.Connection, events: Collection[int]) -> list[ErasedDelivery]:
    return _deliveries_of(connection.execute(_DELIVERIES, (as_json(events),)).fetchone()[0])


def remove_events(
    connection: sqlite3.Connection, seqs: Collection[int], events: Collection[int], named: Person
) -> None:
    remove(connection, as_json(seqs), as_json(events), is_pruned=False)
    forget_ids_with(connection, as_json(events), named)
