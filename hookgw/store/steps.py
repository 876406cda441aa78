"""Bulk changes of what is pending, in commits of bounded size: what is the same for every engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from hookgw.concurrency.clock import Clock
from hookgw.records.audit import AuditEntry
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.store.commits.changes import CountedTransaction
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx
from hookgw.store.protocol import NO_LIMIT
from hookgw.store.records import (
    CancelQuery,
    CancelStep,
    Concerned,
    Erased,
    PendingChange,
    ReplayQuery,
    ReplayStep,
)
from hookgw.store.shelves import ShelvedRecords

Now = TypeVar("Now")
"""What an engine calls a moment: it tells which deliveries were made pending before."""
Found = TypeVar("Found", bound=Collection[int])
"""Deliveries that are to be sent again, as the search of an engine gives them."""


class Walk(NamedTuple, Generic[Found]):
    """A part of a search: what it found, and behind which number it goes on; ``None`` at the end."""

    found: Found
    last: int | None


class SteppedChanges(ABC, Generic[Tx, Now, Found]):
    """Bulk changes of what is pending; see :class:`hookgw.store.protocol.PendingChanges`.

    Cursors are a number, up to which a walk has come, and a moment. Engines say how they find and change
    deliveries.

    Args:
        commits: writes.
        clock: gives the times at which deliveries finish or are queued again.
        records: writes the job of a step, in the commit of the step.
    """

    def __init__(self, commits: GroupCommit[Tx], clock: Clock, records: ShelvedRecords[Tx]) -> None:
        self._commits = commits
        self._clock = clock
        self._records = records

    @abstractmethod
    async def _now(self) -> Now:
        """Return the moment of this call among the writes of this process."""

    @abstractmethod
    def _read_place(self, cursor: str) -> tuple[int, Now]:
        """Return the number and the moment of a cursor. Raises ``Invalid`` if it is none."""

    @abstractmethod
    def _drop(
        self,
        transaction: Tx,
        rule: LaneRule,
        instance: str,
        reason: str,
        at: float,
        *,
        count: int,
        size: int,
        spared: Collection[int],
    ) -> PendingChange:
        """Turn the oldest pending deliveries of an instance into dead letters; return what they were."""

    @abstractmethod
    async def _find_pending(
        self, query: CancelQuery, after: int, now: Now, limit: int | None, spared: Collection[int]
    ) -> Walk[list[int]]:
        """Find the next deliveries to cancel: as many as fit in a step, or ``limit``."""

    @abstractmethod
    def _cancel(
        self, transaction: Tx, found: Collection[int], reason: str, at: float, now: Now
    ) -> dict[str, int]:
        """Turn deliveries into dead letters, if they are still meant; return how many, by registration."""

    @abstractmethod
    def _cancel_one(self, transaction: Tx, seq: int, reason: str, at: float) -> PendingChange:
        """Turn a delivery into a dead letter, if it is pending; return what it was."""

    @abstractmethod
    async def _find_concerned(
        self, instance: str, value: str, after: int, now: Now, pending: bool
    ) -> Concerned:
        """Find the next events that concern a person."""

    @abstractmethod
    def _erase(self, transaction: Tx, events: Collection[int], value: str, spared: Collection[int]) -> Erased:
        """Remove events."""

    @abstractmethod
    async def _find_finished(
        self,
        query: ReplayQuery,
        rules: Mapping[str, LaneRule],
        after: int,
        now: Now,
        count: int,
        size: int,
    ) -> Walk[Found]:
        """Find the next deliveries to replay, at most as many as fit in a step."""

    @abstractmethod
    def _requeuing(self, found: Found, at: float) -> Callable[[Tx], int]:
        """Return what makes deliveries pending again, and counts them. Their order is that of these calls."""

    @abstractmethod
    def _write_audit(self, transaction: Tx, entries: Sequence[AuditEntry]) -> None:
        """Store entries of the audit."""

    async def _begin_replay(self) -> Now:
        """Return the moment of this call, once all settlements that were requested before can be read."""
        return await self._now()

    async def drop_oldest(
        self,
        rule: LaneRule,
        instance: str,
        reason: str,
        *,
        count: int,
        size: int,
        spared: Collection[int] = (),
    ) -> int:
        at = self._clock.steady()

        def drop(transaction: Tx) -> int:
            gone = self._drop(transaction, rule, instance, reason, at, count=count, size=size, spared=spared)
            return count_dead(transaction, gone)

        return await self._commits.call(drop)

    async def cancel_cursor(self) -> str:
        return f"0-{await self._now()}"

    async def cancel_step(
        self,
        query: CancelQuery,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> CancelStep:
        after, now = self._read_place(cursor)
        # Beside the commits, as in a replay: it may walk through a long backlog.
        found, last = await self._find_pending(query, after, now, None, spared)
        next_cursor = None if last is None else f"{last}-{now}"
        if job is not None and next_cursor is None and not job.done:
            job = None  # one step needs no record
        if not found and job is None and not audit:
            return CancelStep({}, next_cursor)
        at = self._clock.steady()

        def step(transaction: Tx) -> dict[str, int]:
            counts = self._cancel(transaction, found, reason, at, now)
            self._write_audit(transaction, audit)
            self._records.write_job(transaction, job and job.advanced(sum(counts.values()), job.cursor))
            return counts

        return CancelStep(await self._commits.call(step), next_cursor)

    async def cancel_one(self, seq: int, reason: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        at = self._clock.steady()

        def cancel(transaction: Tx) -> bool:
            is_cancelled = count_dead(transaction, self._cancel_one(transaction, seq, reason, at)) > 0
            if is_cancelled:
                self._write_audit(transaction, audit)
            return is_cancelled

        return await self._commits.call(cancel)

    async def count_cancellable(self, query: CancelQuery, most: int) -> int:
        now = await self._now()
        after: int | None = 0
        total = 0
        while after is not None and total < most:
            found, after = await self._find_pending(query, after, now, most - total, ())
            total += len(found)
        return total

    async def find_concerned(
        self, instance: str, value: str, cursor: str, *, pending: bool = False
    ) -> Concerned:
        after, now = self._read_place(cursor)
        return await self._find_concerned(instance, value, after, now, pending)

    async def erase(
        self,
        events: Collection[int],
        value: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> Erased:
        def step(transaction: Tx) -> Erased:
            erased = self._erase(transaction, events, value, spared)
            advanced = job and job.advanced(erased.deliveries, job.cursor, events=erased.events)
            self._records.write_job(transaction, advanced)
            return erased

        return await self._commits.call(step)

    async def replay_step(
        self,
        query: ReplayQuery,
        rules: Mapping[str, LaneRule],
        cursor: str | None,
        *,
        count: int = NO_LIMIT,
        size: int = NO_LIMIT,
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> ReplayStep:
        after, now = (0, await self._begin_replay()) if cursor is None else self._read_place(cursor)
        # Beside the commits: a search with filters may walk through the whole history, in many steps.
        found, last = await self._find_finished(query, rules, after, now, count, size)
        next_cursor = None if last is None else f"{last}-{now}"
        if cursor is None and next_cursor is None:
            job = None  # one step needs no record
        if not found and (job is None or (cursor is not None and next_cursor is not None)):
            return ReplayStep(0, next_cursor)  # nothing to write: a search that is cut off begins here again
        at = self._clock.steady()
        requeue = self._requeuing(found, at)

        def replay(transaction: Tx) -> int:
            count = requeue(transaction)
            self._write_audit(transaction, audit)
            if job is not None:
                advanced = job.advanced(count, next_cursor)
                self._records.write_job(transaction, advanced if next_cursor else advanced.ended(at))
            return count

        return ReplayStep(await self._commits.call(replay), next_cursor)


def count_dead(transaction: CountedTransaction, gone: PendingChange) -> int:
    """Count dead letters; return how many there were."""
    count = sum(count for count, _ in gone.values())
    transaction.count_finished(gone)
    transaction.count_rows(count)
    return count
