"""Which server the connections lead to, and what follows if it is another one.

A name or a proxy may lead to a restored or replicated server while nodes run: the numbers of its transactions
begin elsewhere, its sequences may be behind, and it may lack what was stored last. So each new connection
compares what it finds with what was seen last. If it is another server, or an earlier state of the same one,
nothing is read or written any more until :func:`adopt` has prepared it as a start would. This node then is no
member of the fleet there: it stops its lanes, joins again, and reads everything anew.

A standby that was promoted counts as another server: it may lack the last commits, and gives the numbers of
their transactions and deliveries to others. The numbers alone do not show that once another node has written
there. So a node that remembered a lost delivery would settle the one that has its number now. The timeline
shows it: each promotion begins a new one. Which commits got through, the server does not say.
"""

from __future__ import annotations

from typing import LiteralString, NamedTuple

import psycopg
from psycopg import Connection

_XID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_SYSTEM = "SELECT system_identifier FROM pg_control_system()"
# The control file has it only after the next checkpoint.
_TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
_NOT_ASKED = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)


class Found(NamedTuple):
    """What a connection leads to.

    Attributes:
        system: the number that a server gets when it is made; 0 if it may not be asked.
        timeline: begins anew when a standby is promoted, or a backup restored; 0 if it may not be asked.
        next_xid: every transaction that has ended is before this one.
    """

    system: int
    timeline: int
    next_xid: int


class Switched(psycopg.OperationalError):
    """The connection leads to another server, or to an earlier state of it."""


class Identity:
    """The server as it was seen last. Used by all connections of a process, in several threads.

    Attributes:
        switches: how often another server was adopted.
        is_switched: whether one was found that is not adopted yet.
        refusal: why it cannot be used; empty if it was not checked yet.
    """

    def __init__(self) -> None:
        self.switches = 0
        self.is_switched = False
        self.refusal = ""
        self._place: tuple[int, int] | None = None
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
        place = found.system, found.timeline
        if self._place is None:
            self._place = place
        # A server that crashed gives numbers of lost transactions again, but none of one that was committed.
        if place != self._place or found.next_xid <= last_xid:
            self.is_switched = True
        if self.is_switched:
            raise Switched(
                "the connection leads to another server, or to an earlier state of the same one; "
                + (self.refusal or "hookgw goes on when it has checked it")
            )

    def is_former(self, found: Found) -> bool:
        """Return whether it is a primary from before a promotion that this node has seen."""
        system, timeline = self._place or (0, 0)
        return found.system == system and 0 < found.timeline < timeline

    def adopt(self, found: Found) -> None:
        """Take another server for the right one from now on."""
        self._place, self._last_xid = (found.system, found.timeline), 0
        self.switches += 1
        self.is_switched = False
        self.refusal = ""


def find(connection: Connection) -> Found:
    xid = _ask(connection, _XID)
    timeline = _ask(connection, _TIMELINE)
    return Found(int(_ask(connection, _SYSTEM) or 0), int(str(timeline or 0), 16), int(xid or 0))


def _ask(connection: Connection, statement: LiteralString) -> int | str | None:
    try:
        row = connection.execute(statement).fetchone()
    except _NOT_ASKED:
        return None
    assert row is not None  # noqa: S101 -- a SELECT without FROM, or from a function with one row
    answer: int | str = row[0]
    return answer
