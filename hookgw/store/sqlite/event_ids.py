"""Event ids that outlast their history, so that a second copy of an event is noticed.

The row of an event stays when its deliveries go: without a payload, and with the bytes that it takes,
negative, in the column ``heard``. So one unique index still finds all duplicates, and an append costs nothing
more. The index ``remembered`` has these rows by age.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

import msgspec

from hookgw.store.history import Pruned
from hookgw.store.holdings import Oldest
from hookgw.store.log import BLANK
from hookgw.store.persons import Person
from hookgw.store.records import micros
from hookgw.store.searches import LAST
from hookgw.store.sqlite.bulk import as_json, pairs_of
from hookgw.store.sqlite.transaction import Transaction

# The id is in the row and in the unique index, and pages are not full; measured with ids of 10 to 60
# characters.
_BYTES = "90 + 5 * length(id) / 2"
# The form of the ids that hookgw makes (records/events.py). A producer does not know them, so it cannot send
# them again.
_IS_GENERATED = "length(id) = 36 AND substr(id, 1, 4) = 'msg_' AND substr(id, 5) NOT GLOB '*[^0-9a-f]*'"
BELOW = 2**62
"""The number of an event of which only the id is left is lower by this."""
_WITHOUT_DELIVERIES = """seq IN (SELECT value FROM json_each(:events))
    AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = events.seq)"""
# As settle.py does with the rest of a delivery.
_BLANK = f"""UPDATE events SET data = zeroblob(length(data)),
    sender = CAST(zeroblob(length(CAST(sender AS BLOB))) AS TEXT) WHERE {_WITHOUT_DELIVERIES}"""  # noqa: S608
_REMOVE_GENERATED = f"DELETE FROM events WHERE {_WITHOUT_DELIVERIES} AND {_IS_GENERATED}"  # noqa: S608
# Without deliveries they are of the log alone. Its index has their entries; see log.py.
_ENTRIES = f"""(run, instance, seq) IN (
    SELECT (SELECT min(run) FROM log_runs WHERE run >= events.seq), instance, seq FROM events
    WHERE {_WITHOUT_DELIVERIES})"""  # noqa: S608
_BLANK_ENTRIES = f"""UPDATE log SET chat = iif(chat < {BLANK}, chat, {BLANK}),
    sender = iif(sender < {BLANK}, sender, {BLANK}), message = iif(message < {BLANK}, message, {BLANK})
    WHERE {_ENTRIES}"""  # noqa: S608
_REMOVE_ENTRIES = f"DELETE FROM log WHERE {_ENTRIES}"  # noqa: S608
_BEGIN_BEHIND = f"""INSERT INTO log_begins SELECT instance, max(accepted_at) + 1 FROM events
    WHERE {_WITHOUT_DELIVERIES} AND length(data) GROUP BY instance
    ON CONFLICT (instance) DO UPDATE SET at = max(at, excluded.at)"""  # noqa: S608
# SQLite does not join the pages of rows that shrink. So these rows get numbers below all others, where they
# lie close together, and the pages of the payloads become free.
_KEEP_IDS = f"""UPDATE events SET seq = seq - {BELOW}, data = x'', sender = NULL, server_url = NULL,
    heard = -({_BYTES}) WHERE {_WITHOUT_DELIVERIES}"""  # noqa: S608
_KEPT = f"""SELECT coalesce(-sum(heard), 0) FROM events
    WHERE seq IN (SELECT value - {BELOW} FROM json_each(:events))"""  # noqa: S608
_OLDEST = """SELECT json_group_array(seq), count(*), coalesce(-sum(heard), 0), max(accepted_at) FROM (
    SELECT seq, heard, accepted_at FROM events INDEXED BY remembered
    WHERE heard < 0 AND accepted_at >= ? AND accepted_at < ? ORDER BY accepted_at, heard, seq LIMIT ?)"""
# On a reading connection, as in history.py. The size of an id is negative in its row.
_OLDEST_OF = """SELECT json_group_array(json_array(accepted_at, seq, instance, -heard)) FROM (
    SELECT accepted_at, seq, instance, heard FROM events INDEXED BY remembered
    WHERE heard < 0 AND (accepted_at, heard, seq) > (:at, :heard, :after)
        AND instance IN (SELECT value FROM json_each(:holders))
    ORDER BY accepted_at, heard, seq LIMIT :rows)"""
_FORGET_FOUND = "DELETE FROM events WHERE seq IN (SELECT value FROM json_each(?)) AND heard < 0"
_BY_INSTANCE = """SELECT json_group_array(json_array(instance, size)) FROM (
    SELECT instance, -sum(heard) AS size FROM events INDEXED BY remembered WHERE heard < 0
    GROUP BY instance)"""
_FORGET = "DELETE FROM events WHERE seq IN (SELECT value FROM json_each(?))"
_FORGET_WITH = f"""DELETE FROM events WHERE seq IN (SELECT value - {BELOW} FROM json_each(:events))
    AND instr(lower(id), :text)"""  # noqa: S608
_REMEMBERED = "SELECT coalesce(-sum(heard), 0) FROM events INDEXED BY remembered WHERE heard < 0"
_oldest_of = msgspec.json.Decoder(list[Oldest]).decode


def keep_ids(connection: sqlite3.Connection, events: str, *, is_pruned: bool = True) -> int:
    """Reduce events that have no delivery any more to their ids; return the bytes that these take.

    The log of their instances begins behind what is pruned. What was erased is no gap in it.
    """
    if is_pruned:
        connection.execute(_BEGIN_BEHIND, {"events": events})
    connection.execute(_BLANK_ENTRIES, {"events": events})
    connection.execute(_REMOVE_ENTRIES, {"events": events})
    connection.execute(_BLANK, {"events": events})
    connection.execute(_REMOVE_GENERATED, {"events": events})
    connection.execute(_KEEP_IDS, {"events": events})
    return int(connection.execute(_KEPT, {"events": events}).fetchone()[0])


def forget_ids(transaction: Transaction, before: float, after: int, limit: int) -> Pruned:
    end = LAST if math.isinf(before) else micros(before)
    seqs, count, size, last = transaction.connection.execute(_OLDEST, (after, end, limit)).fetchone()
    transaction.connection.execute(_FORGET, (seqs,))
    transaction.count_rows(count)
    return Pruned(size, last if count else after)


def remembered_by_instance(connection: sqlite3.Connection) -> dict[int, int]:
    return dict(pairs_of(connection.execute(_BY_INSTANCE).fetchone()[0]))


def oldest_ids(
    connection: sqlite3.Connection, holders: Sequence[int], after: Oldest, limit: int
) -> list[Oldest]:
    given = {"at": after.at, "heard": -after.size, "after": after.seq, "rows": limit}
    found = connection.execute(_OLDEST_OF, {**given, "holders": as_json(holders)}).fetchone()
    return _oldest_of(found[0])


def forget_found(transaction: Transaction, found: Sequence[Oldest]) -> int:
    seqs = as_json([one.seq for one in found])
    transaction.count_rows(transaction.connection.execute(_FORGET_FOUND, (seqs,)).rowcount)
    return sum(one.size for one in found)


def forget_ids_with(connection: sqlite3.Connection, events: str, person: Person) -> None:
    """Remove those ids of events, of which only the id is left, that name a person."""
    if person.words:
        connection.execute(_FORGET_WITH, {"events": events, "text": person.words})


def remembered_bytes(connection: sqlite3.Connection) -> int:
    # The walk through the index takes 0.1 s for a million ids, on a reading connection.
    return int(connection.execute(_REMEMBERED).fetchone()[0])
