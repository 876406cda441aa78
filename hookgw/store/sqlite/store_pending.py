"""The store's face for pending deliveries that are moved to other lanes, parked, or dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hookgw.models.events import Event
from hookgw.store.sqlite.relane import START, Cursor
from hookgw.store.sqlite.store_requeue import RequeueAccess
from hookgw.store.sqlite.transaction import Transaction

MOVING_STEP = 2_500
"""How many deliveries are moved, parked or dropped in one commit."""


class MovingAccess(RequeueAccess):
    """Changes where the pending deliveries of one registration are, in steps that hold nobody up.

    Error handling: as for :class:`ShelfAccess`; steps that were done before stay done.
    """

    async def relane(
        self, registration: str, lanes: Sequence[str], lane_of: Callable[[Event], str] | str
    ) -> None:
        """Move the pending deliveries of a registration to other lanes; they keep their places.

        Args:
            registration: its id.
            lanes: those they can be in. Nothing may be put into them meanwhile.
            lane_of: gives the new lane of an event, or is the new lane of all, which is faster.
        """
        place: Cursor | None = START
        while place is not None:
            place = await self.relane_some(registration, lanes, lane_of, place)

    async def relane_some(
        self,
        registration: str,
        lanes: Sequence[str],
        lane_of: Callable[[Event], str] | str,
        place: Cursor = START,
    ) -> Cursor | None:
        """One step of :meth:`relane`; with the last one the note that there is a move goes.

        Args:
            registration, lanes, lane_of: as there, the same for all steps of a walk.
            place: where to begin.

        Returns:
            Where the next step begins; ``None`` where all is done.
        """

        def step(transaction: Transaction) -> Cursor | None:
            then = transaction.relane(registration, lanes, lane_of, place, MOVING_STEP)
            if then is None:
                transaction.moves.pop(registration, None)
            return then

        return await self.write(step)

    async def park(
        self, registration: str, lanes: Sequence[str], reason: str, at: float, *, spared: Collection[int] = ()
    ) -> int:
        """Make the pending deliveries of a registration dead.

        Args:
            registration: its id.
            lanes: the lanes they can be in.
            reason: a sentence that says why.
            at: the time, in seconds since the epoch.
            spared: sequence numbers of deliveries that stay pending.

        Returns:
            How many there were. Being cut off between two steps leaves the later ones pending.
        """
        place: Cursor | None = START
        total = 0

        def step(transaction: Transaction) -> tuple[int, Cursor | None]:
            assert place is not None  # noqa: S101 - for the type checker
            return transaction.park(registration, lanes, reason, at, place, MOVING_STEP, spared=spared)

        while place is not None:
            parked, place = await self.write(step)
            total += parked
        return total

    async def drop_oldest(
        self,
        registration: str,
        lanes: Sequence[str],
        reason: str,
        *,
        count: int,
        size: int,
        spared: Sequence[int] = (),
    ) -> int:
        """Make the oldest pending deliveries of a registration dead, in one step of bounded size.

        Args:
            registration: its id.
            lanes: the lanes they can be in.
            reason: a sentence that says why.
            count, size: so many deliveries, and as many as have so many bytes of payload together; at
                most :data:`MOVING_STEP`.
            spared: sequence numbers of deliveries that stay pending.

        Returns:
            How many there were.
        """
        at = self._clock.steady()

        def drop(transaction: Transaction) -> int:
            return transaction.drop_oldest(
                registration, lanes, reason, at, count=count, size=size, spared=spared, limit=MOVING_STEP
            )

        return await self.write(drop)
