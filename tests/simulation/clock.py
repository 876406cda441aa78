"""The simulated clocks: Trio's, which moves only when all tasks wait, and the machine's, which jumps."""

from __future__ import annotations

import trio
import trio._core._run
import trio.abc
import trio.testing

START = 1_700_000_000.0


class SimulatedClock(trio.abc.Clock):
    """Trio's clock of a run. While :meth:`run` runs, it moves to the next deadline whenever all tasks wait.

    Not Trio's ``MockClock``: to hookgw that one stands still, so that settlements would not wait for company.

    Attributes:
        stride: moves are at least so long, in seconds: a night passes in few of them. Whatever was due in
            between is due at once, as after a suspension of the machine.
        until: no move goes beyond this, unless nothing is due before.
        offset: how far the machine's time is off.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self.stride = 0.0
        self.until = 0.0
        self.offset = 0.0

    def start_clock(self) -> None:
        """See :class:`trio.abc.Clock`."""

    def current_time(self) -> float:
        """Return the simulated seconds since the start of the run."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """See :class:`trio.abc.Clock`. It is never slept: :meth:`run` always waits to move the clock."""
        return deadline - self._now

    def wall(self) -> float:
        """Return the machine's time, in seconds since the epoch."""
        return START + self._now + self.offset

    async def run(self) -> None:
        """Move the clock until cancelled.

        Raises:
            RuntimeError: all tasks wait, and for no time: the run would never end.
        """
        runner = trio._core._run.GLOBAL_RUN_CONTEXT.runner
        # There are none. Trio looks several times in each step, and looks faster into a plain dict.
        runner.instruments = {}  # type: ignore[assignment]
        while True:
            await trio.testing.wait_all_tasks_blocked()
            # The public statistics would count all tasks, too.
            wait = runner.deadlines.next_deadline() - self._now
            if wait == float("inf"):
                raise RuntimeError("all tasks wait for one another")
            # A little more: rounding must not leave the deadline just ahead.
            move = max(wait, min(self.stride, self.until - self._now)) + 1e-9
            self._now += max(move, 1e-9)
