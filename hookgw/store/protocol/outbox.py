"""The contract of the outbox: the pending deliveries, appended once, read in order by lane, settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hookgw.records.deliveries import Attempt, Delivery, Page, Position, Settlement
from hookgw.records.fleet import ShardEpoch
from hookgw.store.records import Append, ConnectorState, Held, LaneBacklog, PendingChange


class StoreListener(Protocol):
    """Hears of commits, in the Trio thread, before other tasks run.

    For one commit the calls come in this order: ``requeued``, ``changed``, ``appended``. The waiters of the
    commit are woken before ``appended``: a producer need not wait until lanes have begun to send. No method
    may block or raise: what one raises ends the store.
    """

    def requeued(self, lanes: Mapping[str, int]) -> None:
        """Finished deliveries are pending again, at the end of their lanes: how many, by lane key."""

    def appended(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries were appended, in the order of their positions, each once."""

    def changed(self, change: PendingChange) -> None:
        """What is pending changed by other means than appending.

        Deliveries of a retired instance are reported under the name that it has in the storage by then.
        """


class Outbox(Protocol):
    async def append(
        self,
        appends: Sequence[Append],
        *,
        state: ConnectorState | None = None,
        epoch: ShardEpoch | None = None,
    ) -> list[bool]:
        """Store events and one pending delivery for each of their targets: all of them or none.

        Cancellation does not end the wait: events cannot be taken back.

        Args:
            appends: in the order of delivery; may be empty.
            state: replaces the state of a connector, in the same commit, even if all events are duplicates.
                The caller makes sure that the instance exists.
            epoch: the events are those of a connector, and are stored only if this node of a fleet holds the
                connector's shard in that epoch; ``None`` for whatever comes from elsewhere.

        Returns:
            For each event whether it was stored. ``False`` is a duplicate: the instance has an event of that
            id, stored before or earlier in the list.

        Raises:
            Invalid: an event holds a value that the engine cannot store.
            StorageUnavailable: the storage refuses, or the shard is another node's by now.
        """

    async def read_lane(
        self,
        lane: str,
        after: Position,
        limit: int,
        size: int | None = None,
        before: Position | None = None,
    ) -> Page:
        """Read the next pending deliveries of a lane, with events and stored bodies, in order.

        Args:
            after: only deliveries behind this position; ``FIRST`` for all.
            size: the most bytes of payloads and bodies, even if that is no delivery at all; ``None`` for
                4 MiB, or one delivery that is larger.
            before: only deliveries before this position, as if there were no others; ``None`` for all.

        Returns:
            The deliveries, whether the lane has more, and the bytes of the first one, read or not. Events of
            a retired instance have the name with which they were accepted.
        """

    def settle_nowait(self, settlement: Settlement) -> int:
        """Write the outcome of a delivery with a later commit, retried for as long as the storage refuses.

        It applies to a delivery that is pending at that moment, and is ignored otherwise. The number that it
        returns is for :meth:`wait_settled`.
        """

    async def wait_settled(self, number: int | None = None) -> None:
        """Wait until a settlement is on disk, however long the storage refuses, or the store is closed.

        It hurries the commit. No checkpoint if the settlement is on disk already, or the number is 0.

        Args:
            number: from :meth:`settle_nowait`; ``None`` for the last settlement.
        """

    async def wait_settle_capacity(self) -> None:
        """Wait while more than 10,000 settlements are queued. No checkpoint while there is room."""

    async def flush(self) -> None:
        """Wait until everything requested before is on disk, however long the storage refuses."""

    async def pending_lanes(self, registration: str | None = None) -> list[LaneBacklog]:
        """Return the lanes with pending deliveries, and how many each has: of one registration, or all."""

    async def pending_counts(self) -> PendingChange:
        """Return the count and payload bytes of pending deliveries, by registration id and instance."""

    async def count_pending(self, lane: str) -> int: ...

    def held(self) -> Held:
        """Return the deliveries that no lane may read yet, because of something outside of hookgw.

        It is what was found last, some seconds ago. What waits for no more than about a second, as for a
        commit of another process, is not part of it; in a fleet, neither are lanes of other nodes.
        """

    async def last_attempt(self, seq: int) -> Attempt | None:
        """Return the newest attempt of a delivery; ``None`` if there was none."""

    async def generation(self) -> str:
        """Return what names the positions and numbers of deliveries, in 12 hexadecimal digits.

        After a restore or a copy it is another one, because others have the same positions and numbers then.
        """

    async def has_place(self, generation: str, position: Position) -> bool:
        """Return whether a position that was given in a generation is what it was.

        After a promotion that is so for all that the promoted server had.
        """

    def subscribe(self, listener: StoreListener) -> None:
        """Report commits to a listener from now on. There is one; it is set once, before the first append."""
