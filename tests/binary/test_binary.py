"""The single binary that ``nox -s binary`` built, in an environment without Python.

It runs in an empty environment, so that nothing of this machine's Python can help it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from hookgw import __version__
from tests.support.gateway_process import KEY, Server, receiving, write_config
from tests.support.processes import run, started

VARIABLE = "HOOKGW_BINARY"
BINARY = os.environ.get(VARIABLE, "")
MOST_MEGABYTES = 50
GOAL_SECONDS = 2.0
# What the binary leaves out, and deploy/binary/hookgw.spec says why.
LEFT_OUT = {
    *(
        "antigravity",
        "this",
        "idlelib",
        "tkinter",
        "turtle",
        "turtledemo",
        "ensurepip",
        "venv",
        "lib2to3",
        "test",
    ),
    "pydoc_data",
}

pytestmark = pytest.mark.skipif(not BINARY, reason=f"{VARIABLE} names no binary: run nox -s binary")

# `env -i`: no PATH, no PYTHONPATH, no locale.
_EXECUTE = (
    "import os, sys; os.execve(sys.argv[1], sys.argv[1:], {'HOME': os.getcwd(), 'PATH': '/nonexistent'})"
)


def hookgw(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(["-c", _EXECUTE, BINARY, *arguments], cwd=cwd, patience=120)


@contextmanager
def serving(folder: Path, program: str | Path = BINARY, **blocks: object) -> Iterator[Server]:
    config = write_config(folder, **blocks)  # type: ignore[arg-type]
    with started(["-c", _EXECUTE, program, "serve", "--config", config], cwd=folder) as process:
        url = process.line_with(" listening on ").rsplit(" ", 1)[1]
        with httpx.Client(base_url=url, headers={"apikey": KEY}, trust_env=False, timeout=30) as http:
            yield Server(url, process, http, folder)


def test_it_is_small() -> None:
    megabytes = Path(BINARY).stat().st_size / 10**6
    print(f"\nThe binary has {megabytes:.1f} MB (limit: {MOST_MEGABYTES}).")
    assert megabytes < MOST_MEGABYTES


def test_it_is_ready_soon(tmp_path: Path) -> None:
    """Printed only: other programs on the machine make it slower."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        with serving(tmp_path) as server:
            seconds.append(time.perf_counter() - began)
            assert server.get("/readyz") == {"status": "ready"}
            assert server.process.stop() == 0
    print(f"\nIt is ready after {', '.join(f'{one:.1f}' for one in seconds)} s (goal: {GOAL_SECONDS}).")


def test_the_version(tmp_path: Path) -> None:
    done = hookgw("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hookgw {__version__}\n", "")


def test_the_commands(tmp_path: Path) -> None:
    """Each is a module of its own, which is imported by name."""
    listed = hookgw("--help", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    names = [
        line.split()[0]
        for line in listed.stdout.partition("Commands:\n")[2].splitlines()
        if line.startswith("  ") and line[2] != " "
    ]
    assert {"serve", "demo", "webhook", "check-config"} < set(names)
    for name in names:
        done = hookgw(name, "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_the_demo(tmp_path: Path) -> None:
    done = hookgw("demo", "--once", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_first_party_plugins(tmp_path: Path) -> None:
    done = hookgw("plugins", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {plugin["name"] for plugin in json.loads(done.stdout)}
    checkout = Path(__file__).parents[2] / "plugins"
    assert found == {
        path.stem for path in checkout.iterdir() if path.suffix in ("", ".py") and path.name[0] not in "_."
    }


def test_it_has_no_extras_but_those_of_the_manual(tmp_path: Path) -> None:
    """They would come from what else is installed where it is built."""
    storage = {"engine": "postgresql", "url": "postgresql://hookgw@127.0.0.1:9/hookgw"}
    serve = ("serve", "--config", write_config(tmp_path, storage=storage))
    for extra, arguments in (("mcp", ("mcp",)), ("postgresql", serve)):
        done = hookgw(*arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert f"hookgw[{extra}]" in done.stderr


def test_it_writes_plugins(tmp_path: Path) -> None:
    for name, option in (("acme", "--folder=."), ("wave", "--connector")):
        done = hookgw("plugin", "new", name, option, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f'{name} = "hookgw_{name}"' in (tmp_path / f"hookgw-{name}/pyproject.toml").read_text("utf-8")


def test_it_runs_in_a_checkout() -> None:
    """The folder ``plugins`` there has the plugins that it brings itself."""
    done = hookgw("plugins", cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_a_broken_plugin_is_named_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    (folder / "broken.py").write_text("import hookgw\nraise RuntimeError('boom')\n")
    done = hookgw(
        "serve", "--config", write_config(tmp_path, plugins={"folders": [str(folder)]}), cwd=tmp_path
    )
    assert done.returncode == 1
    assert f"{folder / 'broken.py'}, line 2: RuntimeError: boom" in done.stderr


def test_a_plugin_of_the_user_has_the_whole_standard_library(tmp_path: Path) -> None:
    """It transforms an event, which is delivered. The pages, which come from templates, are there, too."""
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    (folder / "library.py").write_text(_PLUGIN)
    modules = sorted(_standard_library())
    assert len(modules) > 500
    expected = run(
        ["-c", f"{_IMPORT_ALL}\nimport json, sys\nprint(json.dumps(failures(json.load(sys.stdin))))"],
        cwd=tmp_path,
        stdin=json.dumps(modules),
    )
    assert expected.returncode == 0, expected.stderr
    with receiving(tmp_path) as receiver, serving(tmp_path, plugins={"folders": [str(folder)]}) as server:
        server.set("shop", receiver.url("/hook"))
        server.emit("shop", "CALL", {"modules": modules})
        assert receiver.next("/hook").json["data"] == json.loads(expected.stdout.splitlines()[-1])
        assert "The hookgw manual" in server.http.get("/docs").text
        assert server.url in server.http.get("/docs/start").text
        page = server.http.get("/", headers={"accept": "text/html"}, follow_redirects=True)
        assert "<form" in page.text
        assets = re.findall(r'(?:href|src)="([^"]+\.(?:css|js)\b[^"]*)"', page.text)
        assert assets
        assert all(server.http.get(asset).status_code == 200 for asset in assets)
        assert server.process.stop() == 0


def test_an_upgrade_may_replace_the_file_while_it_runs(tmp_path: Path) -> None:
    """What hookgw imports later comes from the former file."""
    program, newer = Path(shutil.copy(BINARY, tmp_path / "hookgw")), tmp_path / "newer"
    newer.write_bytes(b"another version" * 4_000_000)
    with receiving(tmp_path) as receiver, serving(tmp_path, program) as server:
        newer.replace(program)
        server.set("shop", receiver.url("/hook"))
        server.emit("shop", "CALL", {})
        assert receiver.next("/hook").json["event"] == "CALL"
        assert "The hookgw manual" in server.http.get("/docs").text
        assert server.process.stop() == 0


_IMPORT_ALL = """
from importlib import import_module
def failures(modules):
    found = {}
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            found[name] = type(error).__name__
    return found
"""

_PLUGIN = f"""
import hookgw
import hookgw.testing
import httpx, trio, msgspec, yaml, cryptography.hazmat.primitives.asymmetric.rsa, h11, quart

{_IMPORT_ALL}

@hookgw.hookimpl
def hookgw_transform(event):
    return event.replace(data=failures(event.data["modules"]))
"""


def _standard_library() -> Iterator[str]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if (
            parts[0] in sys.stdlib_module_names - LEFT_OUT
            and not {"test", "tests", "__main__"}.intersection(parts)
            and not parts[0].startswith("__")
        ):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    for name in sys.stdlib_module_names - LEFT_OUT - {"_tkinter"}:
        if not name.startswith("__"):
            yield name
