"""Cuts the power in many runs, or looks for the planted faults, and prints what was found."""

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.simulation.power.kinds import KINDS, PLANTED_IN, any_kind
from tests.simulation.power.runs import Failure, check_recording, find_failure

PART = 200
"""How many states of one run are looked at."""


class _Task(NamedTuple):
    seed: int
    kind: str
    states: int


class _Result(NamedTuple):
    task: _Task
    failures: list[Failure]


def _run(task: _Task) -> _Result:
    return _Result(task, check_recording(KINDS[task.kind](task.seed, "nothing"), task.states, task.seed))


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser("power", description=__doc__)
    parser.add_argument("--states", type=int, default=2000, help="how many states of the disk to look at")
    parser.add_argument("--seed", type=int, default=1, help="the first seed: each run has one of its own")
    parser.add_argument("--kind", choices=KINDS, help="runs of this kind alone")
    parser.add_argument("--plants", action="store_true", help="look for the planted faults instead")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    if given.plants:
        return _find_plants(given.states, given.seed)
    runs = -(-given.states // PART)
    tasks = [
        _Task(seed, given.kind or any_kind(seed), min(PART, given.states - PART * number))
        for number, seed in enumerate(range(given.seed, given.seed + runs))
    ]
    began, states, failed = time.monotonic(), Counter[str](), 0
    # Processes that are started anew: tracing needs a process without other threads.
    with get_context("spawn").Pool(min(given.workers, runs)) as pool:
        for task, failures in pool.imap_unordered(_run, tasks):
            states[task.kind] += task.states
            failed += len(failures)
            for failure in failures[:3]:
                print(_describe(task, failure), flush=True)
    print(
        f"{states.total():,} states of {runs:,} runs ("
        + ", ".join(f"{kind}: {count:,}" for kind, count in states.most_common())
        + f"), {failed} not as promised; {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def _describe(task: _Task, failure: Failure) -> str:
    """Return what is wrong with a state, and where its files are now."""
    folder = Path(tempfile.mkdtemp(prefix="hookgw-power-failure-"))
    for name, content in failure.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(content)
    said = "".join(f"\n  {line}" for line in failure.said[:6])
    return (
        f"{task.kind}, seed {task.seed}, cut after {failure.cut} operations, {failure.rules}; "
        f"the files are in {folder}:{said}"
    )


def _find_plants(most: int, first: int) -> int:
    """Print for each planted fault how many states were looked at, in one run after the other."""
    missed = 0
    for plant, kind in PLANTED_IN.items():
        looked_at, found = 0, None
        while found is None and looked_at < most:
            seed = first + looked_at // PART
            found = find_failure(KINDS[kind](seed, plant), PART, seed)
            looked_at += PART if found is None else found
        missed += found is None
        print(f"| {plant} | {kind} | {'not found' if found is None else looked_at} |", flush=True)
    return 1 if missed else 0
