"""Backfills in every engine: a search beside the commits, then a commit that looks again.

The cursor of a search is the number of the last event that it looked at: numbers have the order in which
events were accepted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Generic, NamedTuple, Protocol

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.kernel.errors import Conflict
from hookgw.records.audit import AuditEntry
from hookgw.records.deliveries import Position
from hookgw.records.event_filters import EventFilter
from hookgw.records.events import Event
from hookgw.records.jobs import BackfillScope, Job
from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Registration
from hookgw.store import steps
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import BackfillQuery, BackfillStep, Missed, MissedPart, seconds
from hookgw.store.searches import LAST
from hookgw.store.shelves import ShelvedRecords
from hookgw.store.steps import cursor_number, end_of_search

READ_EVENTS = 50
"""At most this many payloads are in memory at a time."""

OTHER_STORAGE = (
    "The storage was copied or restored since the backfill began, so its place in the order is gone. What it "
    "had made until then is kept. Make the call again."
)


class Place(NamedTuple):
    """Where the deliveries of a backfill have their place in the lanes.

    Attributes:
        first: the engine's number of the place; what it counts is the engine's own business.
        newest: the number of the newest event that can have been missed.
        barrier: the position behind the place.
    """

    first: int
    newest: int
    barrier: Position


class MissedEvent(NamedTuple):
    """An event that a search has found; ``dead`` is the number of its dead letter, if it has one."""

    seq: int
    id: str
    time: int
    size: int
    dead: int | None


class BackfillStatements(Protocol[C_contra]):
    """What an engine brings, as a module."""

    def look(
        self,
        connection: C_contra,
        query: BackfillQuery,
        place: Place | None,
        *,
        after: int,
        limit: int,
        rows: int,
    ) -> tuple[list[MissedEvent], int, int | None]:
        """Find missed events behind a number, at most ``limit``, looking at ``rows`` events at most.

        ``place`` tells dead letters of before a backfill from its own; ``None`` if there is none yet.
        The conditions on payloads are not checked.

        Returns:
            The events in order, how many were looked at, and the last number among those.
        """

    def read_events(
        self, connection: C_contra, instance: str, seqs: Sequence[int]
    ) -> Iterator[tuple[int, Event]]:
        """Read some events with their payloads, in any order. Those that are gone are left out."""


class SteppedBackfills(ABC, Generic[C, Tx]):
    """Deliveries made from the log; see :class:`hookgw.store.Backfills`."""

    def __init__(
        self,
        commits: GroupCommit[Tx],
        reader: ConnectionReader[C],
        clock: Clock,
        records: ShelvedRecords[C, Tx],
        statements: BackfillStatements[C],
    ) -> None:
        self._commits = commits
        self._reader = reader
        self._clock = clock
        self._records = records
        self._sql = statements

    @abstractmethod
    async def _reserve(self, store: Callable[[Tx, str], Job]) -> Job:
        """Keep a place free, and store the job with it.

        Args:
            store: takes the open transaction, and the barrier's text; stores the job, and returns it.
        """

    @abstractmethod
    def _place(self, barrier: str) -> Place | None:
        """Return the place that the text of a barrier names; ``None`` if it is none of this storage."""

    @abstractmethod
    def _making(
        self, query: BackfillQuery, rule: LaneRule, place: Place, found: Sequence[MissedEvent], at: float
    ) -> Callable[[Tx], int]:
        """Return what makes deliveries of missed events, unless there are some by now, and counts them."""

    def _is_valid(self, transaction: Tx, place: Place) -> bool:  # noqa: ARG002
        """Return whether a place is one of this storage, as far as only the storage itself knows."""
        return True

    async def begin_backfill(
        self,
        job: Job,
        *,
        registration: Registration | None = None,
        due: bool = False,
        parking: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Job:
        def store(transaction: Tx, barrier: str) -> Job:
            begun = msgspec.structs.replace(
                job, backfill=msgspec.structs.replace(_scope(job), barrier=barrier)
            )
            self._records.write_job(transaction, begun)
            if registration is None:
                self._records.write_audit(transaction, audit)
            else:
                self._records.write_registration(transaction, registration, due=due, job=parking, audit=audit)
            return begun

        return await self._reserve(store)

    def backfill_barrier(self, job: Job) -> Position:
        return self._known_place(job).barrier

    def _known_place(self, job: Job) -> Place:
        place = self._place(_scope(job).barrier)
        if place is None:
            raise Conflict(OTHER_STORAGE)
        return place

    async def find_missed(self, query: BackfillQuery, cursor: str | None) -> MissedPart:
        after = 0 if cursor is None else cursor_number(cursor)
        found, last = await self._find(query, None, after, steps.REPLAY_STEP)
        missed = [Missed(one.id, seconds(one.time)) for one in found]
        return MissedPart(
            len(missed),
            missed[0] if missed else None,
            missed[-1] if missed else None,
            None if last is None else str(last),
        )

    async def backfill_step(
        self, query: BackfillQuery, rule: LaneRule, job: Job, *, count: int, size: int
    ) -> BackfillStep:
        place, at = self._known_place(job), self._clock.steady()
        after = 0 if job.cursor is None else cursor_number(job.cursor)
        # Beside the commits: a search with filters may walk through the whole log, in many steps.
        found, last = await self._find(query, place, after, min(count, steps.REPLAY_STEP))
        total = 0
        for number, one in enumerate(found):
            total += one.size
            if number and total > size:
                found, last = found[:number], found[number - 1].seq
                break
        cursor = None if last is None else str(last)
        make_deliveries = self._making(query, rule, place, found, at)

        def make(transaction: Tx) -> int:
            if not self._is_valid(transaction, place):
                raise Conflict(OTHER_STORAGE)
            made = make_deliveries(transaction)
            advanced = job.advanced(made, cursor)
            self._records.write_job(transaction, advanced if cursor else advanced.ended(at))
            return made

        return BackfillStep(await self._commits.call(make), cursor)

    async def _find(
        self, query: BackfillQuery, place: Place | None, after: int, limit: int
    ) -> tuple[list[MissedEvent], int | None]:
        rows = steps.SEARCH_ROWS
        filters = [
            EventFilter(conditions, with_files=query.with_files) for conditions in query.filters if conditions
        ]

        def find(connection: C) -> tuple[list[MissedEvent], int | None]:
            found, looked_at, last = self._sql.look(
                connection, query, place, after=after, limit=limit, rows=rows
            )
            end = end_of_search([one.seq for one in found], limit, after, last, is_end=looked_at < rows)
            if filters:
                meets = self._meeting(connection, query.instance, found, filters)
                found = [one for one in found if one.seq in meets]
            return found, end

        return await self._reader.run(find)

    def _meeting(
        self, connection: C, instance: str, found: Sequence[MissedEvent], filters: Sequence[EventFilter]
    ) -> set[int]:
        """Return the numbers of the events that meet all conditions: the lane asks the same of them."""
        meets = set()
        seqs = iter([one.seq for one in found])
        while part := list(islice(seqs, READ_EVENTS)):
            for seq, event in self._sql.read_events(connection, instance, part):
                if all(one.unmet(event) is None for one in filters):
                    meets.add(seq)
        return meets


def newest_of(place: Place | None) -> int:
    """Return the number of the newest event that a search looks at."""
    return LAST if place is None else place.newest


def _scope(job: Job) -> BackfillScope:
    assert job.backfill is not None  # noqa: S101 -- or it would be no backfill
    return job.backfill
