"""The simulated clocks: Trio's, which moves only when all tasks wait, and the machine's, which jumps."""

import heapq
import select

import trio
import trio.abc

from tests.simulation.trio_internals import watch_sockets

START = 1_700_000_000.0


class SimulatedClock(trio.abc.Clock):
    """Trio's clock of a run. While :meth:`run` runs, it moves to the next deadline whenever all tasks wait.

    Not Trio's ``MockClock``: to hookgw that one stands still, so that settlements would not wait for company.

    Attributes:
        stride: moves are at least so long, in seconds: a night passes in few of them. Whatever was due in
            between is due at once, as after a suspension of the machine.
        until: no move goes beyond this, unless nothing is due before.
        strode_at: the end of the last move that went beyond what was due.
        offset: how far the machine's time is off.
    """

    def __init__(self) -> None:
        self._now = 0.0
        # A heap: when each sleep ends, its number, and the task, until it is cancelled.
        self._sleepers: list[tuple[float, int, list[trio.lowlevel.Task]]] = []
        self._sleeps = 0
        self._sockets: select.poll | None = None
        self._is_stuck = trio.Event()
        self.stride = 0.0
        self.strode_at = 0.0
        self.until = 0.0
        self.offset = 0.0

    def start_clock(self) -> None:
        """See :class:`trio.abc.Clock`."""

    def current_time(self) -> float:
        """Return the simulated seconds since the start of the run."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Move to a deadline, or to the end of a sleep, and return 0. Trio asks when no task can run."""
        if self._sockets is None or trio.lowlevel.in_trio_task():
            return deadline - self._now
        sleepers = self._sleepers
        while sleepers and not sleepers[0][2]:
            heapq.heappop(sleepers)
        wait = min(deadline, sleepers[0][0] if sleepers else deadline) - self._now
        if wait > 0:
            if self._sockets.poll(0):
                return 0.0
            if wait == float("inf"):
                self._is_stuck.set()
                return 0.0
            move = max(wait, min(self.stride, self.until - self._now))
            # A little more: rounding must not leave the deadline just ahead.
            self._now += move + 1e-9
            if move > wait:
                self.strode_at = self._now
        while sleepers and sleepers[0][0] <= self._now:
            for task in heapq.heappop(sleepers)[2]:
                trio.lowlevel.reschedule(task)
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Sleep as ``trio.sleep`` does. That one ends with an exception each time: a tenth of a run."""
        if seconds == 0:
            await trio.lowlevel.checkpoint()
            return
        sleeper = self._add(seconds)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            sleeper.clear()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def pause(self, seconds: float) -> None:
        """Sleep; cancellation waits for the end."""
        self._add(seconds)
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    def stall(self, seconds: float) -> None:
        """Let time pass while nothing runs, as during a call that blocks."""
        self._now += seconds

    def _add(self, seconds: float) -> list[trio.lowlevel.Task]:
        """Add the calling task to the heap, and return the list that has it there."""
        if not seconds >= 0:
            raise ValueError(f"nobody can sleep for {seconds} seconds")
        sleeper = [trio.lowlevel.current_task()]
        self._sleeps += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._sleeps, sleeper))
        return sleeper

    def wall(self) -> float:
        """Return the machine's time, in seconds since the epoch."""
        return START + self._now + self.offset

    async def run(self) -> None:
        """Move the clock until cancelled.

        Raises:
            RuntimeError: all tasks wait, and for no time: the run would never end.
        """
        self._sockets = watch_sockets()
        try:
            await self._is_stuck.wait()
        finally:
            self._sockets = None
        raise RuntimeError("all tasks wait for one another")
