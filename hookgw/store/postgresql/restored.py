"""A database that was restored, into another server or in place.

Another server numbers its transactions from lower numbers on: then what is pending is renumbered.

A promotion, and a restore to a point in time, leave the tables where they were. What was committed last may
be missing, and its numbers are given again. So the log gets another generation. It goes on with the former
one up to the newest transaction in the tables, because new ones get higher numbers.
"""

from __future__ import annotations

import secrets

import structlog
from psycopg import Connection

from hookgw.store.generations import Generations, read_generations
from hookgw.store.postgresql.identity import find
from hookgw.store.postgresql.locks import lock
from hookgw.store.postgresql.lookups import one_row

logger = structlog.get_logger("hookgw.store")

_LOCK = 0x686B7273

_NEWEST = """SELECT greatest((SELECT max(xid) FROM deliveries WHERE state = 'pending'),
    (SELECT max(xid) FROM events WHERE heard >= 0), (SELECT xid FROM log_state))"""
_IS_AHEAD = f"SELECT ({_NEWEST}) >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
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
# Where the tables are, and then the server's system and timeline.
_HOME = """SELECT home, concat_ws('.', (SELECT oid FROM pg_database WHERE datname = current_database()),
    'log_state'::regclass::oid) FROM log_state"""


def renumber_restored(connection: Connection, place: str) -> None:
    """Put pending deliveries and the log before all that this server will number, if they come from another.

    A log that was restored gets another generation.

    Positions begin with the number of a transaction. A dump carries those of its server, and on a new one
    such deliveries would count as not yet committed, for months perhaps.
    """
    found = find(connection)
    home, tables = one_row(connection, _HOME)
    here = f"{tables} {found.system}.{found.timeline}"
    if home == here and one_row(connection, _IS_AHEAD) != (True,):
        return
    with connection.transaction():
        # Nodes that start together do it once.
        lock(connection, _LOCK)
        count = 0
        is_ahead = one_row(connection, _IS_AHEAD) == (True,)
        if is_ahead:
            count = connection.execute(_RENUMBER).rowcount
            # A transaction without a number of its own, such as that of a copy, has 0: they all come before.
            connection.execute(_RENUMBER_LOG)
            connection.execute("TRUNCATE log")
            connection.execute("UPDATE log_state SET xid = -9223372036854775807, seq = -1")
        home, _ = one_row(connection, _HOME)
        generations, name = read_generations(connection), secrets.token_hex(6)
        if is_ahead or home.split(" ")[0] != tables:
            # Cursors of the log begin with its generation: those of before are refused.
            generations = Generations(name, {})
        elif home != here:
            generations = generations.followed_by(name, one_row(connection, _NEWEST)[0])
        connection.execute("UPDATE log_state SET home = %s, generation = %s", (here, str(generations)))
    if count:
        logger.warning("database was restored, pending deliveries renumbered", database=place, count=count)
