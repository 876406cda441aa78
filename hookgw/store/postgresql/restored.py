"""A database that was restored into another server, where the numbers of transactions are lower."""

from __future__ import annotations

import structlog
from psycopg import Connection

logger = structlog.get_logger("hookgw.store")

_LOCK = 0x686B7273

_IS_AHEAD = """SELECT greatest((SELECT max(xid) FROM deliveries WHERE state = 'pending'),
        (SELECT max(xid) FROM events WHERE heard >= 0), (SELECT xid FROM log_state))
    >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint"""
# Before everything that this server will number, in the order that they had.
_RENUMBER = """UPDATE deliveries SET xid = 0, position = ordered.place
    FROM (SELECT seq, row_number() OVER (ORDER BY xid, position) AS place
        FROM deliveries WHERE state = 'pending') ordered
    WHERE deliveries.seq = ordered.seq"""
# The same with the log. Events keep their numbers, so it is the transactions that get other ones.
_RENUMBER_LOG = """UPDATE events SET xid = ordered.place
    FROM (SELECT seq, dense_rank() OVER (ORDER BY xid)
            - (SELECT count(DISTINCT xid) FROM events WHERE heard >= 0) AS place
        FROM events WHERE heard >= 0) ordered
    WHERE events.seq = ordered.seq AND events.xid <> ordered.place"""
_HOME = """(SELECT concat_ws('.', (SELECT oid FROM pg_database WHERE datname = current_database()),
    'log_state'::regclass::oid))"""
_IS_ELSEWHERE = f"SELECT home <> {_HOME} FROM log_state"  # noqa: S608 - a constant
# Cursors of the log begin with its generation: those of before are refused.
_BEGIN_GENERATION = f"""UPDATE log_state SET home = {_HOME},
    generation = left(replace(gen_random_uuid()::text, '-', ''), 12)"""  # noqa: S608 - a constant


def renumber_restored(connection: Connection, schema: str, place: str) -> None:
    """Put pending deliveries and the log before all that this server will number, if they come from another.

    A log that was restored, into whatever server, gets another generation.

    Positions begin with the number of a transaction. A dump carries those of its server, and on a new one
    such deliveries would count as not yet committed, for months perhaps.
    """
    if connection.execute(_IS_AHEAD).fetchone() != (True,) and connection.execute(
        _IS_ELSEWHERE
    ).fetchone() == (False,):
        return
    with connection.transaction():
        # Nodes that start together do it once.
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, schema))
        count = 0
        is_ahead = connection.execute(_IS_AHEAD).fetchone() == (True,)
        if is_ahead:
            count = connection.execute(_RENUMBER).rowcount
            # A transaction without a number of its own, such as that of a copy, has 0: they all come before.
            connection.execute(_RENUMBER_LOG)
            connection.execute("TRUNCATE log")
            connection.execute("UPDATE log_state SET xid = -9223372036854775807, seq = -1")
        if is_ahead or connection.execute(_IS_ELSEWHERE).fetchone() == (True,):
            connection.execute(_BEGIN_GENERATION)
    if count:
        logger.warning("database was restored, pending deliveries renumbered", database=place, count=count)
