"""A queue between the code that raises operational events and one of their places."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice

import structlog
import trio

from hookgw.fair import Claim, Share
from hookgw.records.events import Event

MOST_WAITING = 10_000
"""The most events that wait in memory for one place; at most half of them are about one instance. Further
events are lost, and logged."""
BATCH = 100
"""The most events that are sent together."""

logger = structlog.get_logger("hookgw.operations")


class EventQueue:
    """A queue with one consumer, :meth:`run`. ``place`` names the destination, for the log."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._waiting: deque[tuple[str, Event]] = deque()
        # So that a tenant with lanes that fail and recover all the time loses only its own events.
        self._share: Share[Claim] = Share(MOST_WAITING, ratio=1)
        self._arrived = trio.Event()
        self._empty = trio.Event()
        self._empty.set()

    def put(self, event: Event, instance: str = "") -> None:
        """Queue an event about an instance, or about none. Never waits."""
        if not self._share.fits(instance):
            logger.error("operational event lost: too many are queued", place=self._place, kind=event.kind)
            return
        self._share.take(instance)
        self._waiting.append((instance, event))
        if self._empty.is_set():
            self._empty = trio.Event()
        self._arrived.set()

    async def run(self, send: Callable[[list[Event]], Awaitable[None]]) -> None:
        """Send queued events in batches, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()  # before the loop, so that an event put during it is not missed
            while self._waiting:
                batch = [event for _, event in islice(self._waiting, BATCH)]
                # Removed only after they are sent: a cancelled send leaves them, and `is_empty` is false.
                await send(batch)
                for _ in batch:
                    self._share.give(self._waiting.popleft()[0])
            self._empty.set()

    @property
    def is_empty(self) -> bool:
        """Whether everything queued has been sent."""
        return self._empty.is_set()

    async def wait_empty(self) -> None:
        await self._empty.wait()
