"""Bulk changes of what is pending in a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from psycopg import Connection

from hookgw.records.lanes import LaneRule
from hookgw.store.postgresql.dead_letters import bury, next_pending, oldest_first, still_meant
from hookgw.store.postgresql.erase import (
    find_concerned,
    find_deliveries,
    find_events,
    find_unwanted,
    remove_events,
)
from hookgw.store.postgresql.lookups import NEWEST_EVENT, one_row
from hookgw.store.postgresql.moments import Moment, read_now, take_moment
from hookgw.store.postgresql.repartition import repartition
from hookgw.store.postgresql.requeue import reopen, requeue, resend, to_requeue
from hookgw.store.postgresql.selection import look_at_payloads, search, sizes_of
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.steps import SteppedChanges

# PendingStatements, from several modules.
__all__ = ["bury", "find_concerned", "find_deliveries", "find_events", "find_unwanted", "look_at_payloads"]
__all__ += ["next_pending", "oldest_first", "read_now", "remove_events", "reopen", "repartition", "search"]
__all__ += ["sizes_of", "still_meant", "to_requeue"]


class PostgresqlPendingChanges(SteppedChanges[Connection, Transaction, Moment, Mapping[int, LaneRule]]):
    """A moment is the snapshot of a transaction; see moments.py."""

    async def _now(self) -> Moment:
        return await self._commits.call(take_moment)

    async def _newest_event(self) -> int:
        # After the moment: numbers that are given meanwhile may be counted to it.
        return int((await self._reader.run(partial(one_row, statement=NEWEST_EVENT)))[0])

    def _requeuing(self, found: Mapping[int, LaneRule], at: float) -> Callable[[Transaction], int]:
        return lambda transaction: len(requeue(transaction, found, at))

    def _resending(
        self, instance: str, seq: int, rule: LaneRule, at: float
    ) -> Callable[[Transaction], str | None]:
        return lambda transaction: resend(transaction, instance, seq, rule, at)
