"""What is checked before a change goes in. Plain ``nox`` runs what CI does: all that takes minutes at most.

``nox -l`` lists the sessions. What follows ``--`` goes to pytest: ``nox -s tests-3.12 -- -k lane``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "types", "minimums", "e2e", "crash", "tests"]
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
NOT_ASKED = [
    "ASYNC9",  # optional: a checkpoint on every path of every function
    "ASYNC114",  # would have every startable function listed by name
    "ASYNC124",  # a fake or a hook is async because its caller awaits it
    "ASYNC127",  # httpx is what plugins and transports share
]
ON_ALL_CORES = ("-n", "auto")
SLOW = ("tests/e2e", "tests/crash", "tests/soak", "tests/bench")


def show_every_python() -> None:
    """Put every Python of this machine within nox's reach.

    pyenv's ``python3.12`` only works where that version is switched on, and the Python that runs nox
    need not be on the path. Without this, versions that are there would be passed over.
    """
    os.environ["PATH"] += os.pathsep + str(Path(sys.base_prefix, "bin"))
    if shutil.which("pyenv") is None:
        return
    active = pyenv("version-name")
    installed = [v for v in pyenv("versions", "--bare") if re.fullmatch(r"3\.\d+\.\d+", v)]
    newest_first = sorted(installed, key=lambda v: int(v.rpartition(".")[2]), reverse=True)
    os.environ["PYENV_VERSION"] = ":".join(dict.fromkeys([*active, *newest_first]))


def pyenv(*arguments: str) -> list[str]:
    """The versions that a command of pyenv names; none where it fails."""
    answer = subprocess.run(["pyenv", *arguments], capture_output=True, text=True, check=False)
    return re.findall(r"[^\s:]+", answer.stdout) if answer.returncode == 0 else []


show_every_python()


def install(session: nox.Session, group: str, *options: str) -> None:
    """Install hookgw, so that changes take effect at once, and the tools of a dependency group."""
    session.install("--quiet", "-e", ".", *nox.project.dependency_groups(PROJECT, group), *options)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form of the code (ruff), its layers (import-linter) and its use of Trio (flake8-async)."""
    session.install("--quiet", *nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-cache", silent=True)
    sources = [*Path("hookgw").rglob("*.py"), *Path("plugins").rglob("*.py")]
    session.run("flake8-async", f"--disable={','.join(NOT_ASKED)}", *map(str, sources), silent=True)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of everything (mypy, strict)."""
    install(session, "types")
    session.run("mypy")


@nox.session(python=PYTHONS[0])
def minimums(session: nox.Session) -> None:
    """Run the tests with the lowest versions that pyproject.toml allows, on the lowest Python."""
    constraints = Path(session.create_tmp(), "minimums.txt")
    constraints.write_text("\n".join(PROJECT["project"]["dependencies"]).replace(">=", "=="))
    install(session, "test", "-c", str(constraints))
    ignored = [f"--ignore={folder}" for folder in SLOW]
    session.run("pytest", "-q", *ignored, *(session.posargs or ON_ALL_CORES))


@nox.session
def e2e(session: nox.Session) -> None:
    """Drive the server as a process of its own, over HTTP and the command line alone."""
    install(session, "test")
    session.run("pytest", "tests/e2e", *session.posargs)


def take_option(session: nox.Session, name: str, variable: str) -> tuple[dict[str, str], list[str]]:
    """An option of a session as the variable that its tests read, and what is left for pytest."""
    parser = argparse.ArgumentParser(session.name)
    parser.add_argument(f"--{name}", dest="value", help=f"sets {variable}")
    known, rest = parser.parse_known_args(session.posargs)
    return ({} if known.value is None else {variable: known.value}), rest


@nox.session
def crash(session: nox.Session) -> None:
    """Kill the server 20 times at random moments under load, and account for every event.

    ``nox -s crash -- --rounds 100`` kills it more often. Chosen moments come first.
    """
    install(session, "test")
    env, rest = take_option(session, "rounds", "HOOKGW_CRASH_ROUNDS")
    session.run("pytest", "tests/crash", "-s", *rest, env=env)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests on every supported Python that is here.

    On the lowest, nine branches in ten must be covered: measuring that costs half as much again.
    """
    install(session, "test")
    command = ["pytest", *(f"--ignore={folder}" for folder in SLOW), *session.posargs]
    if session.python != PYTHONS[0] or session.posargs:
        session.run(*command, *(() if session.posargs else ON_ALL_CORES))
        return
    data = {"COVERAGE_FILE": str(Path(session.create_tmp(), "coverage"))}
    session.run("coverage", "erase", env=data)
    session.run("coverage", "run", "-m", *command, env=data)
    session.run("coverage", "combine", "--quiet", env=data)
    session.run("coverage", "report", env=data)


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """Random faults, kills, resends and replays under constant load, then an account of every event.

    ``nox -s soak -- --minutes 10``; one minute by default.
    """
    install(session, "test")
    env, rest = take_option(session, "minutes", "HOOKGW_SOAK_MINUTES")
    session.run("pytest", "tests/soak", "-s", *rest, env=env)


@nox.session(default=False)
def security(session: nox.Session) -> None:
    """Try hostile input by the family on a running gateway: a table, and 1 where anything surprises.

    ``nox -s security -- --write`` puts the table into docs/security.md.
    """
    install(session, "test")
    session.run("python", "-m", "tests.security", *session.posargs)


@nox.session(default=False)
def properties(session: nox.Session) -> None:
    """Try the properties of the HTTP interface for longer than every run of the tests does.

    ``nox -s properties -- --examples 600`` (the default) takes minutes: ten times what the tests try.
    """
    install(session, "test")
    env, rest = take_option(session, "examples", "HOOKGW_EXAMPLES")
    session.run("pytest", "tests/properties", "--timeout=0", *rest, env={"HOOKGW_EXAMPLES": "600", **env})


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Look for input that breaks a promise, guided by coverage: three and a half minutes for all targets.

    ``nox -s fuzz -- --seconds 60 url host`` takes a minute for each of these two; ``--keep`` adds what
    reaches something new to the corpus, which every run of the tests tries.
    """
    install(session, "fuzz")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(default=False)
def contract(session: nox.Session) -> None:
    """Try a running gateway against its own ``/openapi.json`` (schemathesis): about two minutes.

    ``nox -s contract -- --seed 7 --max-examples 200`` tries other requests, and more of them; what follows
    ``--`` goes to ``schemathesis run``.
    """
    install(session, "contract")
    session.run("python", "-m", "tests.contract", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure the speed, each figure beside its reference in the same run."""
    install(session, "test")
    session.run("python", "-m", "tests.bench", *session.posargs)
