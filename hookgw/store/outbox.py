"""The pending deliveries: appended and read in order, and counted, in every engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol

from hookgw.concurrency.clock import Clock
from hookgw.records.deliveries import Attempt, Page, Position
from hookgw.records.fleet import ShardEpoch
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import AppendedEvent, AppendRequest, Tx
from hookgw.store.generations import read_generations
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import Append, ConnectorState, Held, LaneBacklog, PendingChange
from hookgw.store.shelves import ShelvedRecords

OUTBOX_PAGE_BYTES = 4 * 2**20
"""A page has no more payload and bodies than this, unless its first delivery alone has: lanes of large events
must not fill the memory."""


class OutboxStatements(Protocol[C_contra]):
    """What an engine brings, as a module; see the methods of the same names."""

    def read_lane(
        self,
        connection: C_contra,
        lane: str,
        after: Position,
        limit: int,
        size: int | None = None,
        before: Position | None = None,
    ) -> Page: ...

    def pending_lanes(self, connection: C_contra, registration: str | None = None) -> list[LaneBacklog]: ...

    def pending_counts(self, connection: C_contra) -> PendingChange: ...

    def count_pending(self, connection: C_contra, lane: str) -> int: ...

    def last_attempt(self, connection: C_contra, seq: int) -> Attempt | None: ...

    def transaction_of(self, place: Position) -> int: ...


@dataclass(eq=False, repr=False)
class CommittedOutbox(ABC, Generic[C, Tx]):
    """The pending deliveries; see :class:`hookgw.store.Outbox`.

    Args:
        lanes: reads pages of lanes, and nothing else, so that no long walk through an index holds lanes up.
        known_version: returns the version of the records that events are addressed by; ``None`` if only this
            process changes records.
        held: returns what is held back: nothing if a file has one writer.
    """

    _commits: GroupCommit[Tx]
    _lanes: ConnectionReader[C]
    _background: ConnectionReader[C]
    _clock: Clock
    _records: ShelvedRecords[C, Tx]
    _sql: OutboxStatements[C]
    _known_version: Callable[[], int] | None
    held: Callable[[], Held]

    def __post_init__(self) -> None:
        # The methods themselves, without a wrapper: settle_nowait runs once for every attempt.
        self.settle_nowait = self._commits.settle_nowait
        self.wait_settled = self._commits.wait_settled
        self.wait_settle_capacity = self._commits.wait_settle_capacity
        self.flush = self._commits.flush
        self.subscribe = self._commits.subscribe
        self.read_lane = self._lanes.bound(self._sql.read_lane)
        self.last_attempt = self._lanes.bound(self._sql.last_attempt)
        self.pending_lanes = self._background.bound(self._sql.pending_lanes)
        self.pending_counts = self._background.bound(self._sql.pending_counts)
        self.count_pending = self._background.bound(self._sql.count_pending)

    @abstractmethod
    def _new_events(self, appends: Sequence[Append], now: float) -> list[AppendedEvent]:
        """Return what is to be appended. Concurrent calls must not mix."""

    def append(
        self,
        appends: Sequence[Append],
        *,
        state: ConnectorState | None = None,
        epoch: ShardEpoch | None = None,
    ) -> Coroutine[Any, Any, list[bool]]:
        news = self._new_events(appends, self._clock.steady())
        also = None if state is None else partial(self._records.write_state, state=state)
        job = AppendRequest(news, also)
        job.version, job.epoch = self._known_version and self._known_version(), epoch
        self._commits.append_nowait(job)
        return job.wait_finished()

    async def generation(self) -> str:
        return (await self._lanes.run(read_generations)).current

    async def has_place(self, generation: str, position: Position) -> bool:
        generations = await self._lanes.run(read_generations)
        return generations.has(generation, self._sql.transaction_of(position))
