"""The deliveries of one lane, in order, from memory and disk.

They come from three places:

1. ``_page``: read from the outbox because the lane was *behind*; the next delivery is the last element;
2. the memory channel: appended since, handed over by the dispatcher;
3. the outbox again, if the channel overflowed meanwhile (the lane is *behind*).

``LaneMemory.last`` is the highest position that the lane has taken. Everything up to it is settled or about
to be, so a delivery that comes in a page and again through the channel is skipped the second time. A delivery
that is sent again gets a new position at the end of the lane, and the lane falls behind.

Memory
------

The memory of all lanes together is limited (``delivery.memory``), in fair shares among instances
(:mod:`hookgw.fair.share`). A delivery is charged from the moment at which it is in memory until it is settled
or dropped from memory, with everything that sending it will take: its payload, its body, and the request. So
a lane that holds a delivery never waits for memory, and two lanes cannot wait for each other. A delivery for
which there is no memory stays on disk: the lane falls behind. A lane that is behind holds nothing, and
reserves memory before it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import trio

from hookgw.concurrency.light import Waiter
from hookgw.fair import Share
from hookgw.kernel.errors import StorageUnavailable
from hookgw.lanes.lane_memory import LaneMemory
from hookgw.lanes.store_retry import retry_until_readable
from hookgw.records.deliveries import Delivery, Position
from hookgw.store import Outbox

CannotRead = Callable[[StorageUnavailable], None]

LANE_PAGE = 256
"""How many deliveries a lane reads from the outbox at a time, at most."""

LANE_MEMORY_RATIO = 4
"""An instance may hold this many times the memory that is free."""

LANE_MEMORY_RESERVED = 4
"""A quarter of the memory is for instances that hold little. A thousand lanes that read at once would leave
none."""

DELIVERY_OVERHEAD = 1024
"""Bytes charged for a delivery beside its payload: the objects, the headers, the envelope."""

READ_MEMORY = 2**20
"""Bytes that a lane reserves for a page, if there are so many."""

LEAST_LANE_MEMORY = 16 * 2**10
"""Bytes that a lane reserves at least, to read a page with a few small deliveries."""


def charge_of(payload: int, body: int = 0) -> int:
    """Return the bytes that a delivery takes in memory.

    Args:
        payload: the size of its payload.
        body: the size of the stored body; 0 if it is yet to be rendered, from about as many bytes.
    """
    # The payload, the body, and the request: head and body in one piece.
    return DELIVERY_OVERHEAD + payload + 2 * max(payload, body)


class MemoryClaim:
    """The place of a lane in the line for memory. The grant sets its event, or the lane itself does."""

    __slots__ = ("amount", "event", "holder", "is_granted")

    def __init__(self, holder: str, amount: int) -> None:
        self.holder = holder
        self.amount = amount
        self.event = trio.Event()
        self.is_granted = False

    def granted(self) -> None:
        self.is_granted = True
        self.event.set()


class LaneQueue:
    """The deliveries of one lane. A lane that waits holds none of them in memory.

    Args:
        shares: the memory of all lanes.
        steady: reads the steady clock.
        memory: its ``last`` is read and updated.
        buffer: how many deliveries the memory channel has room for.
        backlog: how many deliveries of the lane the outbox has already.

    Attributes:
        backlog: how many are pending on disk. After a :meth:`recount` there may be fewer.
        behind: whether the outbox must be read once nothing is left in memory.
        before: the position that the lane had reached before it took its last delivery.
        barrier: only deliveries before this position are taken; ``None`` for all. See
            :meth:`hookgw.store.Backfills.backfill_barrier`.
        is_woken: whether something was offered, or :meth:`wake` was called, since :meth:`take` found nothing.
            If not, wait for ``woken``.
    """

    __slots__ = (
        "_appended",
        "_first",
        "_lane",
        "_memory",
        "_most_charged",
        "_outbox",
        "_page",
        "_receive",
        "_send",
        "_shares",
        "_steady",
        "backlog",
        "barrier",
        "before",
        "behind",
        "is_woken",
        "woken",
    )

    def __init__(
        self,
        lane: str,
        outbox: Outbox,
        shares: Share[MemoryClaim],
        memory: LaneMemory,
        steady: Callable[[], float],
        *,
        buffer: int,
        backlog: int,
        barrier: Position | None = None,
    ) -> None:
        self.backlog = backlog
        self.behind = backlog > 0
        self.barrier = barrier
        self.before: Position = memory.last
        self._lane = lane
        self._outbox = outbox
        self._shares = shares
        # One delivery always fits: a very large one counts as a quarter of all memory.
        self._most_charged = shares.total // 4
        self._memory = memory
        self._steady = steady
        # A deque costs a microsecond less for each delivery, and a kilobyte less for each lane. The channel
        # says in one word what it is.
        self._send, self._receive = trio.open_memory_channel[Delivery](buffer)
        self.woken = Waiter()
        self.is_woken = False
        self._page: list[Delivery] = []
        # The size of the delivery that is next on disk, if it is so large that it needs a page of its own.
        self._first = 0
        self._appended = 0

    def appended(self, count: int = 1) -> None:
        """Count deliveries that have come to the outbox."""
        self.backlog += count
        self._appended += count

    def offer(self, delivery: Delivery) -> bool:
        """Queue a delivery that was appended. If there is no room for it, the lane falls behind.

        Return false if it is behind the barrier: the lane reads all of those when there is no barrier any
        more.
        """
        self.appended()
        if self.barrier is not None and self.is_behind_barrier(delivery):
            return False
        if self.behind:  # it comes after deliveries that are only on disk
            return True
        event, shares = delivery.event, self._shares
        charge = min(charge_of(len(event.data_json)), self._most_charged)
        if shares.fits(event.instance, charge):
            try:
                self._send.send_nowait(delivery)
            except trio.WouldBlock:
                self.behind = True
                return True
            shares.take(event.instance, charge)
            delivery.charge = charge
        else:
            self.behind = True
        if not self.is_woken:
            self.wake()
        return True

    def is_behind_barrier(self, delivery: Delivery) -> bool:
        return self.barrier is not None and delivery.position >= self.barrier

    def wake(self) -> None:
        self.is_woken = True
        self.woken.wake()

    def take(self) -> Delivery | None:
        """Return the next delivery in memory; ``None`` if there is none. :meth:`release` it in the end."""
        try:
            while True:
                delivery = self._page.pop() if self._page else self._receive.receive_nowait()
                if delivery.position > self._memory.last:
                    self.before, self._memory.last = self._memory.last, delivery.position
                    return delivery
                # A delivery that was appended during a read is in the page and in the channel.
                self.release(delivery)
        except trio.WouldBlock:
            self.is_woken = False
            return None

    @property
    def upcoming(self) -> Delivery | None:
        """The delivery of the page that :meth:`take` comes to next; ``None`` if there is none."""
        return self._page[-1] if self._page else None

    def release(self, delivery: Delivery) -> None:
        """Give back the memory of a delivery that is settled or dropped from memory."""
        if delivery.charge:
            self._shares.give(delivery.event.instance, delivery.charge)
            delivery.charge = 0

    def charge_body(self, delivery: Delivery, size: int) -> None:
        """Charge a body that is larger than expected. Plugins may render any size."""
        charge = charge_of(len(delivery.event.data_json), size)
        if delivery.charge < charge:
            self._shares.take(delivery.event.instance, charge - delivery.charge)
            delivery.charge = charge

    def reserve_nowait(self, holder: str) -> int:
        """Reserve memory to read a page, and return how much; 0 if there is too little.

        Args:
            holder: the instance of most of the deliveries.
        """
        shares, least = self._shares, self._least()
        amount = min(max(READ_MEMORY, least), shares.room(holder))
        if amount < least:
            return 0
        shares.take(holder, amount)
        return amount

    def claim(self, holder: str) -> MemoryClaim:
        """Stand in line for memory to read a page, after :meth:`reserve_nowait` found too little."""
        claim = MemoryClaim(holder, self._least())
        self._shares.line_up(claim)
        return claim

    def leave(self, claim: MemoryClaim) -> None:
        """Leave the line, or give back the memory that was granted."""
        if claim.is_granted:
            self._shares.give(claim.holder, claim.amount)
        else:
            self._shares.leave(claim)

    async def read(self, cannot_read: CannotRead, holder: str, reserved: int, most: int = LANE_PAGE) -> None:
        """Read the next page from disk, retrying while the disk refuses.

        Args:
            cannot_read: called with each new reason of a refusal.
            holder, reserved: the memory that :meth:`reserve_nowait` or a claim took. It is given back at the
                end; each delivery read is charged to its own instance.
        """
        # Cleared before the read: deliveries appended during the read come through the channel, earlier ones
        # are in the page.
        self.behind = False
        limit = 1 if self._first else max(1, min(most, reserved // (4 * DELIVERY_OVERHEAD)))
        size = max(self._first, (reserved - limit * DELIVERY_OVERHEAD) // 3)
        try:
            read = partial(self._outbox.read_lane, self._lane, self._memory.last, limit, size, self.barrier)
            page = await retry_until_readable(read, cannot_read)
            now = self._steady()
            for delivery in page.deliveries:
                # Times on disk are wall times. If the machine's clock was set back while hookgw was down,
                # they lie ahead by as much: the event would be kept for longer.
                delivery.queued_at = min(delivery.queued_at, now)
                body = 0 if delivery.body is None else len(delivery.body)
                delivery.charge = charge_of(len(delivery.event.data_json), body)
                self._shares.take(delivery.event.instance, delivery.charge)
        except BaseException:
            self.behind = True
            raise
        finally:
            self._shares.give(holder, reserved)
        self._page = page.deliveries[::-1]
        # Those behind a large delivery are often as large: then one read is enough for the next.
        self._first = page.needed if not page.deliveries or charge_of(page.needed) > READ_MEMORY // 2 else 0
        if page.more:
            # Deliveries from the channel belong behind deliveries that are still on disk.
            self._discard_channel()

    def _least(self) -> int:
        return min(charge_of(self._first) if self._first else LEAST_LANE_MEMORY, self._most_charged)

    async def recount(self, cannot_read: CannotRead) -> None:
        """Count how many deliveries are pending on disk, once everything requested before is written."""
        await self._outbox.flush()
        before = self._appended
        count = await retry_until_readable(partial(self._outbox.count_pending, self._lane), cannot_read)
        # The count may lack what was appended meanwhile. Rather too many: a lane without a backlog is idle.
        self.backlog = count + self._appended - before

    def discard(self) -> None:
        """Drop everything from memory: it is on disk, and is read again."""
        page, self._page = self._page, []
        for delivery in page:
            self.release(delivery)
        self._discard_channel()

    def put_back(self) -> None:
        """Drop everything from memory, also the delivery that was taken last."""
        self._memory.last = self.before
        self.discard()

    def _discard_channel(self) -> None:
        self.behind = True  # first: from now on nothing enters the channel
        with suppress(trio.WouldBlock):
            while True:
                self.release(self._receive.receive_nowait())
