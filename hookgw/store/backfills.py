"""Backfills in every engine: a search beside the commits, then a commit that looks again.

The search goes through the log (:mod:`hookgw.store.log`): first its entries, then the events without entries.
A cursor has the place of the last event that it looked at, and how many deliveries were made.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, Protocol

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.kernel.errors import Conflict, Invalid
from hookgw.kernel.sentences import Sentence
from hookgw.records.audit import AuditEntry
from hookgw.records.deliveries import Position
from hookgw.records.event_filters import EventFilter
from hookgw.records.events import Event
from hookgw.records.jobs import BackfillScope, Job
from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Registration
from hookgw.records.sentences import CURSOR_OF_STEP
from hookgw.store import steps
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.generations import read_generations
from hookgw.store.log import Place
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import BackfillQuery, JobStep, Missed, MissedPart, seconds
from hookgw.store.searches import LAST
from hookgw.store.shelves import ShelvedRecords

BEGIN: Place = (-(2**62), 0)
"""Before every event."""
# Numbers of 18 digits always fit 64-bit integers. Those of transactions are negative after a restore.
_CURSOR = re.compile(r"(-?[0-9]{1,19})\.([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)

READ_EVENTS = 50
"""At most this many payloads are in memory at a time."""

OTHER_STORAGE = Sentence(
    "backfill.other_storage",
    "The storage was copied or restored since the backfill began, so its place in the order is gone. What it "
    "had made until then is kept. Make the call again.",
)


class Reserved(NamedTuple):
    """The place in the lanes that is kept free for the deliveries of a backfill.

    Attributes:
        first: the engine's number of the place; what it counts is the engine's own business.
        newest: the number of the newest event that can have been missed.
        barrier: the position behind the place.
        generation: of the log at the call: another one means that the storage was copied or restored.
    """

    first: int
    newest: int
    barrier: Position
    generation: str


class MissedEvent(NamedTuple):
    """An event that a search has found.

    Attributes:
        place: where it is in the log.
        dead: the number of its dead letter, if it has one.
    """

    place: Place
    id: str
    time: int
    size: int
    dead: int | None

    @property
    def seq(self) -> int:
        return self.place[1]


class MissedSearch(NamedTuple):
    """What a search looks at. The conditions on payloads are not checked.

    Attributes:
        reserved: tells dead letters of before a backfill from its own; ``None`` if there is none yet.
        after: only events behind this place.
        limit: the most events to return.
        rows: the most events to look at.
    """

    query: BackfillQuery
    reserved: Reserved | None
    after: Place
    limit: int
    rows: int

    @property
    def newest(self) -> int:
        """The number of the newest event that the search looks at."""
        return LAST if self.reserved is None else self.reserved.newest


class BackfillStep(NamedTuple):
    """A step that makes deliveries of missed events.

    Attributes:
        first_number: the number of the first event in this backfill; the next ones follow, also those of
            events that are skipped. See ``_first_number`` of :class:`SteppedBackfills`.
        at: the time from which their age counts.
    """

    query: BackfillQuery
    rule: LaneRule
    reserved: Reserved
    found: Sequence[MissedEvent]
    first_number: int
    at: float


class BackfillStatements(Protocol[C_contra, Tx_contra]):
    """What an engine brings, as a module."""

    def look(self, connection: C_contra, search: MissedSearch) -> tuple[list[MissedEvent], Place | None]:
        """Return missed events in order, and behind which place the search goes on; ``None`` at the end."""

    def read_events(
        self, connection: C_contra, instance: str, seqs: Sequence[int]
    ) -> Iterator[tuple[int, Event]]:
        """Read some events with their payloads, in any order. Those that are gone are left out."""

    def make(self, transaction: Tx_contra, step: BackfillStep) -> int:
        """Make deliveries of missed events, unless there are some by now; return how many."""


@dataclass(eq=False, repr=False)
class SteppedBackfills(ABC, Generic[C, Tx]):
    """Deliveries made from the log; see :class:`hookgw.store.Backfills`."""

    _commits: GroupCommit[Tx]
    _reader: ConnectionReader[C]
    _clock: Clock
    _records: ShelvedRecords[C, Tx]
    _sql: BackfillStatements[C, Tx]

    @abstractmethod
    async def _reserve(self, store: Callable[[Tx, str], Job]) -> Job:
        """Keep a place free, and store the job with it.

        Args:
            store: takes the open transaction, and the barrier's text; stores the job, and returns it.
        """

    @abstractmethod
    def _read_barrier(self, barrier: str) -> Reserved | None:
        """Return the place that the text of a barrier names; ``None`` if it is none of this engine."""

    @abstractmethod
    def _first_number(self, made: int, count: int) -> int:
        """Return the first of ``count`` numbers for a step. The steps before have given ``made`` of them."""

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
            text = f"{barrier}.{read_generations(transaction.connection).current}"
            begun = msgspec.structs.replace(
                job, backfill=msgspec.structs.replace(scope_of(job), barrier=text)
            )
            self._records.write_job(transaction, begun)
            if registration is None:
                self._records.write_audit(transaction, audit)
            else:
                self._records.write_registration(transaction, registration, due=due, job=parking, audit=audit)
            return begun

        return await self._reserve(store)

    def backfill_barrier(self, job: Job) -> Position:
        return self._reserved(job).barrier

    def _reserved(self, job: Job) -> Reserved:
        reserved = self._read_barrier(scope_of(job).barrier)
        if reserved is None:
            raise Conflict(OTHER_STORAGE)
        return reserved

    async def find_missed(self, query: BackfillQuery, cursor: str | None) -> MissedPart:
        after, _ = _read_cursor(cursor)
        found, last = await self._find(query, None, after, steps.REPLAY_STEP)
        missed = [Missed(one.id, seconds(one.time)) for one in found]
        return MissedPart(
            len(missed),
            missed[0] if missed else None,
            missed[-1] if missed else None,
            None if last is None else _cursor(last, 0),
        )

    async def backfill_step(
        self, query: BackfillQuery, rule: LaneRule, job: Job, *, count: int, size: int
    ) -> JobStep:
        reserved, at = self._reserved(job), self._clock.steady()
        after, number = _read_cursor(job.cursor)
        # Beside the commits: a search with filters may walk through the whole log, in many steps.
        found, last = await self._find(query, reserved, after, min(count, steps.REPLAY_STEP))
        total = 0
        for place, one in enumerate(found):
            total += one.size
            if place and total > size:
                found, last = found[:place], found[place - 1].place
                break
        cursor = None if last is None else _cursor(last, number + len(found))
        first_number = self._first_number(number, len(found))

        def make(transaction: Tx) -> JobStep:
            # Its place in the lanes was stored with the job: after a promotion, too, it is free.
            if not read_generations(transaction.connection).has(reserved.generation, -LAST):
                raise Conflict(OTHER_STORAGE)
            stored = self._records.read_job(transaction, job.id)
            if stored is not None and stored.cursor != job.cursor:
                # The step is done already, and its answer was lost. Positions are counted from its cursor.
                return JobStep(stored.done - job.done, stored.cursor)
            made = self._sql.make(transaction, BackfillStep(query, rule, reserved, found, first_number, at))
            advanced = job.advanced(made, cursor)
            self._records.write_job(transaction, advanced if cursor else advanced.ended(at))
            return JobStep(made, cursor)

        return await self._commits.call(make)

    async def _find(
        self, query: BackfillQuery, reserved: Reserved | None, after: Place, limit: int
    ) -> tuple[list[MissedEvent], Place | None]:
        filters = [
            EventFilter(conditions, with_files=query.with_files) for conditions in query.filters if conditions
        ]

        def find(connection: C) -> tuple[list[MissedEvent], Place | None]:
            search = MissedSearch(query, reserved, after, limit, steps.SEARCH_ROWS)
            found, last = self._sql.look(connection, search)
            if filters:
                meets = set()  # all conditions: the lane asks the same of them
                seqs = iter([one.seq for one in found])
                while part := list(islice(seqs, READ_EVENTS)):
                    for seq, event in self._sql.read_events(connection, query.instance, part):
                        if all(one.unmet(event) is None for one in filters):
                            meets.add(seq)
                found = [one for one in found if one.seq in meets]
            return found, last

        return await self._reader.run(find)


def _cursor(place: Place, made: int) -> str:
    return f"{place[0]}.{place[1]}.{made}"


def _read_cursor(text: str | None) -> tuple[Place, int]:
    """Return the place behind which a search begins, and how many positions were given."""
    if text is None:
        return BEGIN, 0
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Invalid(CURSOR_OF_STEP)
    xid, seq, made = map(int, match.groups())
    return (xid, seq), made


def scope_of(job: Job) -> BackfillScope:
    assert job.backfill is not None  # noqa: S101 -- or it would be no backfill
    return job.backfill
