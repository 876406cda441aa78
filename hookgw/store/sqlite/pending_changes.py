"""Bulk changes of what is pending in a data file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hookgw.records.lanes import LaneRule
from hookgw.store.delivery_searches import Bounds
from hookgw.store.records import ReplayQuery
from hookgw.store.sqlite.dead_letters import bury, next_pending, oldest_first, still_meant
from hookgw.store.sqlite.erase import (
    find_concerned,
    find_deliveries,
    find_events,
    find_unwanted,
    remove_events,
)
from hookgw.store.sqlite.repartition import find_lanes as to_requeue
from hookgw.store.sqlite.repartition import repartition
from hookgw.store.sqlite.requeue import reopen, requeue, resend
from hookgw.store.sqlite.selection import look_at_payloads, search, sizes_of
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers
from hookgw.store.sqlite.transaction import Transaction
from hookgw.store.steps import SteppedChanges, cursor_number

# PendingStatements, from several modules.
__all__ = ["bury", "find_concerned", "find_deliveries", "find_events", "find_unwanted", "look_at_payloads"]
__all__ += ["next_pending", "oldest_first", "read_now", "remove_events", "reopen", "repartition", "search"]
__all__ += ["sizes_of", "still_meant", "to_requeue"]

# The rules of so many re-partitions are remembered, the newest ones: a search for deliveries to replay, which
# compares them, sees fewer re-partitions begin.
MOST_RULES = 1_000


def read_now(text: str) -> int:
    # Of a database that was copied to a file, the rest says more; see the moments of that engine.
    return cursor_number(text.partition(".")[0])


@dataclass(eq=False, repr=False)
class SqlitePendingChanges(SteppedChanges[sqlite3.Connection, Transaction, int, dict[int, str]]):
    """A moment is the newest number that was given by then."""

    _numbers: SequenceNumbers

    def __post_init__(self) -> None:
        super().__post_init__()
        # The newest last.
        self._repartitioned: dict[str, LaneRule] = {}

    async def _now(self) -> int:
        return self._numbers.newest

    async def _newest_event(self) -> int:
        return self._numbers.newest_event

    async def _begin_replay(self) -> int:
        newest = self._numbers.newest
        # An empty job: when it is on disk, the reader sees all settlements that were requested before.
        await self._commits.call(lambda _: None)
        return newest

    def _newest(self, rules: Mapping[str, LaneRule]) -> dict[str, LaneRule]:
        """Return the rules, or those of the newest re-partition if they have a later generation."""
        return {
            key: max(rule, self._repartitioned.get(key, rule), key=lambda one: one.generation)
            for key, rule in rules.items()
        }

    async def repartition_step(self, rule: LaneRule) -> bool:
        # Before the first step is queued; see _find_finished.
        self._repartitioned.pop(rule.registration, None)
        self._repartitioned[rule.registration] = rule
        if len(self._repartitioned) > MOST_RULES:
            del self._repartitioned[next(iter(self._repartitioned))]
        return await super().repartition_step(rule)

    async def _find_finished(
        self, query: ReplayQuery, rules: Mapping[str, LaneRule], bounds: Bounds[int], size: int
    ) -> tuple[dict[int, str], int | None]:
        while True:
            present = self._newest(rules)
            found = await super()._find_finished(query, present, bounds, size)
            # The search runs beside the commits. If a re-partition began meanwhile, its last step may be
            # done before these deliveries are written, and would miss those in lanes of the former rule.
            if self._newest(rules) == present:
                return found

    def _requeuing(self, found: dict[int, str], at: float) -> Callable[[Transaction], int]:
        position = self._numbers.next_positions(len(found))
        return lambda transaction: requeue(transaction, found, position, at)

    def _resending(
        self, instance: str, seq: int, rule: LaneRule, at: float
    ) -> Callable[[Transaction], str | None]:
        # Before the checkpoint: an append that is requested later is behind it in the lane.
        position = self._numbers.next_positions(1)
        return lambda transaction: resend(transaction, instance, seq, rule, position, at)
