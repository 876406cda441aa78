"""A queue between the code that raises operational events and one place that they go to."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice

import structlog
import trio

from hookgw.models.events import Event

MOST_WAITING = 10_000
"""The most events that wait in memory for one place. Further events are lost, and logged."""
BATCH = 100
"""The most events that are sent together."""

logger = structlog.get_logger("hookgw.operations")


class EventQueue:
    """A queue with one consumer, :meth:`run`.

    Args:
        place: where the events go, for the log.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._waiting: deque[Event] = deque()
        self._arrived = trio.Event()
        self._empty = trio.Event()
        self._empty.set()

    def put(self, event: Event) -> None:
        """Queue an event. Never waits."""
        if len(self._waiting) >= MOST_WAITING:
            logger.error("operational event lost: too many are queued", place=self._place, kind=event.kind)
            return
        self._waiting.append(event)
        if self._empty.is_set():
            self._empty = trio.Event()
        self._arrived.set()

    async def run(self, send: Callable[[list[Event]], Awaitable[None]]) -> None:
        """Send queued events in batches, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()  # before the loop, so that an event put during it is not missed
            while self._waiting:
                batch = list(islice(self._waiting, BATCH))
                # Removed only after they are sent: a cancelled send leaves them, and `is_empty` is false.
                await send(batch)
                for _ in batch:
                    self._waiting.popleft()
            self._empty.set()

    @property
    def is_empty(self) -> bool:
        """Whether everything queued has been sent."""
        return self._empty.is_set()

    async def wait_empty(self) -> None:
        """Wait until everything queued has been sent."""
        await self._empty.wait()
