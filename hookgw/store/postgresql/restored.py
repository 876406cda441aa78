"""A database that was restored into another server, where the numbers of transactions are lower."""

from __future__ import annotations

import structlog
from psycopg import Connection

logger = structlog.get_logger("hookgw.store")

_LOCK = 0x686B7273

_IS_AHEAD = """SELECT coalesce(max(xid), 0) >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    FROM deliveries WHERE state = 'pending'"""
# Before everything that this server will number, in the order that they had.
_RENUMBER = """UPDATE deliveries SET xid = 0, position = ordered.place
    FROM (SELECT seq, row_number() OVER (ORDER BY xid, position) AS place
        FROM deliveries WHERE state = 'pending') ordered
    WHERE deliveries.seq = ordered.seq"""


def renumber_restored(connection: Connection, schema: str, place: str) -> None:
    """Put pending deliveries before all that this server will number, if they come from another one.

    Positions begin with the number of a transaction. A dump carries those of its server, and on a new one
    such deliveries would count as not yet committed, for months perhaps.
    """
    if connection.execute(_IS_AHEAD).fetchone() == (False,):
        return
    with connection.transaction():
        # Nodes that start together do it once.
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, schema))
        count = 0
        if connection.execute(_IS_AHEAD).fetchone() == (True,):
            count = connection.execute(_RENUMBER).rowcount
    if count:
        logger.warning("database was restored, pending deliveries renumbered", database=place, count=count)
