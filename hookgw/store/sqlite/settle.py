"""Settling: the outcomes of deliveries go into the outbox. The caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hookgw.records.deliveries import DELIVERED_OUTCOME, DELIVERED_STATE, Attempt, DeliveryState, Settlement
from hookgw.store.commits.changes import pending_change, weigh
from hookgw.store.figure_news import entry_of
from hookgw.store.history_rows import attempt_row, heads_of, settled_rows
from hookgw.store.records import PendingChange, micros, seconds, storable
from hookgw.store.sqlite.bulk import Bulk, as_json
from hookgw.store.sqlite.event_ids import keep_ids
from hookgw.store.sqlite.name_ids import NameIds, of_instance, of_url
from hookgw.store.sqlite.transaction import Transaction

# One JSON array for any number of rows: the statement stays prepared, and SQLite's limit on parameters does
# not matter. NOT INDEXED holds every version of SQLite to the search by number: with ``state = 'pending'``
# the partial index of the outbox would do as well, and be walked from end to end.
_STILL_PENDING = """SELECT json_group_array(json_array(seq, registration, instance, size, queued_at))
    FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'"""
# Without an attempt (parked, expired) the count of attempts stays.
_SETTLE = Bulk(
    """UPDATE deliveries SET state = column2, attempts = coalesce(column3, attempts),
    failures = column4, next_at = column5, finished_at = column6, reason = column7 FROM""",
    7,
    "WHERE deliveries.seq = column1",
)
# An attempt that is recorded already stays as it was first written.
_ADD_ATTEMPTS = Bulk(
    """INSERT INTO attempts (delivery, number, at, duration, outcome, status, error, answer, url, heads)
    SELECT * FROM""",
    10,
    "WHERE column1 <> 0 ON CONFLICT DO NOTHING",
)
# The same for what the first attempt delivered: nearly all of a commit. Most columns would say the same in
# each of these rows, and each column of a row costs a third of a microsecond.
_DELIVERED = """UPDATE deliveries NOT INDEXED SET state = 'delivered', attempts = 1, failures = 0,
    next_at = 0, finished_at = column2, reason = NULL FROM"""
_DELIVER = Bulk(_DELIVERED, 2, "WHERE deliveries.seq = column1")
# Only what is as it was appended: a replay changes the time of queueing, and with it the position or the
# attempts.
_DELIVER_KNOWN = Bulk(
    _DELIVERED,
    2,
    "WHERE deliveries.seq = column1 AND state = 'pending' AND attempts = 0 AND position = deliveries.seq",
)
_ADD_DELIVERING = Bulk(
    """INSERT INTO attempts (delivery, number, at, duration, outcome, status, answer, url)
    SELECT column1, 1, column2, column3, 'delivered', column4, column5, column6 FROM""",
    6,
    "WHERE column1 <> 0 ON CONFLICT DO NOTHING",
)
_STORE_BODIES = Bulk("REPLACE INTO bodies (seq, body) SELECT * FROM", 2, "WHERE column1 <> 0")
_WEIGHT = """
SELECT json_group_array(json_array(r.name, substr(i.name, 2), total.count, total.bytes))
FROM (
    SELECT registration, instance, count(*) AS count, sum(size) AS bytes FROM deliveries NOT INDEXED
    WHERE seq IN (SELECT value FROM json_each(?)) GROUP BY registration, instance
) total
CROSS JOIN names r ON r.number = total.registration
CROSS JOIN names i ON i.number = total.instance
"""
_EVENTS_OF = """SELECT json_group_array(DISTINCT event) FROM deliveries
    WHERE seq IN (SELECT value FROM json_each(?))"""
# SQLite writes zeros over a row that goes. But when rows go, it moves those beside them to other pages, and
# does not overwrite what it leaves there. So rows are blank before the first of them moves: as long as
# before, so that they change where they are. The events follow in event_ids.py.
_REMOVE = (
    "UPDATE bodies SET body = zeroblob(length(body)) WHERE seq IN (SELECT value FROM json_each(:seqs))",
    """UPDATE attempts SET error = CAST(zeroblob(length(CAST(error AS BLOB))) AS TEXT),
        answer = CAST(zeroblob(length(CAST(answer AS BLOB))) AS TEXT),
        heads = CAST(zeroblob(length(CAST(heads AS BLOB))) AS TEXT)
    WHERE delivery IN (SELECT value FROM json_each(:seqs))""",
    "DELETE FROM attempts WHERE delivery IN (SELECT value FROM json_each(:seqs))",
    "DELETE FROM bodies WHERE seq IN (SELECT value FROM json_each(:seqs))",
    "DELETE FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs))",
)
# Through the index of the waiting deliveries, a few for each lane: the others are not looked at.
_MAKE_DUE = """UPDATE deliveries INDEXED BY waiting SET next_at = 0
    WHERE state = 'pending' AND next_at > 0 AND registration = (SELECT number FROM names WHERE name = ?)"""

_rows_of = msgspec.json.Decoder(list[tuple[int, int, int, int, int]]).decode
_weights_of = msgspec.json.Decoder(list[tuple[str, str, int, int]]).decode


class NotAsKnown(Exception):
    """Deliveries are not as their settlements know them. What was written must be rolled back."""


def settle(
    transaction: Transaction,
    settlements: Sequence[Settlement],
    *,
    keep_history: bool = True,
    by_count: bool = False,
) -> PendingChange:
    """Write outcomes of deliveries, in order; return what is no longer pending.

    A settlement of a delivery that is not pending is ignored. A delivery may have several.

    Args:
        keep_history: whether finished deliveries and attempts are kept.
        by_count: if the settlements bring what would be read of their deliveries, write without reading it,
            and see by the count of changed rows whether all were pending.

    Raises:
        NotAsKnown: with ``by_count``, not all were pending, or not once only.
    """
    if not settlements:
        return {}
    connection, names = transaction.connection, transaction.names
    if by_count and keep_history and (counted := _settle_by_count(transaction, settlements)) is not None:
        return counted
    asked = as_json({settlement.seq for settlement in settlements})
    rows = _rows_of(connection.execute(_STILL_PENDING, (asked,)).fetchone()[0])
    pending = {row[0]: row for row in rows}
    finished = []
    applied = []
    entries = []
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    for settlement in settlements:
        row = pending.get(settlement.seq)
        if row is not None:
            seq, registration, instance, size, queued_at = row
            applied.append(settlement)
            entries.append(entry_of(settlement, registration, instance, seconds(queued_at)))
            if settlement.state is not DeliveryState.PENDING:
                # From here on the delivery is final: a second settlement in this commit must not change it.
                del pending[seq]
                finished.append(seq)
                former, former_bytes = counts.get((registration, instance), (0, 0))
                counts[registration, instance] = former + 1, former_bytes + size
    transaction.count_entries(settlements[-1].at, entries)
    gone = _named(names, counts)
    if not keep_history and finished:
        seqs = as_json(finished)
        remove(connection, seqs, connection.execute(_EVENTS_OF, (seqs,)).fetchone()[0])
        # Their rows are gone, and a body or an attempt without its delivery would stay for ever.
        applied = [settlement for settlement in applied if settlement.seq in pending]
    at_once: list[Settlement] = []
    others: list[Settlement] = []
    for settlement in applied:
        (at_once if _is_delivered_at_once(settlement) else others).append(settlement)
    _SETTLE.run(connection, settled_rows(others, storable))
    _DELIVER.run(connection, [(s.seq, micros(s.at)) for s in at_once])
    bodies = {s.seq: s.body for s in others if s.body is not None}
    _STORE_BODIES.run(connection, list(bodies.items()))
    if keep_history:
        made = [(s.seq, s.attempt) for s in others if s.attempt]
        urls = _numbered_urls(names, made)
        attempts = [
            (seq, one.number, *attempt_row(one, storable), urls.get(one.url), heads_of(one, storable))
            for seq, one in made
        ]
        _ADD_ATTEMPTS.run(connection, attempts)
        _add_delivering(transaction, at_once)
    return gone


def _settle_by_count(transaction: Transaction, settlements: Sequence[Settlement]) -> PendingChange | None:
    """Settle without reading the deliveries; ``None``, and nothing is done, if that is not possible."""
    names, since = transaction.names, transaction.names.newest_at_rename
    known = []
    for settlement in settlements:
        if settlement.known is None or settlement.seq <= since or not _is_delivered_at_once(settlement):
            return None
        known.append(settlement.known)
    gone = weigh([(one.registration, one.instance, one.size) for one in known])
    instances = {name: of_instance(name) for _, name in gone}
    ids = names.ids([*instances.values(), *[registration for registration, _ in gone]])
    rows = [(settlement.seq, micros(settlement.at)) for settlement in settlements]
    if _DELIVER_KNOWN.run(transaction.connection, rows) != len(rows):
        raise NotAsKnown
    entries = [
        entry_of(settlement, ids[one.registration], ids[instances[one.instance]], one.queued_at)
        for settlement, one in zip(settlements, known, strict=True)
    ]
    transaction.count_entries(settlements[-1].at, entries)
    _add_delivering(transaction, settlements)
    return gone


def _numbered_urls(names: NameIds, made: Iterable[tuple[int, Attempt]]) -> Mapping[str | None, int]:
    # Few in a commit: a lane sends to one URL, or with ``byEvents`` to one for each kind.
    stored = {url: of_url(url) for url in {one.url for _, one in made} if url}
    ids = names.ids(stored.values())
    return {url: ids[name] for url, name in stored.items()}


def _add_delivering(transaction: Transaction, at_once: Iterable[Settlement]) -> None:
    made = [(s.seq, s.attempt) for s in at_once if s.attempt]
    urls = _numbered_urls(transaction.names, made)
    rows = [
        (seq, micros(one.at), micros(one.duration), one.status, storable(one.answer), urls.get(one.url))
        for seq, one in made
    ]
    _ADD_DELIVERING.run(transaction.connection, rows)


def _named(names: NameIds, counts: Mapping[tuple[int, int], tuple[int, int]]) -> PendingChange:
    if not counts:
        return {}
    found = names.names({number for pair in counts for number in pair})
    # The names of instances have a prefix; see name_ids.py.
    return {
        (found[registration], found[instance][1:]): count
        for (registration, instance), count in counts.items()
    }


def _is_delivered_at_once(settlement: Settlement) -> bool:
    """Return whether the first attempt delivered, and the row says no more than that."""
    attempt = settlement.attempt
    return (
        attempt is not None
        and attempt.number == 1
        and settlement.state is DELIVERED_STATE
        and attempt.outcome is DELIVERED_OUTCOME
        and attempt.error is None
        and settlement.body is None
        and not (settlement.failures or settlement.next_at or settlement.reason)
    )


def weight(connection: sqlite3.Connection, seqs: Collection[int]) -> PendingChange:
    if not seqs:
        return {}
    return pending_change(_weights_of(connection.execute(_WEIGHT, (as_json(seqs),)).fetchone()[0]))


def remove(connection: sqlite3.Connection, seqs: str, events: str, *, is_pruned: bool = True) -> int:
    """Remove deliveries, and of those of their events that no other delivery needs, all but the ids.

    Their bytes are overwritten. The numbers come as JSON arrays. ``is_pruned`` as in :func:`keep_ids`.

    Returns:
        The bytes that the ids take.
    """
    for statement in _REMOVE:
        connection.execute(statement, {"seqs": seqs})
    return keep_ids(connection, events, is_pruned=is_pruned)


def make_due(connection: sqlite3.Connection, registration: str) -> int:
    return connection.execute(_MAKE_DUE, (registration,)).rowcount
