"""Bulk changes of what is pending, in commits of bounded size, in every engine.

Cursors are a number, up to which a walk has come, and a moment: which deliveries were made pending before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.kernel.errors import Invalid
from hookgw.kernel.recent import Recent
from hookgw.records.audit import AuditEntry
from hookgw.records.deliveries import Position
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.records.sentences import CURSOR_OF_STEP
from hookgw.store.commits.changes import weigh
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.delivery_searches import Bounds, DeliverySearches, Found, Found_co, Now, SearchStatements
from hookgw.store.erasure_statements import ErasureStatements
from hookgw.store.persons import person
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import (
    NO_LIMIT,
    CancelQuery,
    CancelStep,
    Concerned,
    Erased,
    JobStep,
    ParkStep,
    PendingChange,
    ReplayQuery,
)
from hookgw.store.shelves import ShelvedRecords

# How many deliveries are parked, dropped or moved in one commit, and how many commits are counted in
# figures: some milliseconds, in which all other writes wait. Steps of five times as many are as fast in all,
# but others wait for five times as long.
STEP = 500

# How many deliveries are replayed in one commit. Each changes more indexes than one that is moved.
REPLAY_STEP = 1_000

# How many deliveries one step of a search looks at, whether they match or not: other reads wait meanwhile.
SEARCH_ROWS = 20_000

# Begins the cursors of an erasure that looks at events without deliveries: their place, and a number.
_UNWANTED = "u"

# At most this many walks remember where their next step begins; the others start over.
MOST_WALKS = 1_000


class Moved(NamedTuple):
    """How many deliveries a step moved, and where it ended; ``None`` when all are moved."""

    rows: int
    place: Any


class PendingStatements(
    SearchStatements[C_contra, Now, Found_co],
    ErasureStatements[C_contra, Now],
    Protocol[C_contra, Tx_contra, Now, Found_co],
):
    """What an engine brings, as a module. Times are in seconds since the epoch.

    What the functions have in common:

    - Searches run on a reading connection, beside the commits. They return what they have found, and behind
      which number the next search begins; ``None`` at the end.
    - ``now`` is a moment: what was made pending later does not count.
    - ``spared`` are numbers of deliveries that stay as they are.
    """

    def read_now(self, text: str) -> Now:
        """Return the moment of a cursor. Raises ``Invalid`` if it is none."""

    def next_pending(
        self,
        connection: C_contra,
        registration: str,
        now: Now,
        after: Any,
        limit: int,
        spared: Collection[int],
    ) -> tuple[list[int], Any]:
        """Find the next pending deliveries of a registration, at most ``limit``, and where that ended.

        ``after`` is where the former step ended; ``None`` for the first one, or if that was forgotten. At the
        end, the place is ``None``.
        """

    def oldest_first(
        self, connection: C_contra, rule: LaneRule, instance: str, limit: int, spared: Collection[int]
    ) -> Iterable[tuple[int, int]]:
        """Return pending deliveries of an instance to a registration, with the bytes of their payloads.

        They are the ``limit`` oldest, or more, in order. In a lane that instances share, the search is short.
        """

    def still_meant(self, connection: C_contra, seqs: Collection[int], now: Now | None) -> list[int]:
        """Return which deliveries are pending since before a moment; ``None`` for whenever.

        Whether they are pending may be left to :meth:`bury`.
        """

    def bury(self, connection: C_contra, seqs: Collection[int], reason: str, at: float) -> PendingChange:
        """Turn deliveries that the other statements have found into dead letters; return what they were."""

    def reopen(
        self, transaction: Tx_contra, seqs: Collection[int], after: Position, rule: LaneRule, at: float
    ) -> int:
        """Make delivered deliveries behind a position pending again, at their places; return how many."""

    def repartition(self, transaction: Tx_contra, rule: LaneRule, place: Any, limit: int) -> Moved:
        """Move the next pending deliveries from lanes of other generations to those of a rule.

        ``place`` is where the former step ended; ``None`` for the first.
        """


@dataclass(eq=False, repr=False)
class SteppedChanges(ABC, Generic[C, Tx, Now, Found]):
    """Bulk changes of what is pending; see :class:`hookgw.store.PendingChanges`."""

    _commits: GroupCommit[Tx]
    _reader: ConnectionReader[C]
    _clock: Clock
    _records: ShelvedRecords[C, Tx]
    _sql: PendingStatements[C, Tx, Now, Found]

    def __post_init__(self) -> None:
        self._searches = DeliverySearches(self._reader, self._sql)
        # Where the next step begins, only to save time.
        self._parked: Recent[tuple[str, str], Any] = Recent(MOST_WALKS)
        self._moved: Recent[LaneRule, Any] = Recent(MOST_WALKS)

    @abstractmethod
    async def _now(self) -> Now:
        """Return the moment of this call among the writes of this process."""

    @abstractmethod
    def _requeuing(self, found: Found, at: float) -> Callable[[Tx], int]:
        """Return what makes deliveries pending again, and counts them. Their order is that of these calls."""

    @abstractmethod
    def _resending(self, instance: str, seq: int, rule: LaneRule, at: float) -> Callable[[Tx], str | None]:
        """Return what makes one delivery pending again, and returns its lane."""

    async def _begin_replay(self) -> Now:
        """Return the moment of this call, once all settlements that were requested before can be read."""
        return await self._now()

    @abstractmethod
    async def _newest_event(self) -> int:
        """Return a number that is at least that of every event stored so far."""

    def _read_place(self, cursor: str) -> tuple[int, Now]:
        after, _, rest = cursor.partition("-")
        return cursor_number(after), self._sql.read_now(rest.partition("-")[0])

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
        now, at = self._sql.read_now(cursor), self._clock.steady()
        job = job and msgspec.structs.replace(job, cursor=cursor)
        after = self._parked.pop((registration, cursor))

        def park(transaction: Tx) -> tuple[int, Any]:
            # Inside the commit: all that was requested before is there, and nothing may be missed.
            found, place = self._sql.next_pending(
                transaction.connection, registration, now, after, STEP, spared
            )
            return sum(count for count, _ in self._bury(transaction, found, reason, at, job).values()), place

        count, place = await self._commits.call(park)
        if place is not None:
            self._parked.put((registration, cursor), place)
        return ParkStep(count, more=place is not None)

    async def drop_oldest(
        self,
        rule: LaneRule,
        instance: str,
        reason: str,
        *,
        count: int,
        size: int,
        spared: Collection[int] = (),
    ) -> tuple[int, int]:
        at = self._clock.steady()

        def drop(transaction: Tx) -> tuple[int, int]:
            while True:
                chosen, total = list[int](), 0
                for seq, bytes_of in self._sql.oldest_first(
                    transaction.connection, rule, instance, STEP, spared
                ):
                    if len(chosen) == STEP or (len(chosen) >= count and total >= size):
                        break
                    chosen.append(seq)
                    total += bytes_of
                gone = self._bury(transaction, chosen, reason, at)
                # Another node may have dropped or settled all of them before they were locked. That is no
                # sign that nothing is left: each node needs room of its own.
                if gone or not chosen:
                    return sum(count for count, _ in gone.values()), sum(size for _, size in gone.values())

        return await self._commits.call(drop)

    async def cancel_cursor(self) -> str:
        # The number of the event is for erasures.
        return f"0-{await self._now()}-{await self._newest_event()}"

    async def cancel_step(
        self,
        query: CancelQuery,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
        is_stored: bool = False,
        audit: Sequence[AuditEntry] = (),
    ) -> CancelStep:
        after, now = self._read_place(cursor)
        # Beside the commits, as in a replay: it may walk through a long backlog.
        found, last = await self._searches.find_pending(query, Bounds(after, now, STEP, SEARCH_ROWS), spared)
        next_cursor = None if last is None else f"{last}-{now}"
        if job is not None and next_cursor is None and not job.done and not is_stored:
            job = None  # one step needs no record
        if not found and (job is None or is_stored) and not audit:
            return CancelStep({}, next_cursor)  # nothing to write: thousands of parts of a job find nothing
        at = self._clock.steady()

        def cancel(transaction: Tx) -> dict[str, int]:
            meant = self._sql.still_meant(transaction.connection, found, now)
            self._records.write_audit(transaction, audit)
            counts: dict[str, int] = {}
            for (registration, _), (count, _) in self._bury(transaction, meant, reason, at, job).items():
                counts[registration] = counts.get(registration, 0) + count
            return counts

        return CancelStep(await self._commits.call(cancel), next_cursor)

    async def cancel_one(self, seq: int, reason: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        at = self._clock.steady()

        def cancel(transaction: Tx) -> bool:
            meant = self._sql.still_meant(transaction.connection, [seq], None)
            if gone := self._bury(transaction, meant, reason, at):
                self._records.write_audit(transaction, audit)
            return bool(gone)

        return await self._commits.call(cancel)

    def _bury(
        self, transaction: Tx, seqs: Collection[int], reason: str, at: float, job: Job | None = None
    ) -> PendingChange:
        """Turn deliveries into dead letters, and count them, also for the job; return what they were."""
        gone = self._sql.bury(transaction.connection, seqs, reason, at)
        total = sum(count for count, _ in gone.values())
        if gone:
            transaction.count_finished(gone)
            transaction.count_buried(at, gone)
            transaction.count_rows(total)
        self._records.write_job(transaction, job and job.advanced(total, job.cursor))
        return gone

    async def count_cancellable(self, query: CancelQuery, most: int) -> Mapping[str, int]:
        bounds = Bounds(0, await self._now(), most, SEARCH_ROWS)
        return await self._searches.count(
            partial(self._searches.find_pending, query, spared=()), bounds, most
        )

    async def count_replayable(
        self, query: ReplayQuery, rules: Mapping[str, LaneRule], most: int
    ) -> Mapping[str, int]:
        bounds = Bounds(0, await self._begin_replay(), REPLAY_STEP, SEARCH_ROWS)
        find = partial(self._searches.find_finished, query, rules, size=NO_LIMIT)
        return await self._searches.count(find, bounds, most)

    async def find_concerned(
        self, instance: str, value: str, cursor: str, *, pending: bool = False
    ) -> Concerned:
        *_, newest = cursor.split("-", 2)
        if cursor.startswith(_UNWANTED):
            at, _, after = cursor.removeprefix(_UNWANTED).partition("-")[0].partition(".")
            look = partial(self._sql.find_unwanted, instance=instance, value=value)
            place = cursor_number(at), cursor_number(after)
            found, last = await self._reader.run(
                partial(look, after=place, newest=cursor_number(newest.rpartition("-")[2]))
            )
            return Concerned(found, None if last is None else f"{_UNWANTED}{last[0]}.{last[1]}-{newest}")
        number, now = self._read_place(cursor)
        find = partial(self._sql.find_concerned, instance=instance, value=value, pending=pending)
        page = await self._reader.run(partial(find, after=number, now=now))
        if page.cursor is not None:
            return Concerned(page.events, f"{page.cursor}-{newest}")
        return page if pending else Concerned(page.events, f"{_UNWANTED}0.0-{newest}")

    async def erase(
        self,
        events: Collection[int],
        value: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> Erased:
        in_flight = set(spared)

        def erase(transaction: Tx) -> Erased:
            connection = transaction.connection
            rows = self._sql.find_deliveries(connection, events)
            left = {row.event for row in rows if row.seq in in_flight}
            gone = [row for row in rows if row.event not in left]
            removed = set(self._sql.find_events(connection, events)) - left
            if removed:
                transaction.count_finished(
                    weigh(
                        (row.registration, row.instance, row.size) for row in gone if row.state == "pending"
                    )
                )
                self._sql.remove_events(connection, [row.seq for row in gone], removed, person(value))
                transaction.count_rows(len(gone) + len(removed))
            self._records.write_job(
                transaction, job and job.advanced(len(gone), job.cursor, events=len(removed))
            )
            return Erased(events=len(removed), deliveries=len(gone), left=len(left))

        return await self._commits.call(erase)

    async def resend(
        self, instance: str, seq: int, rule: LaneRule, *, audit: Sequence[AuditEntry] = ()
    ) -> str | None:
        resend = self._resending(instance, seq, rule, self._clock.steady())

        def make_pending(transaction: Tx) -> str | None:
            lane = resend(transaction)
            if lane is not None:
                self._records.write_audit(transaction, audit)
            return lane

        return await self._commits.call(make_pending)

    async def reopen(
        self,
        seqs: Collection[int],
        after: Position,
        rule: LaneRule,
        *,
        audit: Sequence[AuditEntry] = (),
    ) -> int:
        at = self._clock.steady()

        def make_pending(transaction: Tx) -> int:
            count = self._sql.reopen(transaction, seqs, after, rule, at)
            if count:
                self._records.write_audit(transaction, audit)
            return count

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
        is_stored: bool = False,
        audit: Sequence[AuditEntry] = (),
    ) -> JobStep:
        if cursor is not None:
            after, now = self._read_place(cursor)
        else:
            # Of a stored job: the commit with it came after all that its caller knew.
            after, now = 0, await (self._now() if is_stored else self._begin_replay())
        # Beside the commits: a search with filters may walk through the whole history, in many steps.
        bounds = Bounds(after, now, min(count, REPLAY_STEP), SEARCH_ROWS)
        found, last = await self._find_finished(query, rules, bounds, size)
        next_cursor = None if last is None else f"{last}-{now}"
        if cursor is None and next_cursor is None and not is_stored:
            job = None  # one step needs no record
        if not found and (job is None or cursor is not None or next_cursor is None):
            # Nothing to write: a search that is cut off begins here again, and thousands of parts of a job
            # find nothing.
            return JobStep(0, next_cursor)
        at = self._clock.steady()
        requeue = self._requeuing(found, at)

        def replay(transaction: Tx) -> int:
            count = requeue(transaction)
            self._records.write_audit(transaction, audit)
            if job is not None:
                advanced = job.advanced(count, next_cursor)
                self._records.write_job(transaction, advanced if next_cursor else advanced.ended(at))
            return count

        return JobStep(await self._commits.call(replay), next_cursor)

    async def _find_finished(
        self, query: ReplayQuery, rules: Mapping[str, LaneRule], bounds: Bounds[Now], size: int
    ) -> tuple[Found, int | None]:
        return await self._searches.find_finished(query, rules, bounds, size)

    async def repartition_step(self, rule: LaneRule) -> bool:
        place = self._moved.pop(rule)

        def step(transaction: Tx) -> Moved:
            moved = self._sql.repartition(transaction, rule, place, STEP)
            transaction.count_rows(moved.rows)
            return moved

        moved = await self._commits.call(step)
        if moved.place is not None:
            self._moved.put(rule, moved.place)
        return moved.place is not None


def cursor_number(text: str) -> int:
    """Return a number of a cursor. Raises ``Invalid`` if it is none."""
    # 18 digits always fit 64-bit integers.
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise Invalid(CURSOR_OF_STEP)
