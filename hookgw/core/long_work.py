"""Long work in turns: computations in short slices, and large appends with rests between them.

A batch of 16 MiB takes a second to read and to check. A thread would not help: C code that decodes JSON holds
the interpreter lock. So such work is a generator that pauses often. It runs in the event loop for some
milliseconds at a time, one slice at a time, and everything else runs between two slices. Instances alternate:
however many batches one of them sends, another one's next slice is soon.

A batch of 10,000 events also takes hundreds of milliseconds to store, in one commit, because it is accepted
whole or not at all. Nothing else is stored meanwhile. Such appends cannot be cut, so each instance's are kept
apart.

Both cost an instance time only while other instances are active.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
from trio.lowlevel import RunVar, checkpoint

from hookgw.concurrency.light import in_task
from hookgw.concurrency.turn_lock import TurnLock
from hookgw.core.keyed_locks import KeyedLocks

_T = TypeVar("_T")

SLICE = 0.005
"""Seconds of a slice. One step of a computation may take longer: nothing can interrupt it."""
ROUNDS = 10
"""Rounds of the event loop between two slices. A small request takes about as many, from its first byte to
the last one of its response. Without other work they take 0.1 ms."""
APART = 19
"""How many times as long as a large append took the instance waits before its next one."""
LONGEST_REST = 10.0
"""The longest such wait, in seconds: an append also takes long if the disk is slow or refuses."""
_ACTIVE = 1.0
"""Seconds for which an instance counts as active."""


class LongWork:
    """The long work of one event loop. Its clock must run during a computation."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._trio_time = trio.lowlevel.current_clock().current_time  # each event reads it
        self._lock = TurnLock()
        self._spent = 0.0
        # The same on Trio's clock, which a test may have stopped.
        self._rest_due = 0.0
        # The instance that was active last, when that was, and when another one was.
        self._newest, self._newest_at, self._second_at = "", -_ACTIVE, -_ACTIVE
        # When an instance's next large append may begin.
        self._free_at: dict[str, float] = {}
        self._appending = KeyedLocks()

    def active(self, holder: str) -> None:
        """Note that an instance raised an event."""
        if holder != self._newest:
            self._newest, self._second_at = holder, self._newest_at
        self._newest_at = self._trio_time()

    async def run(self, holder: str, steps: Generator[None, None, _T]) -> _T:
        """Run a computation to its end, and return its result. It pauses wherever it yields.

        Short work runs at once, without a checkpoint, unless other work waits or has just run. If the caller
        is cancelled, the computation ends at its next pause.
        """
        await in_task()
        try:
            while True:
                await self._lock.acquire(holder)
                try:
                    if self._spent >= SLICE:  # also by short work of many requests, one after the other
                        rest, self._spent, self._rest_due = self._rest_due, 0.0, 0.0
                        if self._has_others(holder):
                            # As long as the work took: the tasks of others wait for a disk meanwhile, too.
                            await trio.sleep(rest)
                        for _ in range(ROUNDS):
                            await checkpoint()
                    began, began_at = self._now(), trio.current_time()
                    try:
                        while self._now() - began < SLICE:
                            next(steps)
                    finally:
                        self._spent += self._now() - began
                        self._rest_due += trio.current_time() - began_at
                except StopIteration as end:
                    result: _T = end.value
                    return result
                finally:
                    self._lock.release(holder)
        finally:
            steps.close()

    @asynccontextmanager
    async def large_append(self, holder: str) -> AsyncIterator[None]:
        """Store many events of an instance within the block, once its turn has come."""
        async with self._appending.hold(holder):  # which goes on in the task
            free_at = self._free_at.get(holder, 0.0)
            # Not in one sleep: the others may become inactive.
            while trio.current_time() < free_at and self._has_others(holder):  # noqa: ASYNC110
                await trio.sleep_until(min(free_at, trio.current_time() + _ACTIVE))
            began = trio.current_time()
            try:
                yield
            finally:
                now = trio.current_time()
                self._free_at = {name: at for name, at in self._free_at.items() if at > now}
                self._free_at[holder] = now + min(APART * (now - began), LONGEST_REST)

    def _has_others(self, holder: str) -> bool:
        since = trio.current_time() - _ACTIVE
        if self._newest != holder:
            return self._newest_at > since
        return self._second_at > since


LONG_WORK: RunVar[LongWork] = RunVar("long_work")


def long_work() -> LongWork:
    try:
        return LONG_WORK.get()
    except LookupError:
        work = LongWork()
        LONG_WORK.set(work)
        return work


async def run_in_slices(holder: str, steps: Generator[None, None, _T]) -> _T:
    return await long_work().run(holder, steps)
