"""Two runs of one seed are the same, in two processes."""

import subprocess
import sys


def trace_of(seed: int) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--trace", "--full"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_two_runs_of_a_seed_have_the_same_trace() -> None:
    first = trace_of(7)
    assert len(first.splitlines()) > 50
    assert trace_of(7) == first
