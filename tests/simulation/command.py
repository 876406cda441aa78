"""The command line of the simulator."""

import argparse
import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

import msgspec

from tests.simulation.history import History, Violation
from tests.simulation.invariants import broken_promises
from tests.simulation.world import simulate

MEMORY = "/dev/shm"
PROGRESS_EVERY = 60.0
"""Seconds between two lines about a long run."""
LONGEST = 120.0
"""Seconds of CPU that a run may take."""
LONGEST_REST = 300.0
"""Seconds in which a run must end in any case: it may wait for SQLite, which takes no CPU."""
TIMERS = (
    (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, LONGEST),
    (signal.SIGALRM, signal.ITIMER_REAL, LONGEST_REST),
)
ENDLESS = 10**9
"""Seeds: more than any time is enough for."""


class Outcome(msgspec.Struct):
    """The result of a run.

    Attributes:
        seed: of the run.
        violations: what it broke.
        history: what happened.
        seconds: of CPU.
        days: that it simulated.
    """

    seed: int
    violations: list[Violation]
    history: History
    seconds: float
    days: float


def run_seed(seed: int, *, hub: bool = True) -> Outcome:
    # Not by chance within the run, where it would depend on the runs before, and cost more.
    gc.disable()
    parent = MEMORY if os.path.isdir(MEMORY) else None  # noqa: PTH112
    folder = Path(tempfile.mkdtemp(prefix="hookgw-simulation-", dir=parent))
    began = time.process_time()
    history, endless = History(), list[Endless]()

    def end_endless(_number: int, _frame: object) -> NoReturn:
        endless.append(
            Endless(f"the run takes {LONGEST:g} s of CPU, or {LONGEST_REST:g} s in all: does it end?")
        )
        raise endless[-1]

    for number, timer, longest in TIMERS:
        signal.signal(number, end_endless)
        signal.setitimer(timer, longest)
    try:
        simulate(seed, folder, history, hub=hub)
        if endless:  # a job that met it went on, as after any error
            raise endless[0]
        violations = broken_promises(history)
    except (Exception, Endless, BaseExceptionGroup) as error:  # a fault of the gateway that ended its run
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C in the middle of Trio's own code
            raise error.__cause__ from None
        if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt) is not None:
            raise
        violations = [Violation("fault", _innermost(error))]
    finally:
        shutil.rmtree(folder)
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0)
        gc.collect()
        _freeze_once()
        gc.enable()
    last = history.records[-1].at if history.records else 0.0
    return Outcome(seed, violations, history, time.process_time() - began, last / 86_400)


@functools.cache
def _freeze_once() -> None:
    # What is left was imported, or is kept by caches. (gc.get_freeze_count() would walk through all of it.)
    gc.freeze()


class Summary:
    """Counts runs, and says now and then how far they are.

    Args:
        first: the first seed.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._began = self._printed_at = time.monotonic()
        self._cpu = self._days = 0.0
        self.done = 0
        self.failed = 0

    @property
    def seconds(self) -> float:
        """How long they have taken."""
        return time.monotonic() - self._began

    def add(self, cpu: float, days: float, *, is_failed: bool) -> None:
        """Count a run, with the CPU seconds that it took and the days that it simulated."""
        self._cpu, self._days = self._cpu + cpu, self._days + days
        self.done += 1
        self.failed += is_failed

    def print_progress(self) -> None:
        """Print a line if the last one was a minute ago."""
        if time.monotonic() < self._printed_at + PROGRESS_EVERY:
            return
        self._printed_at = time.monotonic()
        rate = self.done / self.seconds
        print(f"… {self.done:,} runs, {self.failed} failed; {rate:.1f} a second", flush=True)

    @property
    def line(self) -> str:
        seeds = f"seeds {self._first} to {self._first + self.done - 1}" if self.done else "no seed"
        return (
            f"{self.done:,} runs ({seeds}), {self._days / 365:.1f} simulated years, {self.failed} failed; "
            f"{self.seconds:.0f} s, {1000 * self._cpu / max(1, self.done):.0f} ms of CPU each"
        )


class Endless(BaseException):
    """A run does not end. It is no ``Exception``: the gateway would go on after it, as after a plugin's."""


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "".join(traceback.format_exception(error)[-6:])


def _run_briefly(seed: int, *, hub: bool) -> tuple[int, list[Violation], float, float]:
    outcome = run_seed(seed, hub=hub)
    return seed, outcome.violations, outcome.seconds, outcome.days


def run_seeds(
    seeds: Sequence[int], workers: int, *, hub: bool = True
) -> Generator[tuple[int, list[Violation], float, float], None, None]:
    """Run seeds in processes. Yield each, in order: what it broke, its CPU seconds and simulated days."""
    run = functools.partial(_run_briefly, hub=hub)
    if workers == 1:
        yield from map(run, seeds)
        return
    with get_context("fork").Pool(workers, _ignore_interrupts) as pool:
        yield from pool.imap(run, seeds, chunksize=2)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that prints the summary, and end when it says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def report(violations: Sequence[Violation], seed: int, *, hub: bool = True) -> str:
    """Return what a seed broke, with the command that repeats it."""
    found = [f"seed {seed}: {one.rule}: {one.message}" for one in violations[:5]]
    more = [f"and {len(violations) - 5} more"] if len(violations) > 5 else []
    options = "--trace" if hub else "--trace --hub off"
    return "\n".join([*found, *more, f"Repeat it: nox -s simulate -- --seed {seed} {options}"])


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser("simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; alone, the only one")
    parser.add_argument("--runs", type=int, default=None, help="how many seeds")
    parser.add_argument(
        "--trace", action="store_true", help="print what happened; if a promise is broken, what concerns it"
    )
    parser.add_argument("--full", action="store_true", help="with --trace, print everything in any case")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--first", action="store_true", help="end with the first seed that breaks a promise")
    parser.add_argument("--minutes", type=float, default=None, help="end after so long")
    parser.add_argument("--failures", type=Path, default=None, help="append what seeds break to this file")
    parser.add_argument(
        "--hub", choices=("on", "off"), default="on", help="off: each socket is waited for by its own task"
    )
    given = parser.parse_args(arguments)
    hub = given.hub == "on"
    if given.trace:
        outcome = run_seed(given.seed or 1, hub=hub)
        names = frozenset[str]().union(*(one.names for one in outcome.violations))
        chosen = set(names) if names and not given.full else None
        sys.stdout.write(outcome.history.trace(chosen))
        if outcome.violations:
            print(report(outcome.violations, outcome.seed, hub=hub))
        return 1 if outcome.violations else 0
    first = 1 if given.seed is None else given.seed
    runs = given.runs
    if runs is None:
        runs = ENDLESS if given.minutes else 1 if given.seed is not None else 2000
    summary = Summary(first)
    seeds = run_seeds(range(first, first + runs), min(given.workers, runs), hub=hub)
    try:
        for seed, violations, took, lasted in seeds:
            summary.add(took, lasted, is_failed=bool(violations))
            if violations:
                text = report(violations, seed, hub=hub)
                print(text, flush=True)
                if given.failures:
                    with given.failures.open("a", encoding="utf-8") as file:
                        file.write(text + "\n\n")
                if given.first:
                    break
            if given.minutes and summary.seconds >= 60 * given.minutes:
                break
            summary.print_progress()
    except* KeyboardInterrupt:
        print("interrupted")
    finally:
        seeds.close()
    print(summary.line)
    return 1 if summary.failed else 0
