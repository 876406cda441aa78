"""One memory budget for all request bodies, counted as far as they have arrived.

Beyond the budget, hookgw stops reading, so that TCP holds the clients up. Only the oldest body is read to its
end, so that requests end and the others go on. The announced length does not count: a thousand clients that
announce 16 MiB and send none of it take no memory from others. The bodies of one instance have a separate
limit, so that bodies that never end cannot use up the budget.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from trio.lowlevel import ParkingLot

from hookgw.concurrency.light import in_task
from hookgw.fair import PerHolder
from hookgw.kernel.errors import TooManyRequests, Unavailable
from hookgw.kernel.units import Size

SMALL = 8192
"""Bodies of at most this many bytes are not counted: ``server.max_requests`` of them are only a few MiB."""
COPIES = 2
"""How often a body counts: it is in memory as received, and again as the events that were read from it."""
PATIENCE = 10.0
"""Seconds that a request waits for memory; then it gets 503."""
MOST_WAITING = 64
"""Requests that may wait. Each has a part of its body in memory that is not counted."""
_RETRY_AFTER = 5.0
_RETRY_OWN_AFTER = 1.0


class BodyMemory:
    """Counts the bytes of bodies in memory.

    Args:
        limit: the budget in bytes.
        most_of_instance: the most bytes of the bodies of one instance, as received.
        on_limited: called with the name of the limit for each refused request.
    """

    def __init__(self, limit: int, most_of_instance: int, on_limited: Callable[[str], None]) -> None:
        self._limit = limit
        self._most_of_instance = most_of_instance
        self._on_limited = on_limited
        self._held = PerHolder[object]()  # by request, the oldest first
        self._of_instances = PerHolder[str]()
        self._waiting = ParkingLot()

    @property
    def is_full(self) -> bool:
        return self._held.used >= self._limit

    def hold(self, owner: object, size: int, instance: str | None = None) -> None:
        """Count more received bytes of a request, which are in memory already, :data:`COPIES` times.

        Args:
            instance: ``None`` until it is known; see :meth:`attribute`.

        Raises:
            TooManyRequests: the bodies of the instance are too large together. The bytes count all the same,
                because they are in memory until the request ends.
        """
        size *= COPIES
        self._held.take(owner, size)
        if instance is None:
            return
        if self._of_instances.take(instance, size) > COPIES * self._most_of_instance:
            self._on_limited("instance_share")
            raise TooManyRequests.of(
                "server.instance_bodies",
                "{most} of request bodies of this instance are in progress, the maximum. Retry later.",
                most=Size(self._most_of_instance),
                retry_after=_RETRY_OWN_AFTER,
            )

    def attribute(self, owner: object, instance: str) -> None:
        """Count the bytes of a request for an instance, now that it is known."""
        if size := self._held.held(owner):
            self._of_instances.take(instance, size)

    def release(self, owner: object, instance: str | None = None) -> None:
        """Stop counting the bytes of a request. Idempotent."""
        if size := self._held.held(owner):
            self._held.give(owner, size)
            if instance is not None:
                self._of_instances.give(instance, size)
            self._waiting.unpark_all()  # one of them may be the oldest now

    async def wait_room(self, owner: object) -> None:
        """Wait until a request may read more of its body. It is a checkpoint only if it waits.

        Raises:
            Unavailable: there was no room for :data:`PATIENCE` seconds, or too many requests wait.
        """
        if not self._must_wait(owner):
            return
        if len(self._waiting) < MOST_WAITING:
            await in_task()
            with trio.move_on_after(PATIENCE):
                while self._must_wait(owner):
                    await self._waiting.park()
        if self._must_wait(owner):
            self._on_limited("body_memory")
            raise Unavailable.of(
                "server.body_memory",
                "The bodies of other requests fill the memory for bodies ({limit}, "
                "server.body_memory). Nothing was stored; retry later.",
                limit=Size(self._limit),
                retry_after=_RETRY_AFTER,
            )

    def _must_wait(self, owner: object) -> bool:
        return self.is_full and next(iter(self._held), owner) is not owner
