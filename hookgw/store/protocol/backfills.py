"""The contract of backfills: deliveries that are made from the log of events, for one registration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookgw.records.audit import AuditEntry
from hookgw.records.deliveries import Position
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.records.registrations import Registration
from hookgw.store.records import BackfillQuery, JobStep, MissedPart


class Backfills(Protocol):
    """Deliveries of events that are in the log, and that one registration has missed.

    An event is left out if some of its deliveries were pruned already: they may have been the registration's.

    Their place in the lanes is kept free by the call that asks for them: behind everything that was made
    pending before the call, and before everything after it. Among themselves they have the order in which
    the events were accepted. Until the last of them is there, no lane of the registration may send what lies
    behind that place: its end is the *barrier*.
    """

    async def begin_backfill(
        self,
        job: Job,
        *,
        registration: Registration | None = None,
        due: bool = False,
        parking: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> Job:
        """Store a job, and keep the place of its deliveries free, in one commit.

        No lane of the registration may send anything before :meth:`backfill_barrier` of the job holds.

        Args:
            registration, due, parking: as ``registration``, ``due`` and ``job`` of
                :meth:`Records.put_registration`, in the same commit.

        Returns:
            The job with its barrier.
        """

    def backfill_barrier(self, job: Job) -> Position:
        """Return the position before which lanes of the registration may send while the job runs.

        Raises:
            Conflict: the storage was copied from another one, or restored on another server, since the job
                began: there is no such place in it. The sentence says so.
        """

    async def find_missed(self, query: BackfillQuery, cursor: str | None) -> MissedPart:
        """Find the next missed events, the oldest first; a bounded search.

        Args:
            cursor: ``None`` for the first part, then what the part before returned.
        """

    async def backfill_step(
        self, query: BackfillQuery, rule: LaneRule, job: Job, *, count: int, size: int
    ) -> JobStep:
        """Make the next deliveries of a job, in one commit with the job.

        Whatever the registration has a delivery of by then is left out, but for its dead letters if the query
        wants them. Those keep their numbers, attempts and bodies, and become pending again. Ages begin now.

        Args:
            rule: of the registration.
            job: from :meth:`begin_backfill`, advanced by the steps before, and ended by the last one.
            count, size: the most deliveries, and the most payload bytes unless the first one alone has more.
                The engine bounds a step, too.

        Raises:
            Conflict: as for :meth:`backfill_barrier`, and nothing has changed.
        """
