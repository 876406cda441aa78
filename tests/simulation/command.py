"""The command line of the simulator."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tests.simulation.history import History, Violation
from tests.simulation.invariants import broken_promises
from tests.simulation.world import simulate

MEMORY = "/dev/shm"


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


def run_seed(seed: int) -> Outcome:
    """Run a seed and check it."""
    parent = MEMORY if os.path.isdir(MEMORY) else None  # noqa: PTH112
    folder = Path(tempfile.mkdtemp(prefix="hookgw-simulation-", dir=parent))
    began = time.process_time()
    history = History()
    try:
        simulate(seed, folder, history)
        violations = broken_promises(history)
    except Exception as error:  # noqa: BLE001 -- a fault of the gateway that ended its run
        violations = [Violation("fault", _innermost(error))]
    finally:
        shutil.rmtree(folder)
    last = history.records[-1].at if history.records else 0.0
    return Outcome(seed, violations, history, time.process_time() - began, last / 86_400)


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "".join(traceback.format_exception(error)[-6:])


def _run_briefly(seed: int) -> tuple[int, list[Violation], float, float]:
    outcome = run_seed(seed)
    return seed, outcome.violations, outcome.seconds, outcome.days


def run_seeds(seeds: Sequence[int], workers: int) -> Iterator[tuple[int, list[Violation], float, float]]:
    """Run seeds in processes. Yield each, in order: what it broke, its CPU seconds and simulated days."""
    if workers == 1:
        yield from map(_run_briefly, seeds)
        return
    with get_context("fork").Pool(workers) as pool:
        yield from pool.imap(_run_briefly, seeds, chunksize=2)


def report(violations: Sequence[Violation], seed: int) -> str:
    """Return what a seed broke, with the command that repeats it."""
    found = [f"seed {seed}: {one.rule}: {one.message}" for one in violations[:5]]
    more = [f"and {len(violations) - 5} more"] if len(violations) > 5 else []
    return "\n".join([*found, *more, f"Repeat it: nox -s simulate -- --seed {seed} --trace"])


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
    given = parser.parse_args(arguments)
    if given.trace:
        outcome = run_seed(given.seed or 1)
        names = frozenset[str]().union(*(one.names for one in outcome.violations))
        chosen = set(names) if names and not given.full else None
        sys.stdout.write(outcome.history.trace(chosen))
        if outcome.violations:
            print(report(outcome.violations, outcome.seed))
        return 1 if outcome.violations else 0
    first = 1 if given.seed is None else given.seed
    runs = given.runs or (1 if given.seed is not None else 2000)
    began, seconds, days, failed, done = time.monotonic(), 0.0, 0.0, 0, 0
    for seed, violations, took, lasted in run_seeds(range(first, first + runs), min(given.workers, runs)):
        seconds, days, done = seconds + took, days + lasted, done + 1
        if violations:
            failed += 1
            print(report(violations, seed), flush=True)
            if given.first:
                break
    print(
        f"{done:,} runs, {days / 365:.1f} simulated years, {failed} failed; "
        f"{time.monotonic() - began:.0f} s, {1000 * seconds / done:.0f} ms of CPU each"
    )
    return 1 if failed else 0
