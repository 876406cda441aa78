"""Long computations in short slices, in turn among instances.

A batch of 16 MiB takes a second to read and to check. A thread would not help: C code that decodes JSON holds
the interpreter lock. So such work is a generator that pauses often. It runs in the event loop for some
milliseconds at a time, one slice at a time, and everything else runs between two slices. Instances alternate:
however many batches one of them sends, another one's next slice is soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TypeVar

from trio.lowlevel import ParkingLot, RunVar, checkpoint

T = TypeVar("T")

SLICE = 0.005
"""Seconds of a slice. One step of a computation may take longer: nothing can interrupt it."""
ROUNDS = 10
"""Rounds of the event loop between two slices. A small request takes about as many, from its first byte to
the last one of its response. Without other work they take 0.1 ms."""


class WorkSlices:
    """The computations of one event loop.

    Args:
        now: reads a clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._is_taken = False
        self._spent = 0.0
        # The instance whose turn is next is the first.
        self._waiting: dict[str, ParkingLot] = {}

    async def run(self, holder: str, steps: Generator[None, None, T]) -> T:
        """Run a computation to its end, and return its result.

        Short work runs at once, without a checkpoint, unless other work waits or has just run. If the caller
        is cancelled, the computation ends at its next pause.

        Args:
            holder: the instance that the work is for.
            steps: the computation; it pauses wherever it yields.

        Raises:
            Exception: what the computation raised.
        """
        try:
            while True:
                await self._take(holder)
                try:
                    if self._spent >= SLICE:  # also by short work of many requests, one after the other
                        self._spent = 0.0
                        for _ in range(ROUNDS):
                            await checkpoint()
                    began = self._now()
                    try:
                        while self._now() - began < SLICE:
                            next(steps)
                    finally:
                        self._spent += self._now() - began
                except StopIteration as end:
                    result: T = end.value
                    return result
                finally:
                    self._give_back(holder)
        finally:
            steps.close()

    async def _take(self, holder: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        lot = self._waiting.setdefault(holder, ParkingLot())
        try:
            await lot.park()  # _give_back hands the turn over
        finally:
            if not lot and self._waiting.get(holder) is lot:
                del self._waiting[holder]

    def _give_back(self, holder: str) -> None:
        if holder in self._waiting:  # its other work comes after that of all others
            self._waiting[holder] = self._waiting.pop(holder)
        for following, lot in tuple(self._waiting.items()):
            if len(lot) <= 1:
                del self._waiting[following]
            if lot.unpark():  # nothing if the only work there was cancelled just now
                return
        self._is_taken = False


_slices: RunVar[WorkSlices] = RunVar("work_slices")


async def run_in_slices(holder: str, steps: Generator[None, None, T]) -> T:
    """Run a computation among the others of this event loop; see :meth:`WorkSlices.run`."""
    try:
        slices = _slices.get()
    except LookupError:
        slices = WorkSlices()
        _slices.set(slices)
    return await slices.run(holder, steps)
