"""Which server the connections lead to, and what follows if it is another one.

A name or a proxy may lead to a restored or replicated server while nodes run: the numbers of its transactions
begin elsewhere, its sequences may be behind, and it may lack what was stored last. So each new connection
compares what it finds with what was seen last. If it is another server, or an earlier state of the same one,
nothing is read or written any more until :func:`adopt` has prepared it as a start would. This node then is no
member of the fleet there: it stops its lanes, joins again, and reads everything anew.

A standby that was promoted counts as another server: it may lack the last commits, and gives the numbers of
their transactions and deliveries to others. The numbers alone do not show that once another node has written
there. A node that remembers a lost delivery would then settle another delivery, which has the same number.
The timeline shows a promotion: each one begins a new timeline. Which commits got through, the server does not
say.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import psycopg
from psycopg import Connection

from hookgw.store.postgresql.lookups import one_row

# Without a function that a balancing pooler takes for a write: it would send the question to the primary.
_STATE = """SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    current_setting('transaction_read_only')"""
# The control file has the timeline only after the next checkpoint.
_PLACE = "SELECT system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()"
_SYSTEM = "SELECT system_identifier, '0' FROM pg_control_system()"
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

    def is_after(self, former: Found) -> bool:
        """Return whether it is the same server after a later promotion."""
        return self.system == former.system and 0 < former.timeline < self.timeline


class FeedStart(NamedTuple):
    """Where a feed starts; see feed.py.

    Attributes:
        settled: every transaction before this one has ended.
        newest: the last transaction of which something is pending; 0 for none.
    """

    settled: int
    newest: int


class Switched(psycopg.OperationalError):
    """The connection leads to another server, or to an earlier state of it."""


class Identity:
    """The server as it was seen last. Used by all connections of a process, in several threads.

    Attributes:
        switches: how often another server was adopted.
        is_switched: whether one was found that is not adopted yet.
        refusal: why it cannot be used; empty if it was not checked yet.
        start: where the feed of the adopted server starts: it was found before any lane read there.
    """

    def __init__(self) -> None:
        self.switches = 0
        self.is_switched = False
        self.refusal = ""
        self.start = FeedStart(0, 0)
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

    @property
    def is_new(self) -> bool:
        """Whether no server was seen yet."""
        return self._place is None

    def is_former(self, found: Found) -> bool:
        """Return whether it is a primary from before a promotion that this node has seen."""
        return self._place is not None and Found(*self._place, 0).is_after(found)

    def adopt(self, found: Found, start: FeedStart) -> None:
        """Take another server for the right one from now on."""
        self.start = start
        self._place, self._last_xid = (found.system, found.timeline), 0
        self.switches += 1
        self.is_switched = False
        self.refusal = ""


def find(connection: Connection) -> Found:
    """Return what a new connection that accepts writes leads to.

    Raises:
        OperationalError: what it reads is that of a standby, which is behind: lanes would send again what the
            primary knows as delivered.
    """
    next_xid, reads_only = one_row(connection, _STATE)
    if reads_only == "on":
        raise psycopg.OperationalError(
            "a pooler sends writes to the primary and reads to a standby, which may be behind; turn that off "
            "(pgpool: load_balance_mode = off)"
        )
    for statement in (_PLACE, _SYSTEM):
        with suppress(*_NOT_ASKED):
            place, identifier = one_row(connection, statement)
            return Found(place, int(identifier, 16), next_xid)
    return Found(0, 0, next_xid)
