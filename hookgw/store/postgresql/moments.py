"""Moments: what was in the storage, and what was not, when somebody asked.

Numbers do not tell: they are given before the commit, and transactions commit in any order. So a moment is
the snapshot of a transaction: which transactions had ended by then. A delivery belongs to it if the
transaction that made it pending had.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hookgw.kernel.errors import Invalid
from hookgw.records.sentences import CURSOR_OF_STEP
from hookgw.store.postgresql.lookups import one_row
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.steps import cursor_number

# Of a sequence that has given no number, last_value is its first.
_NOW = """SELECT pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint,
        ARRAY(SELECT running::text::bigint FROM pg_snapshot_xip(now) running),
        (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM delivery_numbers)
    FROM pg_current_snapshot() now"""

IS_BEFORE = """(xid < %(xmin)s OR xid < %(xmax)s AND xid <> ALL(%(running)s)
    OR xid = %(own)s AND position <= %(newest)s)"""
"""SQL: whether a delivery was made pending before a moment; with :meth:`Moment.given`."""


class Moment(NamedTuple):
    """Which transactions had ended when somebody asked.

    Attributes:
        newest: no delivery of before has a higher number or position.
        own: the transaction that took it; what it had written by then was there, too.
        xmin: all transactions below had ended.
        xmax: none from here on had begun.
        running: those between that had not ended.
    """

    newest: int
    own: int
    xmin: int
    xmax: int
    running: tuple[int, ...]

    def given(self) -> dict[str, Any]:
        """Return the values of :data:`IS_BEFORE`, and ``newest``."""
        return {
            "newest": self.newest,
            "own": self.own,
            "xmin": self.xmin,
            "xmax": self.xmax,
            "running": [*self.running, self.own],
        }

    def __str__(self) -> str:
        return ".".join(map(str, (*self[:4], *self.running)))


def take_moment(transaction: Transaction) -> Moment:
    xmin, xmax, running, newest = one_row(transaction.connection, _NOW)
    own = transaction.xid
    return Moment(newest, own, xmin, xmax, tuple(one for one in running if one != own))


def read_now(text: str) -> Moment:
    newest, *others = map(cursor_number, text.split("."))
    if not others:
        # Of a data file that was copied: everything of before the copy has no transaction.
        return Moment(newest, 0, 1, 1, ())
    if len(others) < 3:
        raise Invalid(CURSOR_OF_STEP)
    own, xmin, xmax, *running = others
    return Moment(newest, own, xmin, xmax, tuple(running))
