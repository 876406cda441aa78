"""``hookgw``, with the processor time of each step of its event loop measured.

Unlike latencies, these times hardly depend on what else the machine does. Run in the place of
``python -m hookgw``; at the end it prints the longest steps to standard output, one a line.
"""

import heapq
import time
from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.public.command import main

SHOWN = 8
"""How many steps are printed."""
START = 3.0
"""Seconds of the start, which are not counted: importing and opening block nobody."""


class Steps(trio.abc.Instrument):
    """The longest steps of tasks, and the longest turns of the loop, in their thread's processor time."""

    def __init__(self) -> None:
        self._turn = self._step = time.thread_time()
        self._counts_from = time.monotonic() + START
        self._longest_turn = 0.0
        self._longest: list[tuple[float, str]] = []

    def after_io_wait(self, timeout: float) -> None:
        self._turn = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        if time.monotonic() > self._counts_from:
            self._longest_turn = max(self._longest_turn, time.thread_time() - self._turn)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        seconds = time.thread_time() - self._step
        if (
            len(self._longest) < SHOWN or seconds > self._longest[0][0]
        ) and time.monotonic() > self._counts_from:
            heapq.heappush(self._longest, (seconds, f"{task.name}, until {_place(task)}"))
            if len(self._longest) > SHOWN:
                heapq.heappop(self._longest)

    def show(self) -> None:
        """Print the longest turn and the longest steps."""
        print(
            f"step {self._longest_turn * 1e3:.1f} ms: the longest turn, in which each ready task has a step"
        )
        for seconds, name in sorted(self._longest, reverse=True):
            print(f"step {seconds * 1e3:.1f} ms: {name}", flush=True)


def _place(task: trio.lowlevel.Task) -> str:
    """Where a task waits now: the innermost lines of hookgw's own code."""
    places: list[str] = []
    at: Any = task.coro
    while at is not None:
        frame = getattr(at, "cr_frame", None) or getattr(at, "gi_frame", None)
        if frame is not None and "hookgw" in frame.f_code.co_filename:
            places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        at = getattr(at, "cr_await", None) or getattr(at, "gi_yieldfrom", None)
    return " > ".join(places[-3:]) or "its end"


if __name__ == "__main__":
    steps = Steps()
    trio.run = partial(trio.run, instruments=[steps])  # type: ignore[assignment]
    try:
        main(prog_name="hookgw")
    finally:
        steps.show()
