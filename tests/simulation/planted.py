"""Plants each of the bugs in ``bugs/`` into a copy of hookgw, and counts the runs until one finds it.

``python -m tests.simulation.planted`` tries all and prints a table; with ``--write``, it updates the one in
``docs/proofs.md``. With names, it tries these. A patch may name a file of tests that finds the bug: then this
runs it instead of the simulator.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUGS = Path(__file__).with_name("bugs")
PAGE = ROOT / "docs" / "proofs.md"
_TABLE = re.compile(r"(?<=<!-- planted bugs -->\n).*?(?=<!-- end -->)", re.DOTALL)
_DONE = re.compile(r"^([\d,]+) runs \(", re.MULTILINE)
_FOUND_BY = re.compile(r"^Found by (tests/\S+)\.$", re.MULTILINE)
_RULE = re.compile(r"^seed \d+: (\w+):", re.MULTILINE)


def patches() -> dict[str, Path]:
    """Return the patches by name."""
    return {file.stem: file for file in sorted(BUGS.glob("*.patch"))}


def description(patch: Path) -> str:
    """Return the sentence at the beginning of a patch."""
    return patch.read_text("utf-8").partition("\n")[0]


def finding_tests(patch: Path) -> str | None:
    """Return the file of tests that finds a bug; ``None`` if the simulator does."""
    found = _FOUND_BY.search(patch.read_text("utf-8"))
    return found[1] if found else None


def find_by_tests(patch: Path, tests: str) -> tuple[int | None, str]:
    """Return 1 if a file of tests fails with a bug, and its name; else ``None``."""
    with tempfile.TemporaryDirectory(prefix="hookgw-planted-") as folder:
        for part in ("hookgw", "plugins", "tests"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "--timeout", "20", tests],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode not in (0, 1):  # not "some tests failed"
        raise RuntimeError(ran.stdout + ran.stderr)
    return (1 if ran.returncode else None), Path(tests).name


def find(patch: Path, runs: int) -> tuple[int | None, str]:
    """Return how many runs it takes to find a bug, and the check that does; ``None`` if none does."""
    if tests := finding_tests(patch):
        return find_by_tests(patch, tests)
    with tempfile.TemporaryDirectory(prefix="hookgw-planted-") as folder:
        for part in ("hookgw", "tests/simulation"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
        options = ("--runs", str(runs), "--workers", "1", "--first")
        found = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    done, rule = _DONE.search(found.stdout), _RULE.search(found.stdout)
    if done is None:
        raise RuntimeError(found.stdout + found.stderr)
    return (int(done[1].replace(",", "")), rule[1]) if rule else (None, "")


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser("planted", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *patches()])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="bugs at a time")
    parser.add_argument("--write", action="store_true", help="update docs/proofs.md")
    given = parser.parse_args(arguments)
    lines, missed = ["| bug | found by | runs |", "|---|---|---|"], 0
    chosen = {name: patch for name, patch in patches().items() if not given.names or name in given.names}
    with ThreadPoolExecutor(given.workers) as threads:
        found = threads.map(partial(find, runs=given.runs), chosen.values())
        for (name, patch), (runs, rule) in zip(chosen.items(), found, strict=True):
            missed += runs is None
            lines.append(f"| {description(patch)} | `{rule}` | {runs or f'more than {given.runs:,}'} |")
            print(f"{name}: {runs or 'not found'} {rule}", flush=True)
    if given.write:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(_TABLE.sub(lambda _: "\n" + "\n".join(lines) + "\n\n", page), "utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
