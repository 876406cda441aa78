"""The store's face for deliveries that are sent again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hookgw.models.clock import Clock
from hookgw.models.events import Event
from hookgw.models.registrations import Registration
from hookgw.store.encryption import RecordCipher
from hookgw.store.records import ReplayQuery
from hookgw.store.sqlite import requeue
from hookgw.store.sqlite.group_commit import GroupCommit
from hookgw.store.sqlite.reader import Reader
from hookgw.store.sqlite.sequence import SequenceNumbers
from hookgw.store.sqlite.store_shelves import ShelfAccess
from hookgw.store.sqlite.transaction import Transaction

REPLAY_STEP = 1_000
"""How many deliveries are replayed in one commit."""


class RequeueAccess(ShelfAccess):
    """Makes finished deliveries pending again, each at the end of its lane.

    They keep their numbers, attempts and stored bodies; their failures and their age begin anew. A
    stored body is sent again byte for byte.

    Error handling: as for :class:`ShelfAccess`.
    """

    def __init__(
        self,
        committer: GroupCommit,
        queries: Reader,
        clock: Clock,
        numbering: SequenceNumbers,
        sealer: RecordCipher | None,
    ) -> None:
        super().__init__(committer, queries, sealer)
        self._clock = clock
        self._numbering = numbering

    @property
    def on_requeued(self) -> Callable[[Mapping[str, int]], None]:
        """Called in the Trio thread after each commit that made deliveries pending again.

        It gets how many by lane, before ``on_appended`` is called for that commit and before any waiter
        runs. It must neither block nor raise: what it raises ends the store.
        """
        return self._committer.on_requeued

    @on_requeued.setter
    def on_requeued(self, function: Callable[[Mapping[str, int]], None]) -> None:
        self._committer.on_requeued = function

    async def resend(self, instance: str, seq: int, lane_of: Callable[[Event], str] | str) -> str | None:
        """Make a finished delivery pending again, behind all that was asked for before.

        Args:
            instance: the instance's name.
            seq: the delivery's number.
            lane_of: gives the lane of its event, or is the lane, by the registration as it is now.

        Returns:
            The lane in which it waits; ``None`` where the instance has no such delivery, or it is
            pending already.
        """
        position, now = self._numbering.positions(1), self._clock.steady()

        def resend(transaction: Transaction) -> str | None:
            return transaction.resend(instance, seq, lane_of, position, now)

        return await self.write(resend)

    async def replay(
        self,
        query: ReplayQuery,
        registrations: Callable[[], Mapping[str, Registration]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Make finished deliveries pending again, in their original order, up to the newest of now.

        It goes on in steps of :data:`REPLAY_STEP`, each a commit of its own, so it needs little memory
        and others have their turn. Being cut off, even by a kill, leaves the later ones as they were;
        asking once more for dead letters goes on from there.

        Args:
            query: which ones.
            registrations: gives the registrations that take part as they are now, by id; it is called
                for each step. Deliveries to others are left alone.
            progress: called after each step with how many there were so far.

        Returns:
            How many there were.
        """
        newest, after, total = self._numbering.newest, 0, 0
        await self.write(_nothing)  # so that the outcomes of which others know are seen
        while True:
            taking_part = registrations()
            found = await self._queries.run(
                partial(
                    requeue.find,
                    query=query,
                    registrations=taking_part,
                    after=after,
                    newest=newest,
                    limit=REPLAY_STEP,
                )
            )
            if not found:
                return total
            if registrations() != taking_part:
                continue  # they may belong into other lanes now
            total += await self._requeue(found)
            after = max(found)
            if progress is not None:
                progress(total)

    async def _requeue(self, chosen: Mapping[int, str]) -> int:
        position, now = self._numbering.positions(len(chosen)), self._clock.steady()
        return await self.write(lambda transaction: transaction.requeue(chosen, position, now))


def _nothing(transaction: Transaction) -> None:
    """Take part in a commit, to learn that all before it is on disk."""
