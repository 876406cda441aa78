"""Bulk changes of what is pending, in commits of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from hookgw.concurrency.clock import Clock
from hookgw.records.audit import AuditEntry
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
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
from hookgw.store.postgresql.shelves import PostgresqlRecords
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import CancelQuery, Concerned, Erased, ParkStep, PendingChange, ReplayQuery
from hookgw.store.steps import SteppedChanges, Walk, count_dead

Key = TypeVar("Key")
At = TypeVar("At")

# How many deliveries are parked, dropped or moved in one commit: some milliseconds, in which all other writes
# wait.
STEP = 500

# How many deliveries are replayed in one commit.
REPLAY_STEP = 1_000

# How many deliveries one step of a replay looks at, whether they take part or not.
SEARCH_ROWS = 20_000

# At most this many walks remember where their next step begins; the others start over.
MOST_WALKS = 1_000


class PostgresqlPendingChanges(SteppedChanges[Transaction, Moment, Mapping[int, LaneRule]]):
    """Bulk changes of what is pending; see :class:`hookgw.store.protocol.PendingChanges`.

    Args:
        commits: writes.
        reader: finds what is replayed, beside the commits.
        clock: gives the times at which deliveries finish or are queued again.
        records: writes the job of a step, in the commit of the step.
    """

    def __init__(
        self,
        commits: GroupCommit[Transaction],
        reader: Reader,
        clock: Clock,
        records: PostgresqlRecords,
    ) -> None:
        super().__init__(commits, clock, records)
        self._reader = reader
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
            count = count_dead(transaction, parked.gone)
            self._records.write_job(transaction, job and job.advanced(count, cursor))
            return count, parked

        count, parked = await self._commits.call(park)
        if parked.place is not None:
            _remember(self._parked, (registration, cursor), parked.place)
        return ParkStep(count, more=parked.place is not None)

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
        return await self._commits.call(take_moment)

    def _read_place(self, cursor: str) -> tuple[int, Moment]:
        return read_place(cursor)

    def _drop(
        self,
        transaction: Transaction,
        rule: LaneRule,
        instance: str,
        reason: str,
        at: float,
        *,
        count: int,
        size: int,
        spared: Collection[int],
    ) -> PendingChange:
        return dead_letters.drop_oldest(
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

    async def _find_pending(
        self, query: CancelQuery, after: int, now: Moment, limit: int | None, spared: Collection[int]
    ) -> Walk[list[int]]:
        find = partial(
            find_pending,
            query=query,
            after=after,
            moment=now,
            limit=STEP if limit is None else limit,
            rows=SEARCH_ROWS,
            spared=spared,
        )
        return Walk(*await self._reader.run(find))

    def _cancel(
        self, transaction: Transaction, found: Collection[int], reason: str, at: float, now: Moment
    ) -> dict[str, int]:
        return cancel(transaction, found, reason, at, now)

    def _cancel_one(self, transaction: Transaction, seq: int, reason: str, at: float) -> PendingChange:
        return dead_letters.bury(transaction.connection, [seq], reason, at)

    async def _find_concerned(
        self, instance: str, value: str, after: int, now: Moment, pending: bool
    ) -> Concerned:
        find = partial(
            find_concerned, instance=instance, value=value, after=after, moment=now, pending=pending
        )
        return await self._reader.run(find)

    def _erase(
        self, transaction: Transaction, events: Collection[int], value: str, spared: Collection[int]
    ) -> Erased:
        return erase(transaction, events, value, spared)

    async def _find_finished(
        self,
        query: ReplayQuery,
        rules: Mapping[str, LaneRule],
        after: int,
        now: Moment,
        count: int,
        size: int,
    ) -> Walk[Mapping[int, LaneRule]]:
        find = partial(
            find_finished,
            query=query,
            rules=rules,
            after=after,
            moment=now,
            limit=min(count, REPLAY_STEP),
            size=size,
            rows=SEARCH_ROWS,
        )
        return Walk(*await self._reader.run(find))

    def _requeuing(self, found: Mapping[int, LaneRule], at: float) -> Callable[[Transaction], int]:
        return lambda transaction: len(requeue(transaction, found, at))

    def _write_audit(self, transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
        write_audit(transaction, entries)


def _remember(places: dict[Key, At], key: Key, place: At) -> None:
    places[key] = place
    if len(places) > MOST_WALKS:
        del places[next(iter(places))]
