"""Look for bytes that break a promise, guided by coverage: ``python -m tests.fuzz [NAME…]``.

Each target is tried for ``--seconds``. What is found on the way is kept in ``.fuzz``, where the next run
goes on from; ``--keep`` puts the smallest inputs that reach everything into ``tests/fuzz/corpus``. Bytes
that break a promise end the run with 1: mend it, and give them a name in the corpus.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import CORPUS, TARGETS, Target

WORK = Path(".fuzz")
MOST_KEPT = 40
"""Files of a target in the corpus, those with a name of their own not counted."""
SECONDS = 12
SLOWEST = 10
"""Seconds that one input may take."""


def main() -> int:
    arguments = _arguments()
    failed = []
    for name in arguments.names or TARGETS:
        if not fuzz(TARGETS[name], arguments.seconds):
            failed.append(name)
        elif arguments.keep:
            keep(TARGETS[name])
    print(f"fuzz: {len(failed)} of {len(arguments.names or TARGETS)} targets failed", *failed)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*TARGETS, []], help="all by default")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="put what is worth it into the corpus")
    return parser.parse_args()


def fuzz(target: Target, seconds: int) -> bool:
    """Try a target for a while; whether it held."""
    work = WORK / target.name
    work.mkdir(parents=True, exist_ok=True)
    (CORPUS / target.name).mkdir(parents=True, exist_ok=True)
    words = WORK / f"{target.name}.dict"
    some = target.words or ("0",)  # libFuzzer refuses a dictionary without words
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in some), encoding="ascii")
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={target.longest}",
        f"-timeout={SLOWEST}",
        f"-dict={words}",
        f"-artifact_prefix={WORK}/{target.name}-",
    ]
    done = _run(target, [*options, str(work), str(CORPUS / target.name)])
    lines = done.stderr.splitlines()
    if done.returncode != 0:
        print(f"{target.name}: FAILED", *done.stdout.splitlines()[-25:], *lines[-3:], sep="\n  ")
        return False
    tried = next((line.split()[1] for line in reversed(lines) if line.startswith("Done ")), "?")
    print(f"{target.name}: {tried} inputs in {seconds} s, {len(list(work.iterdir()))} worth keeping")
    return True


def keep(target: Target) -> None:
    """Put the smallest inputs that together reach everything into the corpus."""
    corpus, work = CORPUS / target.name, WORK / target.name
    with tempfile.TemporaryDirectory() as fresh:
        _run(target, ["-merge=1", f"-max_len={target.longest}", fresh, str(corpus), str(work)], check=True)
        named = {path.read_bytes() for path in target.kept() if not _is_anonymous(path)}
        found = [path for path in Path(fresh).iterdir() if path.read_bytes() not in named]
        for path in filter(_is_anonymous, target.kept()):
            path.unlink()
        for path in sorted(found, key=lambda path: (path.stat().st_size, path.name))[:MOST_KEPT]:
            shutil.copyfile(path, corpus / path.name[:12])


def _is_anonymous(path: Path) -> bool:
    """Whether the fuzzer gave the file its name."""
    return len(path.name) == 12 and set(path.name) <= set("0123456789abcdef")


def _run(
    target: Target, arguments: Sequence[str], *, check: bool = False
) -> subprocess.CompletedProcess[str]:
    starter = (WORK / f"{target.name}.sh").resolve()
    command = [sys.executable, "-m", "tests.fuzz.worker", str(starter), target.name]
    starter.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    starter.chmod(0o700)
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, errors="replace", check=check
    )


def _escaped(word: str) -> str:
    """A word as libFuzzer's dictionaries write it."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word.encode()
    )


if __name__ == "__main__":
    sys.exit(main())
