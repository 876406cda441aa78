"""The contract of bulk changes of what is pending."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from hookgw.records.audit import AuditEntry
from hookgw.records.deliveries import Position
from hookgw.records.jobs import Job
from hookgw.records.lanes import LaneRule
from hookgw.store.records import (
    NO_LIMIT,
    CancelQuery,
    CancelStep,
    Concerned,
    Erased,
    JobStep,
    ParkStep,
    ReplayQuery,
)


class PendingChanges(Protocol):
    """Bulk changes of what is pending, in commits of bounded size, so that others write between them.

    What the methods have in common:

    - ``reason`` is a sentence.
    - ``spared`` are numbers of deliveries that stay pending, because an attempt is in flight.
    - ``job`` is the job that a call is a step of. It is stored in the same commit, advanced by the step.
    - ``audit`` has entries that are stored in the same commit, unless nothing changes.
    - A step returns the cursor of the next one, or whether there may be more.
    """

    async def park_cursor(self) -> str:
        """Return the cursor for parking what is appended, or made pending again, until now.

        Now is the moment of the call: what this process asks for later does not count, even if it is on disk
        before this returns. Writes of other processes count if they were acknowledged before the call.
        """

    async def park_step(
        self,
        registration: str,
        reason: str,
        cursor: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> ParkStep:
        """Turn pending deliveries of a registration, in any of its lanes, into dead letters: some of them.

        The cursor from :meth:`park_cursor` is the same for every step: later deliveries stay pending.
        """

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
        """Turn the oldest pending deliveries of one instance to one registration into dead letters.

        It is one bounded commit. In a lane that instances share, the search is bounded, too. Returns how many
        were dropped, and the bytes of their payloads.

        Args:
            rule: of the registration. Its deliveries of other instances stay.
            count, size: how many deliveries to drop, and how many payload bytes: at least both, but no more
                than fits in one commit.
        """

    async def cancel_cursor(self) -> str:
        """Return the cursor of the first step that cancels what is pending now; see :meth:`park_cursor`."""

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
        """Turn the next selected pending deliveries into dead letters.

        Args:
            cursor: from :meth:`cancel_cursor`, then what the step before returned. What is appended, or made
                pending again, after the first one was made stays pending. The first cursor may be used
                again: what is left is found then.
            job: keeps the cursor that it has; not stored by the last step of a job that has done nothing
                before, unless it ``is_stored`` already.
            audit: entries that the same commit writes in any case.
        """

    async def cancel_one(self, seq: int, reason: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Turn one pending delivery into a dead letter; return whether it was pending.

        The call takes its place among the writes before its first checkpoint: a settlement that was
        requested before it comes first, and one that is requested after it is ignored.
        """

    async def count_cancellable(self, query: CancelQuery, most: int) -> Mapping[str, int]:
        """Count the pending deliveries that a query selects, by registration; it ends at about ``most``."""

    async def count_replayable(
        self, query: ReplayQuery, rules: Mapping[str, LaneRule], most: int
    ) -> Mapping[str, int]:
        """Count the finished deliveries that a replay would send, as :meth:`count_cancellable` does."""

    async def find_concerned(
        self, instance: str, value: str, cursor: str, *, pending: bool = False
    ) -> Concerned:
        """Find the next events of an instance whose payload concerns a person; a bounded search.

        Args:
            value: what names the person. The payload has it as a string, or as the name of a member, at any
                depth. Of a person on WhatsApp, all names with the same ``plain_jid`` count
                (``5511…:7@s.whatsapp.net``, ``5511…@c.us``).
            cursor: from :meth:`cancel_cursor`, then what the step before returned: later events are not
                found. The first cursor may be used again.
            pending: only events with pending deliveries.
        """

    async def erase(
        self,
        events: Collection[int],
        value: str,
        *,
        spared: Collection[int] = (),
        job: Job | None = None,
    ) -> Erased:
        """Remove events with all of their deliveries, attempts and bodies, whatever their state.

        The bytes are overwritten, not only marked as free, if the engine can do that. Ids stay for as long as
        others do, so that a second copy of an event is noticed; but ids that contain the person's address or
        number go. Nothing may be read from the lanes of these deliveries meanwhile.

        Args:
            events: from :meth:`find_concerned`. Those that are gone by now are skipped.
            value: as for :meth:`find_concerned`.
            spared: their events stay.
        """

    async def resend(
        self, instance: str, seq: int, rule: LaneRule, *, audit: Sequence[AuditEntry] = ()
    ) -> str | None:
        """Make a finished delivery pending again, at the end of its lane, by its registration's rule.

        The delivery keeps its number, attempts and stored body; its failures and age start anew.

        Returns:
            The lane's key; ``None`` if the instance has no such delivery, or it is pending.
        """

    async def reopen(
        self,
        seqs: Collection[int],
        after: Position,
        rule: LaneRule,
        *,
        audit: Sequence[AuditEntry] = (),
    ) -> int:
        """Make delivered deliveries of a registration pending again, at the places that they had.

        It is one commit: give it a few hundred. Those that are not delivered, and those at or before the
        position, stay as they are. The lanes of the registration must read from the start after it.

        Returns:
            How many are pending now.
        """

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
        """Make the next finished deliveries of a replay pending again, in their original order.

        Args:
            rules: of the registrations that take part, by id. Deliveries to others are left alone.
            cursor: ``None`` for the first step, then what the step before returned. The first step fixes
                the newest delivery that takes part, so that a replay ends.
            count, size: the most deliveries, and the most payload bytes unless the first delivery alone has
                more. The engine bounds a step, too. With a count of 0, a first step only fixes its newest
                delivery.
            job: ended by the last step; not stored by a first step that is also the last, unless it
                ``is_stored`` already: the next start would begin it again.
        """

    async def repartition_step(self, rule: LaneRule) -> bool:
        """Move pending deliveries of a registration from lanes of other generations to those of its rule.

        Deliveries keep their positions, so the order per key holds. Nothing may be read from, or in flight
        in, any lane of the registration until the last step is done.
        """
