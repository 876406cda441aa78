"""Which server the connections lead to, and what follows if it is another one.

A name or a proxy may lead to a restored or replicated server while nodes run: the numbers of its transactions
begin elsewhere, its sequences may be behind, and it may lack what was stored last. So each new connection
compares what it finds with what was seen last. If it is another server, or an earlier state of the same one,
nothing is read or written any more until :func:`adopt` has prepared it as a start would. This node then is no
member of the fleet there: it stops its lanes, joins again, and reads everything anew.
"""

from __future__ import annotations

from typing import NamedTuple

import psycopg
from psycopg import Connection

_XID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_SYSTEM = "SELECT system_identifier FROM pg_control_system()"


class Found(NamedTuple):
    """What a connection leads to.

    Attributes:
        system: the number that a server gets when it is made; 0 if it may not be asked.
        next_xid: every transaction that has ended is before this one.
    """

    system: int
    next_xid: int


class Switched(psycopg.OperationalError):
    """The connection leads to another server, or to an earlier state of it."""


class Identity:
    """The server as it was seen last. Used by all connections of a process, in several threads.

    Attributes:
        switches: how often another server was adopted.
        is_switched: whether one was found that is not adopted yet.
    """

    def __init__(self) -> None:
        self.switches = 0
        self.is_switched = False
        self._system: int | None = None
        self._last_xid = 0

    def committed(self, xid: int) -> None:
        """Note a transaction of this node that is on disk: the server cannot be at an earlier one."""
        self._last_xid = max(self._last_xid, xid)

    def check(self, connection: Connection) -> None:
        """Compare a new connection with what was seen last.

        Raises:
            Switched: it leads elsewhere, or an earlier one did, and that is not adopted yet.
        """
        last_xid = self._last_xid  # first: another thread may commit before the comparison
        found = find(connection)
        if self._system is None:
            self._system = found.system
        # A server that crashed gives numbers of lost transactions again, but none of one that was committed.
        if found.system != self._system or found.next_xid <= last_xid:
            self.is_switched = True
        if self.is_switched:
            raise Switched(
                "the connection leads to another server, or to an earlier state of the same one; hookgw goes "
                "on when it has checked it"
            )

    def adopt(self, found: Found) -> None:
        """Take another server for the right one from now on."""
        self._system, self._last_xid = found.system, 0
        self.switches += 1
        self.is_switched = False


def find(connection: Connection) -> Found:
    row = connection.execute(_XID).fetchone()
    try:
        system = connection.execute(_SYSTEM).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction):
        system = None
    assert row is not None  # noqa: S101
    return Found(system[0] if system else 0, row[0])
