"""Bulk changes of what is pending, in commits of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from hookgw.models.audit import AuditEntry
from hookgw.models.clock import Clock
from hookgw.models.jobs import Job
from hookgw.models.lanes import LaneRule
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.postgresql import dead_letters
from hookgw.store.postgresql.audit import write_audit
from hookgw.store.postgresql.cancel import cancel, find_pending
from hookgw.store.postgresql.database import Reader
from hookgw.store.postgresql.dead_letters import BEGIN, Parked, Place
from hookgw.store.postgresql.erase import erase, find_concerned
from hookgw.store.postgresql.moments import Moment, read_moment, read_place, take_moment
from hookgw.store.postgresql.repartition import LanePlace, Moved, repartition
from hookgw.store.postgresql.requeue import find_finished, requeue, resend
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.protocol import NO_LIMIT
from hookgw.store.records import (
    CancelQuery,
    CancelStep,
    Concerned,
    Erased,
    ParkStep,
    PendingChange,
    ReplayQuery,
    ReplayStep,
)

Key = TypeVar("Key")
At = TypeVar("At")

# How many deliveries are parked, dropped or moved in one commit: some milliseconds, in which all other writes
# wait.
STEP = 500

# How many deliveries are replayed in one commit.
REPLAY_STEP = 1_000

# How many deliveries one step of a replay looks at, whether they take part or not.
SEARCH_ROWS = 20_000

# So many walks know where their next step begins; the others begin at the beginning.
MOST_WALKS = 1_000


class Jobs(Protocol):
    """The part of the records that is written with the steps of jobs."""

    def write_job(self, transaction: Transaction, job: Job | None) -> None:
        """Store a job, if there is one, with whatever else the transaction changes."""


class PostgresqlPendingChanges:
    """Bulk changes of what is pending; see :class:`hookgw.store.protocol.PendingChanges`.

    Args:
        commits: writes.
        reader: finds what is replayed, beside the commits.
        clock: gives the times at which deliveries finish or are queued again.
        records: writes the job of a step, in the commit of the step.
    """

    def __init__(
        self, commits: GroupCommit[Transaction], reader: Reader, clock: Clock, records: Jobs
    ) -> None:
        self._commits = commits
        self._reader = reader
        self._clock = clock
        self._records = records
        # Where the next step begins, only to save time. The newest last.
        self._parked: dict[tuple[str, str], Place] = {}
        self._moved: dict[LaneRule, LanePlace] = {}

    async def park_cursor(self) -> str:
        return str(await self._now())

    async def park_step(
        self,
        registration: str,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> ParkStep:
        moment, at = read_moment(cursor), self._clock.steady()
        after = self._parked.pop((registration, cursor), BEGIN)

        def park(transaction: Transaction) -> tuple[int, Parked]:
            parked = dead_letters.park(
                transaction.connection,
                registration,
                reason,
                at,
                moment=moment,
                after=after,
                limit=STEP,
                spared=spared,
            )
            count = _count_dead(transaction, parked.gone)
            self._records.write_job(transaction, job and job.advanced(count, cursor))
            return count, parked

        count, parked = await self._commits.call(park)
        if parked.place is not None:
            _remember(self._parked, (registration, cursor), parked.place)
        return ParkStep(count, more=parked.place is not None)

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

        def drop(transaction: Transaction) -> int:
            gone = dead_letters.drop_oldest(
                transaction.connection,
                rule,
                instance,
                reason,
                at,
                count=count,
                size=size,
                limit=STEP,
                spared=spared,
            )
            return _count_dead(transaction, gone)

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
        after, moment = read_place(cursor)
        # Beside the commits, as in a replay: it may walk through a long backlog.
        find = partial(
            find_pending,
            query=query,
            after=after,
            moment=moment,
            limit=STEP,
            rows=SEARCH_ROWS,
            spared=spared,
        )
        found, last = await self._reader.run(find)
        next_cursor = None if last is None else f"{last}-{moment}"
        if job is not None and next_cursor is None and not job.done:
            job = None  # one step needs no record
        if not found and job is None and not audit:
            return CancelStep({}, next_cursor)
        at = self._clock.steady()

        def step(transaction: Transaction) -> dict[str, int]:
            counts = cancel(transaction, found, reason, at, moment)
            write_audit(transaction, audit)
            self._records.write_job(transaction, job and job.advanced(sum(counts.values()), job.cursor))
            return counts

        return CancelStep(await self._commits.call(step), next_cursor)

    async def count_cancellable(self, query: CancelQuery, most: int) -> int:
        moment = await self._now()
        after: int | None = 0
        total = 0
        while after is not None and total < most:
            find = partial(
                find_pending, query=query, after=after, moment=moment, limit=most - total, rows=SEARCH_ROWS
            )
            found, after = await self._reader.run(find)
            total += len(found)
        return total

    async def find_concerned(
        self, instance: str, value: str, cursor: str, *, pending: bool = False
    ) -> Concerned:
        after, moment = read_place(cursor)
        find = partial(
            find_concerned, instance=instance, value=value, after=after, moment=moment, pending=pending
        )
        return await self._reader.run(find)

    async def erase(
        self,
        events: Collection[int],
        value: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> Erased:
        def step(transaction: Transaction) -> Erased:
            erased = erase(transaction, events, value, spared)
            advanced = job and job.advanced(erased.deliveries, job.cursor, events=erased.events)
            self._records.write_job(transaction, advanced)
            return erased

        return await self._commits.call(step)

    async def resend(
        self, instance: str, seq: int, rule: LaneRule, *, audit: Sequence[AuditEntry] = ()
    ) -> str | None:
        now = self._clock.steady()

        def make_pending(transaction: Transaction) -> str | None:
            lane = resend(transaction, instance, seq, rule, now)
            if lane is not None:
                write_audit(transaction, audit)
            return lane

        return await self._commits.call(make_pending)

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
        if cursor is None:
            # In a commit: when it is on disk, the reader sees all settlements that were requested before.
            after, moment = 0, await self._now()
        else:
            after, moment = read_place(cursor)
        # Beside the commits: a search with filters may walk through the whole history, in many steps.
        find = partial(
            find_finished,
            query=query,
            rules=rules,
            after=after,
            moment=moment,
            limit=min(count, REPLAY_STEP),
            size=size,
            rows=SEARCH_ROWS,
        )
        found, last = await self._reader.run(find)
        next_cursor = None if last is None else f"{last}-{moment}"
        if cursor is None and next_cursor is None:
            job = None  # one step needs no record
        if not found and (job is None or (cursor is not None and next_cursor is not None)):
            return ReplayStep(0, next_cursor)  # nothing to write: a search that is cut off begins here again
        at = self._clock.steady()

        def replay(transaction: Transaction) -> int:
            count = len(requeue(transaction, found, at))
            write_audit(transaction, audit)
            if job is not None:
                advanced = job.advanced(count, next_cursor)
                self._records.write_job(transaction, advanced if next_cursor else advanced.ended(at))
            return count

        return ReplayStep(await self._commits.call(replay), next_cursor)

    async def repartition_step(self, rule: LaneRule) -> bool:
        place = self._moved.pop(rule, None)

        def step(transaction: Transaction) -> Moved:
            moved = repartition(transaction.connection, rule, place, STEP)
            transaction.count_rows(moved.rows)
            return moved

        moved = await self._commits.call(step)
        if moved.place is not None:
            _remember(self._moved, rule, moved.place)
        return moved.place is not None

    async def _now(self) -> Moment:
        """Return the moment of this call among the writes of this process."""
        return await self._commits.call(take_moment)


def _remember(places: dict[Key, At], key: Key, place: At) -> None:
    places[key] = place
    if len(places) > MOST_WALKS:
        del places[next(iter(places))]


def _count_dead(transaction: Transaction, gone: PendingChange) -> int:
    """Count dead letters; return how many there were."""
    count = sum(count for count, _ in gone.values())
    transaction.count_finished(gone)
    transaction.count_rows(count)
    return count
