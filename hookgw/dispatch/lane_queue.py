"""Where a lane's deliveries come from.

In this order:

1. ``_page``: read from the outbox, because the lane was *behind*, the next one last;
2. the lane's memory channel: what was appended since, handed over by the dispatcher;
3. the outbox again, if the channel overflowed meanwhile (the lane is *behind*).

``LaneMemory.last`` is the highest position taken so far. Everything at or below it is settled or on its way
to be, so a delivery that is seen twice (in a page and in the channel) is skipped the second time. What is
sent again gets a new position at the end, and the lane is told that it is behind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import trio

from hookgw.dispatch.parked_lanes import LaneMemory
from hookgw.dispatch.services import LaneStore
from hookgw.dispatch.store_retry import retry_until_readable
from hookgw.models.deliveries import Delivery
from hookgw.models.errors import StorageUnavailable

CannotRead = Callable[[StorageUnavailable], None]

PAGE = 128
"""How many deliveries a lane reads from the outbox at a time."""


class LaneQueue:
    """The deliveries of one lane, in order; a lane that waits holds none of them in memory.

    Args:
        lane: its key.
        store: has the outbox.
        past: ``last`` is read and kept up to date.
        buffer: how many deliveries the memory channel takes.
        behind: whether the outbox has some already.

    Attributes:
        behind: whether the outbox has to be read when nothing else is at hand.
    """

    __slots__ = ("_lane", "_offers", "_page", "_past", "_queue", "_store", "behind")

    def __init__(self, lane: str, store: LaneStore, past: LaneMemory, *, buffer: int, behind: bool) -> None:
        self.behind = behind
        self._lane = lane
        self._store = store
        self._past = past
        self._offers, self._queue = trio.open_memory_channel[Delivery | None](buffer)
        self._page: list[Delivery] = []

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery that was appended. When the channel is full the lane falls behind."""
        if self.behind:
            return
        try:
            self._offers.send_nowait(delivery)
        except trio.WouldBlock:
            self.behind = True

    def wake(self) -> None:
        """End :meth:`wait`."""
        with suppress(trio.WouldBlock):  # a full channel ends it anyway
            self._offers.send_nowait(None)

    def take(self) -> Delivery | None:
        """The next delivery at hand; ``None`` where there is none."""
        try:
            while True:
                delivery = self._page.pop() if self._page else self._queue.receive_nowait()
                if delivery is not None and delivery.position > self._past.last:
                    self._past.last = delivery.position
                    return delivery
        except trio.WouldBlock:
            return None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is at hand."""
        return not self._page and not self._queue.statistics().current_buffer_used

    async def wait(self) -> None:
        """Wait until something is at hand or :meth:`wake` is called."""
        delivery = await self._queue.receive()
        if delivery is not None:
            self._page = [delivery]

    async def read(self, cannot_read: CannotRead) -> None:
        """Read what comes next from disk; what ``cannot_read`` is told of is tried again.

        ``behind`` is cleared before the read: what is appended during it comes through the channel,
        what was appended before it is in the page. Where more follow the page, what came through the
        channel meanwhile belongs after those: so the lane stays behind.
        """
        self.behind = False
        page = await retry_until_readable(
            partial(self._store.page, self._lane, self._past.last, PAGE), cannot_read
        )
        self._page = page.deliveries[::-1]
        if page.more:
            self._give_back_channel()

    async def count(self, cannot_read: CannotRead) -> int:
        """How many deliveries are pending on disk, all that was asked before being written."""
        await self._store.flush()
        return await retry_until_readable(partial(self._store.count_pending, self._lane), cannot_read)

    def give_back(self) -> None:
        """Hold nothing: all of it is on disk and will be read again."""
        self._page = []
        self._give_back_channel()

    def _give_back_channel(self) -> None:
        self.behind = True
        with suppress(trio.WouldBlock):
            while True:
                self._queue.receive_nowait()
