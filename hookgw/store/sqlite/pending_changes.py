"""Bulk changes of what is pending, in commits of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from hookgw.models.audit import AuditEntry
from hookgw.models.clock import Clock
from hookgw.models.errors import Invalid
from hookgw.models.jobs import Job
from hookgw.models.lanes import LaneRule
from hookgw.store.commits.group_commit import GroupCommit
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
from hookgw.store.sqlite import dead_letters
from hookgw.store.sqlite.audit import write_audit
from hookgw.store.sqlite.cancel import cancel, find_pending
from hookgw.store.sqlite.database import Reader
from hookgw.store.sqlite.erase import erase, find_concerned
from hookgw.store.sqlite.outbox import SequenceNumbers
from hookgw.store.sqlite.repartition import repartition
from hookgw.store.sqlite.requeue import find_finished, requeue, resend
from hookgw.store.sqlite.shelves import SqliteRecords
from hookgw.store.sqlite.transaction import Transaction

# How many deliveries are parked, dropped or moved in one commit: some milliseconds, in which all other writes
# wait. Steps of five times as many are as fast in all, but others wait for five times as long.
STEP = 500

# How many deliveries are replayed in one commit. Each changes more indexes than one that is moved.
REPLAY_STEP = 1_000

# How many deliveries one step of a replay looks at, whether they take part or not.
SEARCH_ROWS = 20_000

# The rules of so many re-partitions are remembered, the newest ones: a search for deliveries to replay, which
# compares them, sees fewer re-partitions begin.
MOST_RULES = 1_000


class SqlitePendingChanges:
    """Bulk changes of what is pending; see :class:`hookgw.store.protocol.PendingChanges`.

    Args:
        commits: writes.
        reader: finds what is replayed, beside the commits.
        clock: gives the times at which deliveries finish or are queued again.
        numbers: shared with the outbox.
        records: writes the job of a step, in the commit of the step.
    """

    def __init__(
        self,
        commits: GroupCommit[Transaction],
        reader: Reader,
        clock: Clock,
        numbers: SequenceNumbers,
        records: SqliteRecords,
    ) -> None:
        self._records = records
        self._commits = commits
        self._reader = reader
        self._clock = clock
        self._numbers = numbers
        # The newest last.
        self._repartitioned: dict[str, LaneRule] = {}

    async def park_cursor(self) -> str:
        return str(self._numbers.newest)

    async def park_step(
        self,
        registration: str,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> ParkStep:
        newest, at = _read_number(cursor), self._clock.steady()

        def park(transaction: Transaction) -> int:
            gone = dead_letters.park(
                transaction.connection, registration, reason, at, newest=newest, limit=STEP, spared=spared
            )
            count = _count_dead(transaction, gone)
            self._records.write_job(transaction, job and job.advanced(count, cursor))
            return count

        count = await self._commits.call(park)
        return ParkStep(count, more=count == STEP)

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
        return f"0-{self._numbers.newest}"

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
        after, newest = _read_cursor(cursor)
        # Beside the commits, as in a replay: it may walk through a long backlog.
        find = partial(
            find_pending,
            query=query,
            after=after,
            newest=newest,
            limit=STEP,
            rows=SEARCH_ROWS,
            spared=spared,
        )
        found, last = await self._reader.run(find)
        next_cursor = None if last is None else f"{last}-{newest}"
        if job is not None and next_cursor is None and not job.done:
            job = None  # one step needs no record
        if not found and job is None and not audit:
            return CancelStep({}, next_cursor)
        at = self._clock.steady()

        def step(transaction: Transaction) -> dict[str, int]:
            counts = cancel(transaction, found, reason, at, newest)
            write_audit(transaction, audit)
            self._records.write_job(transaction, job and job.advanced(sum(counts.values()), job.cursor))
            return counts

        return CancelStep(await self._commits.call(step), next_cursor)

    async def count_cancellable(self, query: CancelQuery, most: int) -> int:
        after: int | None = 0
        newest, total = self._numbers.newest, 0
        while after is not None and total < most:
            find = partial(
                find_pending, query=query, after=after, newest=newest, limit=most - total, rows=SEARCH_ROWS
            )
            found, after = await self._reader.run(find)
            total += len(found)
        return total

    async def find_concerned(
        self, instance: str, value: str, cursor: str, *, pending: bool = False
    ) -> Concerned:
        after, newest = _read_cursor(cursor)
        find = partial(
            find_concerned, instance=instance, value=value, after=after, newest=newest, pending=pending
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
        # Before the checkpoint: an append that is requested later is behind it in the lane.
        position, now = self._numbers.next_positions(1), self._clock.steady()

        def make_pending(transaction: Transaction) -> str | None:
            lane = resend(transaction, instance, seq, rule, position, now)
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
            after, newest = 0, self._numbers.newest
            # An empty job: when it is on disk, the reader sees all settlements that were requested before.
            await self._commits.call(lambda _: None)
        else:
            after, newest = _read_cursor(cursor)
        while True:
            # Beside the commits: a search with filters may walk through the whole history, in many steps.
            now = self._newest(rules)
            find = partial(
                find_finished,
                query=query,
                rules=now,
                after=after,
                newest=newest,
                limit=min(count, REPLAY_STEP),
                size=size,
                rows=SEARCH_ROWS,
            )
            found, last = await self._reader.run(find)
            # The search runs beside the commits. If a re-partition began meanwhile, its last step may be
            # done before these deliveries are written, and would miss those in lanes of the former rule.
            if self._newest(rules) == now:
                break
        next_cursor = None if last is None else f"{last}-{newest}"
        if cursor is None and next_cursor is None:
            job = None  # one step needs no record
        if not found and (job is None or (cursor is not None and next_cursor is not None)):
            return ReplayStep(0, next_cursor)  # nothing to write: a search that is cut off begins here again
        position, at = self._numbers.next_positions(len(found)), self._clock.steady()

        def replay(transaction: Transaction) -> int:
            count = requeue(transaction, found, position, at)
            write_audit(transaction, audit)
            if job is not None:
                advanced = job.advanced(count, next_cursor)
                self._records.write_job(transaction, advanced if next_cursor else advanced.ended(at))
            return count

        return ReplayStep(await self._commits.call(replay), next_cursor)

    def _newest(self, rules: Mapping[str, LaneRule]) -> dict[str, LaneRule]:
        """Return the rules, or those of the newest re-partition if they have a later generation."""
        return {
            key: max(rule, self._repartitioned.get(key, rule), key=lambda one: one.generation)
            for key, rule in rules.items()
        }

    async def repartition_step(self, rule: LaneRule) -> bool:
        # Before the first step is queued; see replay_step.
        self._repartitioned.pop(rule.registration, None)
        self._repartitioned[rule.registration] = rule
        if len(self._repartitioned) > MOST_RULES:
            del self._repartitioned[next(iter(self._repartitioned))]

        def step(transaction: Transaction) -> bool:
            count, more = repartition(transaction.connection, transaction.names, rule, STEP)
            transaction.count_rows(count)
            return more

        return await self._commits.call(step)


def _count_dead(transaction: Transaction, gone: PendingChange) -> int:
    """Count dead letters; return how many there were."""
    count = sum(count for count, _ in gone.values())
    transaction.count_finished(gone)
    transaction.count_rows(count)
    return count


def _read_cursor(cursor: str) -> tuple[int, int]:
    after, _, newest = cursor.partition("-")
    return _read_number(after), _read_number(newest)


def _read_number(text: str) -> int:
    try:
        # Of a database that was copied to a file, the rest says more; see the moments of that engine.
        return int(text.partition(".")[0])
    except ValueError:
        raise Invalid("cursor must be the cursor of the step before.") from None
