"""The deliveries of one lane, in order, from memory and disk.

They come from three places:

1. ``_page``: read from the outbox because the lane was *behind*; the next delivery is the last element;
2. the memory channel: appended since, handed over by the dispatcher;
3. the outbox again, if the channel overflowed meanwhile (the lane is *behind*).

``LaneMemory.last`` is the highest position that the lane has taken. Everything up to it is settled or about
to be, so a delivery that comes in a page and again through the channel is skipped the second time. A delivery
that is sent again gets a new position at the end of the lane, and the lane falls behind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import trio

from hookgw.dispatch.parked_lanes import LaneMemory
from hookgw.dispatch.store_retry import retry_until_readable
from hookgw.models.deliveries import Delivery
from hookgw.models.errors import StorageUnavailable
from hookgw.store import Outbox

CannotRead = Callable[[StorageUnavailable], None]

PAGE = 128
"""How many deliveries a lane reads from the outbox at a time."""


class LaneQueue:
    """The deliveries of one lane. A lane that waits holds none of them in memory.

    Args:
        lane: the lane's key.
        outbox: holds the pending deliveries.
        memory: its ``last`` is read and updated.
        buffer: the capacity of the memory channel.
        behind: whether the outbox has deliveries of the lane already.

    Attributes:
        behind: whether the outbox must be read once nothing is left in memory.
    """

    __slots__ = ("_lane", "_memory", "_outbox", "_page", "_receive", "_send", "behind")

    def __init__(self, lane: str, outbox: Outbox, memory: LaneMemory, *, buffer: int, behind: bool) -> None:
        self.behind = behind
        self._lane = lane
        self._outbox = outbox
        self._memory = memory
        self._send, self._receive = trio.open_memory_channel[Delivery | None](buffer)
        self._page: list[Delivery] = []

    def offer(self, delivery: Delivery) -> None:
        """Queue a delivery that was appended. If the channel is full, the lane falls behind."""
        if self.behind:  # it comes after deliveries that are only on disk
            return
        try:
            self._send.send_nowait(delivery)
        except trio.WouldBlock:
            self.behind = True

    def wake(self) -> None:
        """End :meth:`wait`."""
        with suppress(trio.WouldBlock):  # a full channel ends the wait anyway
            self._send.send_nowait(None)

    def take(self) -> Delivery | None:
        """Return the next delivery in memory; ``None`` if there is none."""
        try:
            while True:
                delivery = self._page.pop() if self._page else self._receive.receive_nowait()
                # ``None`` is a wake-up. A delivery that was appended during a read is in the page and in
                # the channel.
                if delivery is not None and delivery.position > self._memory.last:
                    self._memory.last = delivery.position
                    return delivery
        except trio.WouldBlock:
            return None

    async def wait(self) -> None:
        """Wait until a delivery is in memory or :meth:`wake` is called."""
        delivery = await self._receive.receive()
        if delivery is not None:
            self._page = [delivery]

    async def read(self, cannot_read: CannotRead) -> None:
        """Read the next page from disk, retrying while the disk refuses."""
        # Cleared before the read: what is appended during the read comes through the channel, what was
        # appended before is in the page.
        self.behind = False
        read = partial(self._outbox.read_lane, self._lane, self._memory.last, PAGE)
        page = await retry_until_readable(read, cannot_read)
        self._page = page.deliveries[::-1]
        if page.more:
            # What came through the channel belongs behind deliveries that are still on disk.
            self._discard_channel()

    async def count(self, cannot_read: CannotRead) -> int:
        """Return how many deliveries are pending on disk, once everything requested before is written."""
        await self._outbox.flush()
        return await retry_until_readable(partial(self._outbox.count_pending, self._lane), cannot_read)

    def discard(self) -> None:
        """Drop everything from memory: it is on disk, and is read again."""
        self._page = []
        self._discard_channel()

    def _discard_channel(self) -> None:
        self.behind = True  # first: from now on nothing enters the channel
        with suppress(trio.WouldBlock):
            while True:
                self._receive.receive_nowait()
