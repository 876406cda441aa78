"""The checks that every change must pass.

Plain ``nox`` runs what a change most often breaks, in seven minutes on two cores. ``nox -t ci`` runs all that
CI runs, in a quarter of an hour: also processes, PostgreSQL, a browser, networks, each supported Python.

``nox -l`` lists the sessions. Arguments after ``--`` go to pytest: ``nox -s tests -P 3.12 -- -k lane``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nox

nox.needs_version = ">=2026.10.20"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
# The one between the lowest and the newest runs the server as a process, if it is installed.
BETWEEN = [f"python{version}" for version in PYTHONS[1:-1]]
nox.options.sessions = ["tests", "lint", "types", "simulate"]
CI = ["ci"]
# Two sessions run at a time, because several wait more than they compute: first the longest and those beside
# it, then the short ones, and last, alone, what uses all cores from its first moment. A tag takes sessions in
# the order of this file. A session that is named is alone, and shows its output at once.
if sys.argv[1:] in ([], ["-t", *CI]):
    nox.options.parallel = 2
    nox.options.allow_parallel = True
NOT_ASKED = [
    "ASYNC9",  # optional: a checkpoint on every path of every function
    "ASYNC100",  # ruff checks it, too. Each of these two would be a walk through every file of its own
    "ASYNC300",  # of asyncio, which is not used here
    "ASYNC114",  # would have every startable function listed by name
    "ASYNC124",  # a fake or a hook is async because its caller awaits it
    "ASYNC127",  # httpx is what plugins and transports share
]
# Some tests take a hundred times as long as others, so a worker that is done takes tests from another.
ON_ALL_CORES = ("-n", "auto", "--dist", "worksteal")
# Random examples of the HTTP interface. ``properties`` tries more.
FEW_EXAMPLES = {"HOOKGW_EXAMPLES": "12"}
# hookgw's own logic: its faults, orders and limits do not depend on the version of a library.
OWN_LOGIC = (
    *("tests/faults", "tests/properties", "tests/security", "tests/fuzz", "tests/gateway", "tests/dispatch"),
    *("tests/store", "tests/simulation", "tests/fleet", "tests/test_secrets.py"),
    *("tests/first_party", "tests/models", "tests/auth", "tests/connectors", "tests/fair", "tests/deploy"),
    *("tests/parsing", "tests/delivery", "tests/isolation", "tests/test_bench_peers.py", "tests/mcp"),
    *("tests/manual", "tests/test_docs.py", "tests/test_private_names.py", "tests/test_internals.py"),
    *("tests/test_patterns.py", "tests/test_error_ids.py", "tests/test_reference.py", "tests/keys"),
    *("tests/test_no_code_from_data.py", "tests/test_fleet_branches.py", "tests/test_bench_compare.py"),
    *("tests/api/test_route_walk.py", "tests/dashboard/test_portal_walk.py", "tests/locale"),
    *("tests/api/test_reach.py", "tests/api/openapi", "tests/dashboard/test_portal.py"),
    *("tests/plugins/test_provided.py", "tests/plugins/test_manual_connector.py"),
    *("tests/dashboard/test_languages.py", "tests/dashboard/test_rights_of_forms.py", "tests/kernel"),
)
# Tests that open a gateway or start a process for each case: CI runs two of the cases.
LARGE = tuple(
    f"--few-cases-of=tests/{place}"
    for place in (
        *("api/", "cli/", "dashboard/", "faults/", "first_party/", "gateway/", "manual/", "store/"),
        *("plugins/test_provided.py", "simulation/power/"),
        "simulation/test_planted.py::test_the_tests_that_a_patch_names_find_it",
    )
)
DENDRITE = "v0.13.8"
# Its xlsx is on no registry; nothing here reads tables. Of isolated-vm, see tests/clients/isolated_vm.
N8N = {
    "private": True,
    # n8n-workflow is n8n's own; the nodes would bring the newest.
    "dependencies": {"n8n": "1.123.81", "n8n-nodes-evolution-api": "1.0.4", "n8n-workflow": "1.120.31"},
    "overrides": {
        "xlsx": "npm:xlsx@0.18.5",
        "isolated-vm": f"file:{Path('tests/clients/isolated_vm').resolve()}",
    },
}
# What the dashboard is tested with: Debian's packages and their programs.
BROWSERS = {
    "chromium": "chromium",
    "firefox-esr": "firefox-esr",
    "nginx-light": "nginx",
    "caddy": "caddy",
    "haproxy": "haproxy",
    "apache2": "apache2",
}
# What operators do to their PostgreSQL: presets, copies, a switched server, old transactions, lost tables.
OPERATORS = (
    "tests/gateway/fleet/test_switched_server.py",
    *(
        f"tests/store/postgresql/test_{name}.py"
        for name in ("environment", "database", "schema", "scrub", "held")
    ),
)
SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
FRONTS = "tests/browser/test_fronts.py"
# Each of these has a session of its own.
SLOW = (
    "e2e",
    "crash",
    "surroundings",
    "networks",
    "browser",
    "soak",
    "bench",
    "binary",
    "clients",
    "release",
)
WITHOUT_SLOW = tuple(f"--ignore=tests/{folder}" for folder in SLOW)


def show_every_python() -> None:
    """Let nox find every Python of this machine.

    pyenv's ``python3.12`` fails where pyenv has not switched that version on, and the Python that runs nox
    may be missing from PATH. Without this, nox would skip installed versions.
    """
    os.environ["PATH"] += os.pathsep + str(Path(sys.base_prefix, "bin"))
    if shutil.which("pyenv") is None:
        return
    active = pyenv("version-name")
    installed = [v for v in pyenv("versions", "--bare") if re.fullmatch(r"3\.\d+\.\d+", v)]
    newest_first = sorted(installed, key=lambda v: int(v.rpartition(".")[2]), reverse=True)
    os.environ["PYENV_VERSION"] = ":".join(dict.fromkeys([*active, *newest_first]))


def pyenv(*arguments: str) -> list[str]:
    """Return the versions in the output of a pyenv command, or nothing if the command fails."""
    answer = subprocess.run(["pyenv", *arguments], capture_output=True, text=True, check=False)
    return re.findall(r"[^\s:]+", answer.stdout) if answer.returncode == 0 else []


show_every_python()
# Many container images set it. Tests start hundreds of processes and load plugins thousands of times:
# compiling hookgw anew each time takes half of all their time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
PROCESS_PYTHON = next(filter(shutil.which, BETWEEN), None)
NEWEST = next((version for version in reversed(PYTHONS) if shutil.which(f"python{version}")), PYTHONS[0])
# Distributions build Python with profiles of its use: what mainly computes is a seventh faster with theirs.
LOWEST = shutil.which(f"python{PYTHONS[0]}", path="/usr/bin") or PYTHONS[0]
# uv installs in a tenth of pip's time, where it is installed. It does not read pip's configuration: so pip is
# used where that names another index, and certificates are those that the machine trusts.
PIP_CONFIGURATION = subprocess.run(
    [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
).stdout
if "index" not in PIP_CONFIGURATION:
    nox.options.default_venv_backend = "uv|virtualenv"
    os.environ.setdefault("UV_SYSTEM_CERTS", "true")


def install(session: nox.Session, group: str, *options: str) -> None:
    """Install hookgw (editable) and a dependency group."""
    # Python compiles what is imported, which is less than half of it.
    groups = nox.project.dependency_groups(PROJECT, group)
    session.install("--quiet", "--no-compile", "-e", ".", *groups, *options)


def find_postgresql(session: nox.Session) -> None:
    """See to it that there is a PostgreSQL server for the tests of its engine.

    Root installs Debian's. Others go without these tests, but for CI, where they fail.
    """
    # Debian keeps the servers out of the search path.
    is_there = shutil.which("postgres") or any(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not is_there and os.getuid() == 0 and shutil.which("apt-get"):
        session.run("apt-get", "update", "-qq", external=True, silent=True)
        session.run("apt-get", "install", "-y", "-qq", "postgresql", external=True, silent=True)


@contextmanager
def files_in_memory() -> Iterator[list[str]]:
    """Yield the options by which pytest keeps the files of tests in memory; none without room for 4 GiB.

    Each of thousands of tests has a store of its own, and waits for the disk a third of its time. Power cuts
    and full disks are tested in ways that do not depend on the disk.
    """
    memory = Path("/dev/shm")
    found = os.statvfs(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None
    # Containers often have 64 MiB, from which no program may be started.
    if found is None or found.f_bavail * found.f_frsize < 4 << 30 or found.f_flag & os.ST_NOEXEC:
        yield []
        return
    with TemporaryDirectory(prefix="hookgw-tests-", dir=memory) as folder:
        yield [f"--basetemp={folder}/files"]


def take_options(session: nox.Session, **variables: str) -> tuple[dict[str, str], list[str]]:
    """Take options out of the session's arguments.

    Args:
        session: has the arguments.
        variables: the environment variable of each option, by its name.

    Returns:
        The environment variables that hand the values to the tests, and the remaining arguments, for pytest.
    """
    parser = argparse.ArgumentParser(session.name)
    for name, variable in variables.items():
        parser.add_argument(f"--{name}", dest=variable, help=f"sets {variable}")
    known, rest = parser.parse_known_args(session.posargs)
    return {name: value for name, value in vars(known).items() if value is not None}, rest


@nox.session(python=PROCESS_PYTHON, tags=CI)
def networks(session: nox.Session) -> None:
    """Carry accounts of a real Synapse and of other networks' fakes; kill them; account for every message.

    The same for a real RabbitMQ, if one is installed (Debian: rabbitmq-server).
    """
    install(session, "networks")
    # By file: each worker starts the servers of its networks once.
    session.run("pytest", "tests/networks", *(session.posargs or ("-n", "auto", "--dist", "loadfile")))


@nox.session(python=NEWEST, tags=CI)
def newest(session: nox.Session) -> None:
    """Run all tests on the newest Python, those that start processes or PostgreSQL among them.

    CI runs two cases of each test that opens a gateway.
    """
    find_postgresql(session)
    install(session, "test")
    few = LARGE if os.environ.get("CI") else ()
    with files_in_memory() as options:
        which = session.posargs or (*ON_ALL_CORES, *few)
        session.run("pytest", *WITHOUT_SLOW, *options, *which, env=FEW_EXAMPLES)


@nox.session(python=NEWEST, default=False)
def coverage(session: nox.Session) -> None:
    """Do as ``newest`` does, and report the lines that no test ran; too many are an error.

    Lines are measured in the workers and in the processes that tests start. ``nox -s coverage -- --branch``
    also measures branches.
    """
    find_postgresql(session)
    install(session, "test")
    # sysmon takes a sixth more time, and the usual core twice the time. Before Python 3.14, sysmon cannot
    # measure branches.
    core = "ctrace" if session.posargs else "sysmon"
    data = str(Path(session.create_tmp(), "coverage").resolve())
    env = {"COVERAGE_FILE": data, "COVERAGE_CORE": core}
    session.run("coverage", "erase", env=env)
    command = ("coverage", "run", *session.posargs, "-m", "pytest")
    with files_in_memory() as options:
        session.run(*command, *WITHOUT_SLOW, *options, *ON_ALL_CORES, env=env | FEW_EXAMPLES)
    session.run("coverage", "combine", "--quiet", env=env)
    session.run("coverage", "report", env=env)


@nox.session(python=PROCESS_PYTHON, tags=CI)
def crash(session: nox.Session) -> None:
    """Kill the server at chosen moments, and 20 times at random moments under load; account for every event.

    CI kills it 5 times at random, and runs two cases of each test; ``nox -s crash -- --rounds 100`` kills it
    more often. ``--engine postgresql`` runs all of it on that engine. With arguments, the tests run one after
    the other, and the figures of the account are printed.
    """
    find_postgresql(session)
    install(session, "test")
    env, rest = take_options(session, rounds="HOOKGW_CRASH_ROUNDS", engine="HOOKGW_CRASH_ENGINE")
    how = ("-s", *rest) if session.posargs else ON_ALL_CORES
    if os.environ.get("CI"):
        env.setdefault("HOOKGW_CRASH_ROUNDS", "5")
        how = (*how, "--few-cases")
    session.run("pytest", "tests/crash", *how, env=env)


@nox.session(tags=CI)
def browser(session: nox.Session) -> None:
    """Use the dashboard in Chromium and Firefox, behind each proxy of the manual, and check it with axe-core.

    Root installs what is missing from Debian's packages; others are told, and CI fails. CI runs two cases of
    each test: themes, widths, pairs of browser and proxy. ``-- --screenshots`` also takes the pictures of the
    manual anew, and those of every page that ``build/screens`` has for people to look at.
    """
    missing = [package for package, program in BROWSERS.items() if shutil.which(program, path=SBIN) is None]
    if missing and os.getuid() == 0 and shutil.which("apt-get"):
        # Without the runlevel, the servers among them would start.
        env = {"RUNLEVEL": "1", "DEBIAN_FRONTEND": "noninteractive"}
        session.run("apt-get", "update", "-qq", external=True, silent=True)
        options = ("-y", "-qq", "--no-install-recommends")
        packages = (*missing, "fonts-noto-core")
        session.run("apt-get", "install", *options, *packages, external=True, silent=True, env=env)
    elif missing and os.environ.get("CI"):
        session.error(f"Not installed: {', '.join(missing)}.")
    elif missing:
        session.warn(f"Tests are skipped. Only root may install: apt-get install {' '.join(missing)}")
    install(session, "browser")
    # Playwright never ends a wait once a time limit interrupted one, and each later test would hang as well.
    # So a test that takes too long ends its worker, and the next test begins with a new browser.
    pytest = ("pytest", "--timeout-method=thread", "-n")
    rest = [one for one in session.posargs if one != "--screenshots"]
    takes = len(rest) < len(session.posargs)
    env = {"HOOKGW_SCREENSHOTS": "docs/images", "HOOKGW_SCREENS": "build/screens"} if takes else {}
    if rest:
        session.run(*pytest, "1", "tests/browser", *rest, env=env)
        return
    few = ("--few-cases",) if os.environ.get("CI") else ()
    session.run(*pytest, "1", "tests/browser", f"--ignore={FRONTS}", *few, env=env)
    # Each pair takes half a minute, and waits most of the time.
    session.run(*pytest, "2", FRONTS, *few)


@nox.session(python=PROCESS_PYTHON, tags=CI)
def e2e(session: nox.Session) -> None:
    """Test the server as a separate process, over HTTP and the command line only."""
    install(session, "test")
    session.run("pytest", "tests/e2e", *(session.posargs or ON_ALL_CORES))


@nox.session(python=LOWEST, tags=CI)
def minimums(session: nox.Session) -> None:
    """Run tests on the lowest Python, with the lowest versions that pyproject.toml allows.

    They are the tests of what touches a dependency, without processes, each with two of its cases at most: a
    dependency that lacks something fails either of them. They run without the hub, as on
    systems without epoll. ``nox -s minimums -- tests`` runs all.
    """
    constraints = Path(session.create_tmp(), "minimums.txt")
    constraints.write_text("\n".join(PROJECT["project"]["dependencies"]).replace(">=", "=="))
    find_postgresql(session)
    install(session, "minimums", "-c", str(constraints))
    few = ("-m", "not process", "--few-cases", "--hypothesis-profile=few", "--hub=off")
    fewer = () if session.posargs else (*few, *(f"--ignore={folder}" for folder in OWN_LOGIC))
    with files_in_memory() as options:
        which = session.posargs or ON_ALL_CORES
        session.run("pytest", "-q", *fewer, *WITHOUT_SLOW, *options, *which, env=FEW_EXAMPLES)


@nox.session(python=LOWEST)
def tests(session: nox.Session) -> None:
    """Run the tests on the lowest Python, with the newest versions of everything.

    ``nox -s tests -- tests`` also runs those that take long because they start processes or PostgreSQL, as
    ``newest`` does.
    """
    if session.posargs:
        find_postgresql(session)
    install(session, "test")
    quick = ("-m", "not process", "--hypothesis-profile=few", *ON_ALL_CORES)
    env = None if session.posargs else FEW_EXAMPLES
    with files_in_memory() as options:
        session.run("pytest", *WITHOUT_SLOW, *options, *(session.posargs or quick), env=env)


@nox.session(python=LOWEST, default=False)
def trio(session: nox.Session) -> None:
    """Check the use of Trio by all rules of flake8-async, which take a minute; ``lint`` has some of them."""
    session.install("--quiet", "--no-compile", *nox.project.dependency_groups(PROJECT, "lint"))
    sources = [*Path("hookgw").rglob("*.py"), *Path("plugins").rglob("*.py")]
    # flake8-async is slow, and all its rules are about async functions and Trio.
    about = re.compile(r"\basync\b|trio")
    concerned = [str(path) for path in sorted(sources) if about.search(path.read_text("utf-8"))]
    options = ["flake8-async", f"--disable={','.join(NOT_ASKED)}"]
    with ThreadPoolExecutor() as pool:  # it uses one core
        halves = [pool.submit(session.run, *options, *concerned[start::2], silent=True) for start in (0, 1)]
    for half in halves:
        half.result()


@nox.session(python=LOWEST, tags=CI)
def lint(session: nox.Session) -> None:
    """Check the form of the code (ruff) and its layers (import-linter)."""
    session.install("--quiet", "--no-compile", *nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-cache", silent=True)


@nox.session(tags=CI)
def types(session: nox.Session) -> None:
    """Check all types (mypy, strict), and the packages that ``hookgw plugin new`` writes."""
    install(session, "types")
    session.run("mypy")
    session.run("pytest", "-q", "tests/cli/test_plugin.py", "-k", "has_types or well_formed")


# The runs only compute, and the lowest Python is a fifth faster at that than the next one, where both were
# built without profiles.
@nox.session(python=LOWEST, tags=CI, allow_parallel=False)
def simulate(session: nox.Session) -> None:
    """Run 2,000 seeds of the simulator: gateways on a simulated clock, network and disk, with faults.

    CI runs 300. ``nox -s simulate -- --seed 7 --trace`` shows what happens in one run; ``--runs 100000``
    takes hours. ``--power 20000`` cuts the power of a recorded store instead, and looks at so many
    states of its disk.
    """
    install(session, "test")
    parser = argparse.ArgumentParser(session.name, add_help=False, allow_abbrev=False)
    parser.add_argument("--power")
    known, rest = parser.parse_known_args(session.posargs)
    if known.power is None:
        few = ("--runs", "300") if os.environ.get("CI") and not rest else ()
        session.run("python", "-m", "tests.simulation", *few, *rest)
    else:
        session.run("python", "-m", "tests.simulation.power", "--states", known.power, *rest)


@nox.session
def reference(session: nox.Session) -> None:
    """Write docs/reference/ from docstrings, and the tables of three other pages, such as docs/http.md.

    A test fails while they differ from the code.
    """
    install(session, "test")
    session.run("python", "-m", "tests.support.reference")
    session.run("python", "-m", "tests.support.networks_table")


@nox.session(default=False)
def texts(session: nox.Session) -> None:
    """Write the marked texts of the code into the catalogues of translations, and print what lacks one.

    A test fails while they differ from the code.
    """
    install(session, "test")
    session.run("python", "-m", "tests.support.texts", *session.posargs)


@nox.session(default=False)
def site(session: nox.Session) -> None:
    """Write the manual as a static site into ``site``, to publish it; ``nox -s site -- FOLDER`` elsewhere."""
    install(session, "test")
    session.run("python", "-m", "tests.support.site", *(session.posargs or ["site"]))


@nox.session(python=NEWEST, default=False, reuse_venv=False)
def binary(session: nox.Session) -> None:
    """Build ``dist/hookgw``, one file, and test it without Python on the path: two minutes."""
    # Not editable: the wheel has what users get, such as the first-party plugins.
    session.install("--quiet", ".[otel,rabbitmq]", *nox.project.dependency_groups(PROJECT, "binary"))
    folder = Path(session.create_tmp()).resolve()
    options = ("--noconfirm", "--log-level", "WARN", "--workpath", str(folder), "--distpath", "dist")
    session.run("pyinstaller", *options, "deploy/binary/hookgw.spec", silent=True)
    # Not before, and never into an old environment: the binary would get the extras that only tests need.
    session.install("--quiet", *nox.project.dependency_groups(PROJECT, "test"))
    program = Path("dist", "hookgw").resolve()
    session.run("pytest", "-s", "tests/binary", *session.posargs, env={"HOOKGW_BINARY": str(program)})


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Build wheel and sdist in ``dist``, twice and from each other, and install them without a network.

    The builds must be equal to the last byte. If the commit has a tag, the version must be the tag's. It
    takes some minutes, and asks the package index for the dependencies' wheels.
    """
    install(session, "release")
    folder = Path(session.create_tmp()).resolve()
    for name in ("first", "another-folder", "again", "wheels"):
        shutil.rmtree(folder / name, ignore_errors=True)
    files = session.run(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", silent=True, external=True
    )
    # Another place, other modes and times of files: none of them may be in what is built.
    for name, mode, time in (("first", 0o644, 1_500_000_000), ("another-folder", 0o600, 1_700_000_000)):
        copy_files(str(files).split("\0"), folder / name, mode, time)
        session.chdir(folder / name)
        session.run("hatchling", "build", "-d", "dist", silent=True)
    (sdist,) = (folder / "first" / "dist").glob("*.tar.gz")
    shutil.unpack_archive(sdist, folder / "again")
    session.chdir(next((folder / "again").iterdir()))
    session.run("hatchling", "build", "-d", "dist", "-t", "wheel", silent=True)
    (wheel,) = (folder / "first" / "dist").glob("*.whl")
    options = ("--quiet", "--wheel-dir", str(folder / "wheels"))
    session.run("python", "-m", "pip", "wheel", *options, f"{wheel}[mcp,otel,postgresql]")
    session.chdir(Path(__file__).parent)
    session.run("pytest", "tests/release", *session.posargs, env={"HOOKGW_RELEASE": str(folder)})
    shutil.copytree(folder / "first" / "dist", "dist", dirs_exist_ok=True)


def copy_files(names: list[str], target: Path, mode: int, time: int) -> None:
    for name in filter(None, names):
        source, copy = Path(__file__).parent / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod(mode | (source.stat().st_mode & 0o100))
            os.utime(copy, (time, time))


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """Cause random faults, kills, resends and replays under constant load; account for every event.

    It takes one minute; ``nox -s soak -- --minutes 10`` takes ten.
    """
    install(session, "test")
    env, rest = take_options(session, minutes="HOOKGW_SOAK_MINUTES")
    # Without the variable the test is skipped, and the session would say "successful" of nothing.
    session.run("pytest", "tests/soak", "-s", *rest, env={"HOOKGW_SOAK_MINUTES": "1", **env})


@nox.session(default=False)
def faults(session: nox.Session) -> None:
    """Let happen around a running hookgw what operators see, and account for every accepted event: minutes.

    Files are moved, replaced, damaged and locked under it, and the process runs short of what it needs.
    """
    install(session, "test")
    session.run("pytest", "tests/surroundings", *(session.posargs or ON_ALL_CORES))


@nox.session(default=False)
def fleet(session: nox.Session) -> None:
    """Cause faults at random in three nodes on a real PostgreSQL under load; account for every event.

    Nodes are killed, frozen, stopped and cut off, and the database crashes: 20 faults, in some minutes. Then
    each fault has a test of its own, for a minute many faults happen at a time (chaos), and the database is
    what operators make of it.

    ``nox -s fleet -- --faults 200 --events 100000`` takes 25 minutes. ``--seed`` repeats the faults of
    another run. ``--rate 500`` sets the events per second of the rolling restart, and ``--restarts 200`` how
    often one node is restarted. ``--chaos 600`` sets the seconds of the chaos; add ``-k chaos`` to run it
    alone. It needs PostgreSQL.
    """
    find_postgresql(session)
    install(session, "test")
    variables = {"events": "HOOKGW_FLEET_EVENTS", "seed": "HOOKGW_FLEET_SEED"}
    variables |= {"restarts": "HOOKGW_FLEET_RESTARTS", "chaos": "HOOKGW_FLEET_CHAOS"}
    env, rest = take_options(
        session, faults="HOOKGW_FLEET_FAULTS", rate="HOOKGW_FLEET_RESTART_RATE", **variables
    )
    session.run("pytest", "tests/fleet", *OPERATORS, "-s", *rest, env={"HOOKGW_FLEET_FAULTS": "20", **env})


@nox.session(default=False)
def security(session: nox.Session) -> None:
    """Send families of hostile input to a running gateway and print a table of what it did.

    The exit code is 1 if anything differs from what is expected. ``nox -s security -- --write`` updates the
    table in docs/security.md.
    """
    install(session, "test")
    session.run("python", "-m", "tests.security", *session.posargs)


@nox.session(default=False)
def isolation(session: nox.Session) -> None:
    """Attack a running gateway in every known way, with a victim beside the attacker: twelve minutes.

    It prints the victim's latencies when quiet and under attack, and fails if an attack hurt the victim.
    ``nox -s isolation -- --only patterns --seconds 30`` runs one attack for longer. ``--write`` updates the
    table in docs/security.md.
    """
    install(session, "test")
    session.run("python", "-m", "tests.isolation", *session.posargs)


@nox.session(default=False)
def properties(session: nox.Session) -> None:
    """Test the properties of the HTTP interface with 600 random examples instead of 60: some minutes.

    ``nox -s properties -- --examples 6000`` tries more.
    """
    install(session, "test")
    env, rest = take_options(session, examples="HOOKGW_EXAMPLES")
    session.run("pytest", "tests/properties", "--timeout=0", *rest, env={"HOOKGW_EXAMPLES": "600", **env})


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Fuzz all parsers of untrusted input, guided by coverage: three and a half minutes for all targets.

    ``nox -s fuzz -- --seconds 60 url host`` fuzzes these two for a minute each. ``--keep`` adds input that
    reaches new code to the corpus, which every run of the tests tries.
    """
    install(session, "fuzz")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(name="http-suites", default=False)
def http_suites(session: nox.Session) -> None:
    """Compare hookgw's HTTP/1.1, both ways, with suites, servers and clients of others, and fuzz both sides.

    It takes two minutes. The suites are data in source packages, which it downloads. References are Node and
    nginx for the server, and Node, curl and h11 for the client, as far as they are installed. A difference
    that nobody has explained fails. ``nox -s http-suites -- --write`` updates the table in docs/security.md,
    and ``--all`` prints the explained differences, too.
    """
    install(session, "fuzz", "pip")
    # Cases are read from the packages, so that the versions must be these.
    packages = re.findall(r'"([\w-]+==[\w.]+)"', Path("tests/http_suites/cases.py").read_text("utf-8"))
    folder = Path(session.create_tmp()).resolve()
    options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder))
    session.run("python", "-m", "pip", "download", *options, *packages)
    session.run("python", "-m", "tests.http_suites", str(folder), *session.posargs)
    session.run("python", "-m", "tests.fuzz", "--seconds", "30", "gate", "answer")


@nox.session(default=False)
def contract(session: nox.Session) -> None:
    """Test a running gateway against its own ``/openapi.json`` with schemathesis, and with generated clients.

    The clients are those of openapi-python-client and, with npm, openapi-typescript. It takes some minutes.
    Arguments go to ``schemathesis run``: ``nox -s contract -- --seed 7 --max-examples 200`` sends other
    requests, and more of them. ``--engine postgresql`` is for a gateway on that engine; with it, the tests of
    the HTTP API are run on that engine, too. Then the same with ``server.compatibility: evolution``.
    """
    find_postgresql(session)
    install(session, "contract")
    session.run("python", "-m", "tests.contract", *session.posargs)
    session.run("python", "-m", "tests.contract", "--compatibility", "evolution", *session.posargs)
    if "postgresql" in session.posargs:
        install(session, "test")
        session.run("pytest", "tests/api", "-n", "auto", env={"HOOKGW_TEST_ENGINE": "postgresql"})


@nox.session(default=False, python=PROCESS_PYTHON)
def clients(session: nox.Session) -> None:
    """Run clients of Evolution API, at pinned versions, from create to delete: about two minutes.

    n8n and its nodes need npm, and n8n also PostgreSQL; without them, they are skipped. The first time, the
    installation of n8n takes five minutes.
    """
    install(session, "clients")
    find_postgresql(session)
    env = {}
    if shutil.which("npm") is None:
        session.log("npm is not installed, so n8n is not run.")
    else:
        folder = Path(session.create_tmp(), "n8n").resolve()
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text(json.dumps(N8N), encoding="utf-8")
        options = ("--ignore-scripts", "--no-audit", "--no-fund")
        session.run("npm", "install", "--silent", *options, "--prefix", str(folder), external=True)
        env["HOOKGW_N8N"] = str(folder)
        env["HOOKGW_N8N_NODES"] = str(folder / "node_modules" / "n8n-nodes-evolution-api")
    session.run("pytest", "tests/clients", *session.posargs, env=env)


@nox.session(default=False, python=PROCESS_PYTHON)
def dendrite(session: nox.Session) -> None:
    """Connect hookgw to a real Dendrite with its default limits: two minutes, and five to build it.

    It needs Go.
    """
    install(session, "networks")
    folder = Path(session.create_tmp()).resolve()
    commands = [
        f"github.com/matrix-org/dendrite/cmd/{name}@{DENDRITE}" for name in ("dendrite", "generate-keys")
    ]
    session.run("go", "install", *commands, env={"GOBIN": str(folder)}, external=True)
    env = {"HOOKGW_DENDRITE": str(folder)}
    session.run("pytest", "tests/networks/test_dendrite.py", *session.posargs, env=env)


@nox.session(default=False)
def generators(session: nox.Session) -> None:
    """Generate clients in Python, TypeScript and Go, and use each of them; also needs npm, Go and Java.

    ``nox -s generators -- go`` tries one. A tool that is not installed is named and left out.
    """
    install(session, "generators")
    session.run("python", "-m", "tests.contract.generators", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure the speed, and print each figure beside a reference from the same run."""
    install(session, "test")
    session.run("python", "-m", "tests.bench", *session.posargs)


@nox.session(default=False)
def peers(session: nox.Session) -> None:
    """Compare hookgw with other webhook gateways, in minutes; tests/bench/peers/README.md says what it needs.

    ``nox -s peers`` shows what the load alone reaches, and ``nox -s peers -- run --systems hookgw`` measures.
    """
    install(session, "test")
    session.run("python", "-m", "tests.bench.peers", *(session.posargs or ["limits"]))
