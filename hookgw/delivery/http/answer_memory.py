"""The memory for what servers answer, and for the files of tenants' URLs: one budget for all.

An answer counts as far as it has arrived. Before more of it is read, what has arrived must fit into the share
of its instance (:mod:`hookgw.fair`): one instance gets half of the memory, and while it holds that, another
one gets a quarter. The rest is not read meanwhile, so that TCP holds the server up. What a server announces
counts for nothing. An answer that arrives in one piece, as most do, is never counted. An answer that a call
of a connector gets counts until the call has ended; another one, until it is handed over.

An answer to a delivery never waits. Without room it is cut: its status decides the attempt
(:meth:`hookgw.delivery.http.pools.PooledTransport.admit`).

Answers to connectors that are half read may wait for each other. So none waits longer than :data:`PATIENCE`:
then it fails, and what it held lets the others go on. At least one of them does, also if their patience ends
together: the first one to fail gives its memory back before the next one is looked at. The same patience
frees the place of a request for a file, for which the upload of another file may wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import trio

from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.delivery.http.errors import ResponseFailed
from hookgw.fair import Share
from hookgw.kernel.units import Size

RATIO = 1
"""An instance may have as much as is free."""
RESERVED = 8
"""An eighth is for instances that have little: a 256th of the memory, or less."""
PATIENCE = 10.0
"""Seconds that an answer waits for memory. All requests have longer timeouts by default."""


class MemoryFull(ResponseFailed):
    """An answer has waited for memory for too long."""


class AnswerMemory:
    """Counts the bytes of answers that are in memory.

    Args:
        limit: the budget in bytes (``delivery.answer_memory``).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.share: Share[WaitingClaim] = Share(limit, RATIO, RESERVED)

    @property
    def most_of_holder(self) -> int:
        """The most bytes that one instance can have."""
        return self.limit * RATIO // (RATIO + 1)

    def hold(self, holder: str) -> HeldAnswer:
        """Begin to count an answer to an instance.

        :meth:`HeldAnswer.hand_over` or :meth:`HeldAnswer.release` must follow.
        """
        return HeldAnswer(self, holder)


class HeldAnswer:
    """What one answer has of the memory.

    Attributes:
        failure: why no more of the answer may be read; ``None`` while it may.
    """

    __slots__ = ("_holder", "_memory", "_size", "failure")

    def __init__(self, memory: AnswerMemory, holder: str) -> None:
        self._memory = memory
        self._holder = holder
        self._size = 0
        self.failure: MemoryFull | None = None

    async def take(self, amount: int) -> None:
        """Count bytes that have arrived, once they fit. This is a checkpoint only if it waits.

        Raises:
            MemoryFull: they did not fit for :data:`PATIENCE` seconds.
        """
        share, is_taken = self._memory.share, False
        with trio.move_on_after(PATIENCE):
            await take_in_line(share, self._holder, amount)
            is_taken = True
        if not is_taken:
            # Another answer may have failed in the same moment.
            if not share.fits(self._holder, amount):
                self.failure = MemoryFull(
                    f"The answers to this instance, or to all instances, fill their memory "
                    f"({Size(self._memory.limit)}, delivery.answer_memory). Retry later."
                )
                raise self.failure
            share.take(self._holder, amount)
        self._size += amount

    def hand_over(self) -> None:
        """Pass the answer on; count it until the end of the block of :func:`keeping_answers`, if any."""
        call = _call.get()
        if call is not None and call.is_open:
            call.held.append(self)
        else:
            self.release()

    def release(self) -> None:
        """Count the answer no longer. Idempotent."""
        size, self._size = self._size, 0
        if size:
            self._memory.share.give(self._holder, size)


class _Call:
    """A call of a connector, and the answers that it has got."""

    def __init__(self) -> None:
        self.is_open = True
        self.held: list[HeldAnswer] = []


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


@contextmanager
def keeping_answers() -> Iterator[None]:
    """Count the answers that this block gets until its end, also those of tasks that it starts.

    Somebody reads, decodes and sends on what was handed over, and may wait for a turn meanwhile.
    """
    call = _Call()
    token = _call.set(call)
    try:
        yield
    finally:
        call.is_open = False
        _call.reset(token)
        for held in call.held:
            held.release()
