"""This checkout and another commit in turn: the processor time of an event, from accept to settled.

The machines are shared, and their speed changes from minute to minute. So a process of each runs all the
time. They work in turn, a few seconds at a time, and the medians are compared.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from subprocess import PIPE, Popen

import trio

from tests.bench.engine import deliver
from tests.bench.parts import ROOT, drained, gateway, make_events, receiving, register, scratch
from tests.bench.results import Result

WORK = {"one lane": (1, 8), "64 lanes": (64, 8), "64 lanes, batches of 100": (64, 100)}
"""How many lanes, and how many events a batch has."""


def against(commit: str, full: bool) -> list[Result]:
    """Processor time of an event, and of the same event at another commit."""
    turns, events = (30, 6400) if full else (10, 3200)
    with scratch() as folder:
        tree = _unpacked(commit, folder)
        return [_compared(work, commit, tree, turns, events) for work in WORK]


def _compared(work: str, commit: str, tree: Path, turns: int, events: int) -> Result:
    took: dict[Path, list[float]] = {ROOT: [], tree: []}
    with ExitStack() as stack:
        workers = {path: stack.enter_context(_worker(work, path)) for path in took}
        for turn in range(turns):
            for path in (ROOT, tree) if turn % 2 else (tree, ROOT):
                took[path].append(_ask(workers[path], events))
    return Result(
        name=f"{work}, CPU of an event",
        value=median(took[ROOT]),
        unit="µs",
        reference=f"commit {commit}, in turn",
        reference_value=median(took[tree]),
        better="less",
        details={"faster": median(old / new for old, new in zip(took[tree], took[ROOT], strict=True))},
    )


def _unpacked(commit: str, folder: Path) -> Path:
    """Unpack hookgw, its plugins, and the benches, which import its modules, as they were at a commit."""
    paths = ("hookgw", "plugins", "tests", "pyproject.toml")
    packed = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, stdout=PIPE, check=True).stdout
    tree = folder / "tree"
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", tree], input=packed, check=True)
    return tree


@contextmanager
def _worker(work: str, tree: Path) -> Iterator[Popen[str]]:
    # -P: without it, the working directory would come before the other tree.
    command = [sys.executable, "-P", "-m", "tests.bench.against", work]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with Popen(command, cwd=ROOT, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _ask(worker: Popen[str], events: int) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{events}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


async def _work(lanes: int, batch: int) -> None:
    """Deliver as many events as each line of standard input says; print the time of one, in µs."""
    with scratch() as folder, receiving() as receiver:
        async with gateway(folder) as opened:
            names = await register(opened, [receiver.url(number) for number in range(lanes)])
            await opened.events.accept([event for name in names for event in make_events(name, 10, "warm")])
            await drained(opened)
            turn = 0
            while line := await trio.to_thread.run_sync(sys.stdin.readline):
                turn += 1
                rows = [make_events(name, int(line) // lanes, f"e{turn}") for name in names]
                _, details = await deliver(opened, rows, batch=batch)
                print(details["cpu_us_per_event"], flush=True)


if __name__ == "__main__":
    trio.run(_work, *WORK[sys.argv[1]])
