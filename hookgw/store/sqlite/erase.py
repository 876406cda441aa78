"""Erasing what concerns a person: events found by their payloads, then removed with all that belongs to them.

The payloads are searched by SQLite, in the thread of a reading connection, in parts of bounded size.

What is removed is overwritten, see :func:`~hookgw.store.sqlite.settle.remove`. The write-ahead log still has
earlier images of those pages until :class:`~hookgw.store.sqlite.checkpoints.Checkpoints` has emptied it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import msgspec

from hookgw.store.persons import person
from hookgw.store.records import Concerned, Erased
from hookgw.store.sqlite.event_ids import forget_ids_with
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.settle import remove, weight
from hookgw.store.sqlite.transaction import Transaction

# A step looks at this many deliveries at most, and bytes of payloads, or at one payload.
ROWS = 500
SEARCH_BYTES = 8 * 2**20

_SOURCES = {
    # Written out, because SQLite uses the partial index only if its condition is in the statement.
    True: "deliveries INDEXED BY undelivered WHERE state = 'pending' AND state <> 'delivered' AND",
    False: "deliveries INDEXED BY history WHERE",
}
# A payload without the text, and without an escape that may be in its spelling, is not parsed. SQLite calls a
# payload invalid that is nested too deep for it: then the text itself decides.
_FIND = """
WITH looked_at AS MATERIALIZED (
    SELECT seq, event, size FROM {source}
        instance = (SELECT number FROM names WHERE name = :instance) AND seq > :after AND seq <= :newest
    ORDER BY seq LIMIT :rows
),
summed AS (SELECT seq, event, sum(size) OVER (ORDER BY seq) - size AS before_it FROM looked_at),
chosen AS MATERIALIZED (SELECT seq, event FROM summed WHERE before_it < :bytes)
SELECT (SELECT count(*) FROM looked_at), (SELECT count(*) FROM chosen), (SELECT max(seq) FROM chosen), (
    SELECT json_group_array(DISTINCT c.event) FROM chosen c CROSS JOIN events e ON e.seq = c.event
    WHERE (instr(e.data, CAST(:part AS BLOB)) OR instr(e.data, CAST(:escape AS BLOB)))
        AND CASE WHEN json_valid(CAST(e.data AS TEXT)) THEN EXISTS (
            SELECT 1 FROM json_tree(CAST(e.data AS TEXT)) t
            WHERE t.key = :value OR t.key GLOB :device
                OR (t.type = 'text' AND (t.atom = :value OR t.atom GLOB :device)))
        ELSE instr(e.data, CAST(:part AS BLOB)) END)"""
_DELIVERIES = """SELECT json_group_array(json_array(event, seq, state)) FROM deliveries
    INDEXED BY deliveries_of_event WHERE event IN (SELECT value FROM json_each(?))"""

_numbers_of = msgspec.json.Decoder(list[int]).decode
_deliveries_of = msgspec.json.Decoder(list[tuple[int, int, str]]).decode


def find_concerned(
    connection: sqlite3.Connection, instance: str, value: str, *, after: int, newest: int, pending: bool
) -> Concerned:
    """Find the next events whose payload has a text as a value, or as the name of a member, at any depth.

    Args:
        connection: a reading one.
        instance: the instance's name.
        value: the text. With an identifier of WhatsApp, those of its devices are found, too.
        after, newest: the range of the numbers of their deliveries, the first excluded.
        pending: search pending deliveries alone.
    """
    sought = person(value)
    given = {
        "instance": of_instance(instance),
        "value": sought.value,
        "device": sought.device and "*".join(sought.device),
        "part": sought.part,
        "escape": sought.escape,
        "after": after,
        "newest": newest,
        "rows": ROWS,
        "bytes": SEARCH_BYTES,
    }
    row = connection.execute(_FIND.format(source=_SOURCES[pending]), given).fetchone()
    looked_at, chosen, last, events = row
    is_end = looked_at < ROWS and chosen == looked_at
    return Concerned(_numbers_of(events), None if is_end else f"{last}-{newest}")


def erase(transaction: Transaction, events: Collection[int], value: str, spared: Collection[int]) -> Erased:
    """Remove events with their deliveries, attempts and bodies; pending deliveries are not pending any more.

    Ids stay, so that a second copy of an event is noticed; but ids that contain a part of the text go.

    Args:
        transaction: counts what is not pending any more.
        events: their numbers.
        value: as for :func:`find_concerned`.
        spared: numbers of deliveries whose events stay, because an attempt is in flight.
    """
    connection = transaction.connection
    rows = _deliveries_of(connection.execute(_DELIVERIES, (_json(events),)).fetchone()[0])
    left = {event for event, seq, _ in rows if seq in set(spared)}
    gone = [(event, seq, state) for event, seq, state in rows if event not in left]
    if not gone:
        return Erased(events=0, deliveries=0, left=len(left))
    transaction.count_finished(weight(connection, [seq for _, seq, state in gone if state == "pending"]))
    removed = {event for event, _, _ in gone}
    remove(connection, _json([seq for _, seq, _ in gone]), _json(removed))
    forget_ids_with(connection, _json(removed), person(value))
    transaction.count_rows(len(gone) + len(removed))
    return Erased(events=len(removed), deliveries=len(gone), left=len(left))


def _json(values: Collection[int]) -> str:
    return msgspec.json.encode(list(values)).decode()
