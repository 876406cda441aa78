"""The finished deliveries: listed, counted, and removed when they are too old or too many, in every engine.

Engines bring the statements. What takes long is done in parts: others read, or commit, in between.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Generic, NamedTuple, Protocol

import trio

from hookgw.concurrency.clock import Clock
from hookgw.fair.excess import Excess
from hookgw.kernel.errors import Invalid
from hookgw.records.deliveries import parse_delivery_id
from hookgw.records.sentences import CURSOR_OF_PAGE
from hookgw.store import searches
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.delivery_searches import PayloadStatements
from hookgw.store.holdings import BEFORE_ALL, Counted, HistoryExcess, Oldest, measure
from hookgw.store.log import PRUNE_REST, PRUNE_STEP, SteppedLog
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import (
    NO_LIMIT,
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    DeliverySummary,
)

# An id is one narrow row: so many take half the time of those deliveries.
FORGET_STEP = 500


class Pruned(NamedTuple):
    """How much a step removed, and the time of the last of it: where the next one begins."""

    amount: int
    last: int


class HistoryStatements(PayloadStatements[C_contra], Protocol[C_contra, Tx_contra]):
    """What an engine brings, as a module. Times are in seconds since the epoch."""

    def search_deliveries(
        self, connection: C_contra, query: DeliveryQuery, bounds: Mapping[str, int], *, by_time: bool = False
    ) -> searches.SearchPart:
        """Search the newest deliveries for matches of a query; its cursor and limit have no effect.

        Args:
            bounds: only deliveries with a number below ``before``; the most ``rows`` to look at, whether they
                match or not; how many are ``wanted`` at most.
            by_time: look at the deliveries of all instances that finished since the time of the query.
        """

    def find_delivery(
        self, connection: C_contra, instance: str, name: str, *, without_global: bool = False
    ) -> DeliveryReport | None: ...

    def find_content(
        self, connection: C_contra, instance: str, event_id: str
    ) -> tuple[str, bytes] | None: ...

    def instances_of_event(self, connection: C_contra, event_id: str, most: int) -> list[str]: ...

    def newest(self, connection: C_contra, instances: Collection[str]) -> dict[str, float]: ...

    def prune(self, transaction: Tx_contra, before: float, after: int, limit: int) -> Pruned:
        """Remove the oldest finished deliveries, and old events without any, but for the ids of events.

        Args:
            before: only what finished, or was accepted, before this time.
            after: where the former step ended; 0 at first.
            limit: the most deliveries, and the most events.

        Returns:
            How many of both together.
        """

    def count_held(self, connection: C_contra, given: dict[str, int]) -> Counted:
        """Count what instances hold; see :func:`~hookgw.store.holdings.measure`."""

    def find_oldest(
        self, connection: C_contra, holders: Sequence[int], after: Oldest, before: float, *, rows: int
    ) -> list[Oldest]:
        """Return the oldest finished deliveries of some instances.

        Args:
            holders: the numbers of the instances.
            after: the last one of the former step.
            before: only those that finished before this time.
            rows: at most so many.
        """

    def remove_oldest(
        self, transaction: Tx_contra, found: Sequence[Oldest], before: float
    ) -> tuple[int, int]:
        """Remove deliveries that :meth:`find_oldest` has found, and all of their events but the ids.

        Returns:
            How many were still there, and what that changes, for ``is_enough`` of :class:`SteppedHistory`.
        """

    def forget_ids(self, transaction: Tx_contra, before: float, after: int, limit: int) -> Pruned:
        """Remove the oldest ids without a history, and return their bytes.

        Args:
            before: only ids of events that were accepted before this time; infinity for all.
            after: where the former step ended; 0 at first.
        """

    def remembered_bytes(self, connection: C_contra) -> int:
        """Return the bytes that all ids without a history take."""

    def remembered_by_instance(self, connection: C_contra) -> dict[int, int]:
        """Return the bytes that ids without a history take, by the number of their instance."""

    def oldest_ids(
        self, connection: C_contra, holders: Sequence[int], after: Oldest, limit: int
    ) -> list[Oldest]:
        """Return the oldest ids of some instances, as :meth:`find_oldest` does with deliveries."""

    def forget_found(self, transaction: Tx_contra, found: Sequence[Oldest]) -> int:
        """Remove ids that :meth:`oldest_ids` has found, as far as they are there; return their bytes."""


@dataclass(eq=False, repr=False)
class SteppedHistory(ABC, Generic[C, Tx]):
    """The finished deliveries; see :class:`hookgw.store.History`."""

    held_rows: ClassVar[int]
    """Deliveries that are counted at a time to learn what instances hold."""

    _commits: GroupCommit[Tx]
    _lists: ConnectionReader[C]
    _background: ConnectionReader[C]
    _clock: Clock
    _sql: HistoryStatements[C, Tx]
    _log: SteppedLog[C, Tx]

    def __post_init__(self) -> None:
        self.list_events, self.find_event = self._log.list_events, self._log.find_event
        self.wait_log_growth = self._log.wait_growth
        self.find_delivery = self._lists.bound(self._sql.find_delivery)
        self.find_content = self._lists.bound(self._sql.find_content)
        self.instances_of_event = self._lists.bound(self._sql.instances_of_event)
        self.newest = self._lists.bound(self._sql.newest)

    @abstractmethod
    async def _remove_excess(self, limit: int, rest: int, now: float) -> int:
        """Remove the oldest deliveries of the instances that hold most until the history fits.

        Args:
            limit: the most bytes of the history.
            rest: the bytes of the ids, and of what only the log has, which are not part of it.
            now: what finished later stays.
        """

    @abstractmethod
    async def _forget_names(self) -> None:
        """Remove what is kept of instances, registrations and URLs that nothing refers to any more."""

    async def list_deliveries(self, query: DeliveryQuery) -> DeliveryPage:
        before = searches.LAST if query.cursor is None else parse_delivery_id(query.cursor)
        if before is None:
            raise Invalid(CURSOR_OF_PAGE)
        deadline = trio.current_time() + searches.LIST_SECONDS
        found: list[DeliverySummary] = []
        rows = max(searches.FIRST_ROWS, query.limit + 1)
        while True:
            # One more than wanted, to know whether there is a next page.
            wanted = searches.PAYLOAD_ROWS if query.reads_payloads else query.limit + 1 - len(found)
            bounds = {"before": before, "rows": rows, "wanted": wanted}
            search = partial(self._sql.search_deliveries, query=query, bounds=bounds)
            by_time = searches.is_recent(query, self._clock.steady())
            part, seconds = await self._lists.run(searches.timed(partial(search, by_time=by_time)))
            matches, before, is_end = part.found, part.last or 0, part.rows < rows
            if query.reads_payloads and matches:
                seqs = [one.seq for one in matches]
                look = partial(self._sql.look_at_payloads, query=query, seqs=seqs)
                looked = await self._lists.run(look)
                if looked.looked_at < len(seqs) or len(seqs) == wanted:  # the next part goes on behind these
                    before, is_end = seqs[looked.looked_at - 1], False
                matches = [one for one in matches if one.seq in looked.found]
            found += matches
            if len(found) > query.limit:
                page = found[: query.limit]
                return DeliveryPage(page, page[-1].cursor)
            if is_end:
                return DeliveryPage(found)
            if trio.current_time() >= deadline:
                return DeliveryPage(found, f"dlv_{before}")
            rows = searches.next_rows(rows, seconds)

    async def enforce_retention(
        self,
        *,
        before: float,
        limit: int,
        ids_before: float = math.inf,
        ids_limit: int = NO_LIMIT,
        log_limit: int = NO_LIMIT,
    ) -> int:
        now = self._clock.steady()
        removed = await self._prune(partial(self._sql.prune, before=before, limit=PRUNE_STEP))
        unwanted, logged = await self._log.enforce_limit(log_limit)
        await self._prune(partial(self._sql.forget_ids, before=ids_before, limit=FORGET_STEP))
        remembered = await self._background.run(self._sql.remembered_bytes)
        if remembered > ids_limit:
            remembered -= await self._forget_excess(ids_limit)
        # Before the excess is measured: names take space, too.
        await self._forget_names()
        return removed + unwanted + await self._remove_excess(limit, remembered + logged, now)

    async def _prune(self, step: Callable[..., Pruned]) -> int:
        """Remove all that a statement finds, in small commits; return how much that was."""
        total, pruned = 0, Pruned(1, 0)
        while pruned.amount:
            pruned = await self._commits.call(partial(step, after=pruned.last))
            total += pruned.amount
            await trio.sleep(PRUNE_REST)
        return total

    async def _forget_excess(self, limit: int) -> int:
        """Remove the oldest ids of the instances that hold most until all fit; return the bytes freed."""
        excess = Excess(await self._background.run(self._sql.remembered_by_instance), limit)
        freed, last = 0, BEFORE_ALL
        while excess.left:
            find = partial(self._sql.oldest_ids, holders=list(excess.left), after=last, limit=FORGET_STEP)
            if not (found := await self._background.run(find)):
                break
            freed += await self._commits.call(partial(self._sql.forget_found, found=found))
            for one in found:
                excess.take(one.instance, one.size)
            last = found[-1]
            await trio.sleep(PRUNE_REST)
        return freed

    async def _remove_in_turn(
        self, kept: float, now: float, is_enough: Callable[[int], Awaitable[bool]]
    ) -> tuple[int, bool]:
        """Remove the oldest deliveries of the instances that hold most.

        Args:
            kept: the fraction of the history that may stay.
            now: what finished later stays.
            is_enough: called after each step with the bytes that it returned.

        Returns:
            How many were removed, and whether the last search found any: if not, the rest is pending, or
            another node removes it.
        """
        held = await measure(self._background.run, self._sql.count_held, self.held_rows)
        excess = HistoryExcess(held, kept)
        removed, last, found = 0, BEFORE_ALL, list[Oldest]()
        while excess.holders:
            find = partial(self._sql.find_oldest, holders=excess.holders, after=last, before=now)
            if not (found := await self._background.run(partial(find, rows=PRUNE_STEP))):
                break
            count, size = await self._commits.call(partial(self._sql.remove_oldest, found=found, before=now))
            excess.take(found)
            removed, last = removed + count, found[-1]
            await trio.sleep(PRUNE_REST)
            if await is_enough(size):
                break
        return removed, bool(found)
