"""How the nodes of a fleet tell each other what they change of what is pending.

Each node writes what it has changed since its last row, net, as one row of its own: nodes never wait for each
other, as they would for counters that they share. The numbers of a node's rows follow one another, and are
committed in their order, so a reader that knows the last number misses none.

The table is not logged. After a crash of the server it is empty: a reader finds a gap, and counts the whole
outbox again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
from psycopg import Connection

from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.store.commits.changes import pending_change
from hookgw.store.fleet import BacklogNews
from hookgw.store.postgresql.database import DatabaseSession, Reader, one_moment
from hookgw.store.postgresql.outbox import pending_counts
from hookgw.store.postgresql.server import Server
from hookgw.store.records import PendingChange

PATIENCE = 2.0
"""The longest time, in seconds, that an exchange may take."""

KEPT = 60
"""Seconds for which a row is kept. A node that is behind by more counts the whole outbox again."""

# The same row may be written again, if the answer to it was lost.
_TELL = "INSERT INTO backlog_changes VALUES (%s, %s, clock_timestamp(), %s) ON CONFLICT DO NOTHING"
_HEAR = """SELECT told.generation, told.number, told.changes
    FROM unnest(%s::bigint[], %s::bigint[]) AS known (generation, number)
    JOIN backlog_changes told ON told.generation = known.generation AND told.number > known.number
    ORDER BY told.generation, told.number"""
_LAST = "SELECT generation, max(number) FROM backlog_changes GROUP BY generation"
_PRUNE = f"DELETE FROM backlog_changes WHERE at < clock_timestamp() - interval '{KEPT} s'"  # noqa: S608

_Row = list[tuple[str, str, int, int]]
_decode = msgspec.msgpack.Decoder(_Row).decode


class PostgresqlBacklogs:
    """See :class:`hookgw.store.fleet.SharedBacklog`. The caller closes the session, and watches its calls."""

    def __init__(self, server: Server, background: Reader, threads: Threads = SYSTEM_THREADS) -> None:
        # For the exchange alone: it waits for no long read, and no heartbeat waits for it.
        self.session = DatabaseSession(server, PATIENCE)
        self.reader = Reader(self.session, threads=threads)
        self._background = background

    async def exchange(self, told: BacklogNews | None, known: Mapping[int, int]) -> list[BacklogNews]:
        return await self.reader.run(partial(_exchange, told=told, known=known))

    async def count(self) -> tuple[PendingChange, dict[int, int]]:
        return await self._background.run(_count)


def _exchange(
    connection: Connection, told: BacklogNews | None, known: Mapping[int, int]
) -> list[BacklogNews]:
    if told is not None:
        row: _Row = [(*holder, *amount) for holder, amount in (told.changes or {}).items()]
        changes = None if told.changes is None else msgspec.msgpack.encode(row)
        connection.execute(_TELL, (told.generation, told.number, changes))
    rows = connection.execute(_HEAR, (list(known), list(known.values()))).fetchall()
    return [
        BacklogNews(of, number, None if row is None else pending_change(_decode(row)))
        for of, number, row in rows
    ]


def _count(connection: Connection) -> tuple[PendingChange, dict[int, int]]:
    connection.execute(_PRUNE)
    with one_moment(connection):
        last: dict[int, int] = dict(connection.execute(_LAST).fetchall())
        return pending_counts(connection), last
