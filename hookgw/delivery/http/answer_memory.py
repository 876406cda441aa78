"""One memory budget for the answers of servers and the files at tenants' URLs.

Only the bytes that have arrived count. Before more of an answer is read, its arrived bytes must fit into the
share of its instance (:mod:`hookgw.fair`): one instance gets half of the memory, and while it holds that,
another one gets a quarter. The rest is not read meanwhile, so that TCP holds the server up. The announced
length does not count. An answer that arrives in one piece, as most do, is never counted. An answer to a
connector's call counts until the call has ended; any other answer, until it is handed over.

An answer to a delivery never waits. If there is no room, it is cut: its status decides the attempt
(:meth:`hookgw.delivery.http.pools.PooledTransport.admit`).

Answers to connectors that are half read may wait for each other. So none waits longer than
:data:`ANSWER_PATIENCE`: then it fails, and its memory lets the others go on. At least one of them does, also
if their patience ends together: the first one to fail gives its memory back before the next one is looked at.
The same patience frees the place of a request for a file, for which the upload of another file may wait.
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
ANSWER_PATIENCE = 10.0
"""Seconds that an answer waits for memory. All requests have longer timeouts by default."""


class MemoryFull(ResponseFailed):
    """An answer waited too long for memory."""


class AnswerMemory:
    """Counts the bytes of answers in memory, up to ``delivery.answer_memory``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.share: Share[WaitingClaim] = Share(limit, RATIO, RESERVED)

    @property
    def most_of_holder(self) -> int:
        return self.limit * RATIO // (RATIO + 1)

    def hold(self, holder: str) -> HeldAnswer:
        """Begin to count an answer. Call :meth:`HeldAnswer.hand_over` or :meth:`HeldAnswer.release`."""
        return HeldAnswer(self, holder)


class HeldAnswer:
    """The memory of one answer.

    Attributes:
        failure: why no more of the answer may be read; ``None`` while reading may go on.
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
            MemoryFull: they did not fit for :data:`ANSWER_PATIENCE` seconds.
        """
        share, is_taken = self._memory.share, False
        with trio.move_on_after(ANSWER_PATIENCE):
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
        """Stop counting the answer. Idempotent."""
        size, self._size = self._size, 0
        if size:
            self._memory.share.give(self._holder, size)


class _Call:
    def __init__(self) -> None:
        self.is_open = True
        self.held: list[HeldAnswer] = []


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


@contextmanager
def keeping_answers() -> Iterator[None]:
    """Keep counting the answers that this block gets, also in tasks that it starts, until the block ends.

    The connector reads, decodes and forwards them there, and may wait for a turn meanwhile.
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
