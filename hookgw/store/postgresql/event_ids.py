"""Event ids that outlast their history, so that a second copy of an event is noticed.

How they are kept: :mod:`hookgw.store.sqlite.event_ids`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from psycopg import Connection

from hookgw.store.history import Pruned
from hookgw.store.holdings import Oldest
from hookgw.store.persons import Person
from hookgw.store.postgresql.lookups import count_rows, one_row
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import micros
from hookgw.store.searches import LAST

# The row, and its entries in three indexes, two of which have the id or what is as large.
_BYTES = "190 + 2 * octet_length(id)"
# The form of the ids that hookgw makes (records/events.py). A producer does not know them, so it cannot send
# them again. Not of the column itself: the server would go through all ids that begin so.
_IS_GENERATED = "id || '' ~ '^msg_[0-9a-f]{32}$'"
# Before the statements that look whether a delivery is left: two nodes that remove the last two deliveries of
# an event would both find the other one, and nobody would remove the payload.
_LOCK = "SELECT FROM events WHERE seq = ANY(%s) ORDER BY seq FOR UPDATE"
_WITHOUT_DELIVERIES = """seq = ANY(%(events)s)
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.event = events.seq)"""
# A run that is being written has the entries of events that go now. Its writer does not wait for this.
_LOCK_LOG = "SELECT FROM log_state FOR SHARE"
# In one order on all nodes, as always.
_BEGIN_BEHIND = f"""INSERT INTO log_begins SELECT instance, max(accepted_at) + 1 FROM events
    WHERE {_WITHOUT_DELIVERIES} AND octet_length(data) > 0 GROUP BY instance ORDER BY instance
    ON CONFLICT (instance) DO UPDATE SET at = greatest(log_begins.at, excluded.at)"""  # noqa: S608
_REMOVE_ENTRIES = f"""DELETE FROM log WHERE (instance, xid, seq) IN (
    SELECT instance, xid, seq FROM events WHERE {_WITHOUT_DELIVERIES})"""  # noqa: S608
_REMOVE_GENERATED = f"DELETE FROM events WHERE {_WITHOUT_DELIVERIES} AND {_IS_GENERATED}"  # noqa: S608
_KEEP_IDS = f"""UPDATE events SET data = '', sender = NULL, server_url = NULL, heard = -({_BYTES})
    WHERE {_WITHOUT_DELIVERIES}"""  # noqa: S608
# From where the former step ended: see history.py.
_OLDEST = """SELECT seq, accepted_at, -heard FROM events
    WHERE heard < 0 AND accepted_at >= %s AND accepted_at < %s
    ORDER BY accepted_at, heard, seq LIMIT %s FOR UPDATE SKIP LOCKED"""
# On a reading session, as in history.py. The size of an id is negative in its row.
_OLDEST_OF = """SELECT accepted_at, seq, instance, -heard FROM events
    WHERE heard < 0 AND (accepted_at, heard, seq) > (%s, %s, %s) AND instance = ANY(%s)
    ORDER BY accepted_at, heard, seq LIMIT %s"""
_FORGET_FOUND = "DELETE FROM events WHERE seq = ANY(%s) AND heard < 0"
_BY_INSTANCE = "SELECT instance, -sum(heard)::bigint FROM events WHERE heard < 0 GROUP BY instance"
_FORGET = "DELETE FROM events WHERE seq = ANY(%s)"
_FORGET_WITH = "DELETE FROM events WHERE seq = ANY(%s) AND heard < 0 AND strpos(lower(id), %s) > 0"
_REMEMBERED = "SELECT coalesce(-sum(heard), 0)::bigint FROM events WHERE heard < 0"


def keep_ids(connection: Connection, events: Collection[int], *, is_pruned: bool = True) -> None:
    """See :func:`hookgw.store.sqlite.event_ids.keep_ids`."""
    numbers = list(events)
    connection.execute(_LOCK, (numbers,))
    connection.execute(_LOCK_LOG)
    if is_pruned:
        connection.execute(_BEGIN_BEHIND, {"events": numbers})
    connection.execute(_REMOVE_ENTRIES, {"events": numbers})
    connection.execute(_REMOVE_GENERATED, {"events": numbers})
    connection.execute(_KEEP_IDS, {"events": numbers})


def forget_ids(transaction: Transaction, before: float, after: int, limit: int) -> Pruned:
    end = LAST if math.isinf(before) else micros(before)
    rows = transaction.connection.execute(_OLDEST, (after, end, limit)).fetchall()
    if not rows:
        return Pruned(0, after)
    transaction.connection.execute(_FORGET, ([seq for seq, _, _ in rows],))
    transaction.count_rows(len(rows))
    return Pruned(sum(size for _, _, size in rows), rows[-1][1])


def remembered_by_instance(connection: Connection) -> dict[int, int]:
    return dict(connection.execute(_BY_INSTANCE).fetchall())


def oldest_ids(connection: Connection, holders: Sequence[int], after: Oldest, limit: int) -> list[Oldest]:
    given = (after.at, -after.size, after.seq, list(holders), limit)
    return [Oldest(*row) for row in connection.execute(_OLDEST_OF, given)]


def forget_found(transaction: Transaction, found: Sequence[Oldest]) -> int:
    given = ([one.seq for one in found],)
    transaction.count_rows(count_rows(transaction.connection, _FORGET_FOUND, given))
    return sum(one.size for one in found)


def forget_ids_with(connection: Connection, events: Collection[int], person: Person) -> None:
    """Remove those ids of events, of which only the id is left, that name a person."""
    if person.words:
        connection.execute(_FORGET_WITH, (list(events), person.words))


def remembered_bytes(connection: Connection) -> int:
    return int(one_row(connection, _REMEMBERED)[0])
