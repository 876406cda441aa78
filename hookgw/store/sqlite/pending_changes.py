"""Bulk changes of what is pending, in commits of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from hookgw.concurrency.clock import Clock
from hookgw.kernel.errors import Invalid
from hookgw.records.audit import AuditEntry
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.records import CancelQuery, Concerned, Erased, ParkStep, PendingChange, ReplayQuery
from hookgw.store.sqlite import dead_letters
from hookgw.store.sqlite.audit import write_audit
from hookgw.store.sqlite.cancel import cancel, cancel_one, find_pending
from hookgw.store.sqlite.database import Reader
from hookgw.store.sqlite.erase import erase, find_concerned
from hookgw.store.sqlite.repartition import repartition
from hookgw.store.sqlite.requeue import find_finished, requeue, resend
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers
from hookgw.store.sqlite.shelves import SqliteRecords
from hookgw.store.sqlite.transaction import Transaction
from hookgw.store.steps import SteppedChanges, Walk, count_dead

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


class SqlitePendingChanges(SteppedChanges[Transaction, int, dict[int, str]]):
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
        super().__init__(commits, clock, records)
        self._reader = reader
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
            count = count_dead(transaction, gone)
            self._records.write_job(transaction, job and job.advanced(count, cursor))
            return count

        count = await self._commits.call(park)
        return ParkStep(count, more=count == STEP)

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

        def step(transaction: Transaction) -> bool:
            count, more = repartition(transaction.connection, transaction.names, rule, STEP)
            transaction.count_rows(count)
            return more

        return await self._commits.call(step)

    async def _now(self) -> int:
        return self._numbers.newest

    async def _begin_replay(self) -> int:
        newest = self._numbers.newest
        # An empty job: when it is on disk, the reader sees all settlements that were requested before.
        await self._commits.call(lambda _: None)
        return newest

    def _read_place(self, cursor: str) -> tuple[int, int]:
        after, _, newest = cursor.partition("-")
        return _read_number(after), _read_number(newest)

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
        self, query: CancelQuery, after: int, now: int, limit: int | None, spared: Collection[int]
    ) -> Walk[list[int]]:
        find = partial(
            find_pending,
            query=query,
            after=after,
            newest=now,
            limit=STEP if limit is None else limit,
            rows=SEARCH_ROWS,
            spared=spared,
        )
        return Walk(*await self._reader.run(find))

    def _cancel(
        self, transaction: Transaction, found: Collection[int], reason: str, at: float, now: int
    ) -> dict[str, int]:
        return cancel(transaction, found, reason, at, now)

    def _cancel_one(self, transaction: Transaction, seq: int, reason: str, at: float) -> PendingChange:
        return cancel_one(transaction.connection, seq, reason, at)

    async def _find_concerned(
        self, instance: str, value: str, after: int, now: int, pending: bool
    ) -> Concerned:
        find = partial(
            find_concerned, instance=instance, value=value, after=after, newest=now, pending=pending
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
        now: int,
        count: int,
        size: int,
    ) -> Walk[dict[int, str]]:
        while True:
            present = self._newest(rules)
            find = partial(
                find_finished,
                query=query,
                rules=present,
                after=after,
                newest=now,
                limit=min(count, REPLAY_STEP),
                size=size,
                rows=SEARCH_ROWS,
            )
            found = Walk(*await self._reader.run(find))
            # The search runs beside the commits. If a re-partition began meanwhile, its last step may be
            # done before these deliveries are written, and would miss those in lanes of the former rule.
            if self._newest(rules) == present:
                return found

    def _requeuing(self, found: dict[int, str], at: float) -> Callable[[Transaction], int]:
        position = self._numbers.next_positions(len(found))
        return lambda transaction: requeue(transaction, found, position, at)

    def _write_audit(self, transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
        write_audit(transaction, entries)


def _read_number(text: str) -> int:
    try:
        # Of a database that was copied to a file, the rest says more; see the moments of that engine.
        return int(text.partition(".")[0])
    except ValueError:
        raise Invalid("cursor must be the cursor of the step before.") from None
