"""A system that has few threads, or little else, to give, and tenants whose names never resolve."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from tests.support.processes import PATIENCE
from tests.surroundings.other_user import as_user, folder_of, other_uid
from tests.surroundings.surrounded import Surrounded, surrounded

pytestmark = pytest.mark.process

TENANTS = 40
# A name server that is silent: each lookup takes a thread for a minute.
SLOW_LOOKUPS = """
import socket, time
lookup = socket.getaddrinfo
def slow(host, *arguments, **options):
    if str(host).endswith(".slow.test"):
        time.sleep(60)
    return lookup(host, *arguments, **options)
socket.getaddrinfo = slow
"""


# A library that polls a server may start such a thread.
WORKER = """
import threading, time
def work():
    while True:
        time.sleep(60)
threading.Thread(target=work, name="worker").start()
"""
WAITS = """
import threading, hookgw, trio
@hookgw.hookimpl
async def {hook}:
    {work}
"""
ROUTE = """
import threading, hookgw, trio
@hookgw.hookimpl
def hookgw_routes(app):
    @app.get("/waits")
    async def waits():
        'Wait.'
        await trio.to_thread.run_sync(threading.Event().wait)
"""
CRASHES = """
from hookgw.operations.clock_watch import ClockWatch
async def crash(_):
    await trio.sleep(0.5)
    raise RuntimeError("a bug of hookgw")
ClockWatch.run = crash
"""
IN_A_THREAD = "await trio.to_thread.run_sync(threading.Event().wait)"
SHIELDED = "with trio.CancelScope(shield=True): await trio.sleep_forever()"
COMMANDS = """
import sys, click, hookgw
@hookgw.hookimpl
def hookgw_commands(group):
    @group.command()
    def works():
        print("the result")
    @group.command()
    def refuses():
        sys.exit("a reason")
"""


@contextmanager
def receiver() -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a receiver, and the ids that it has got."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            got.append(self.headers["webhook-id"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", got
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("is_refused", [False, True], ids=["stop", "refused start"])
def test_a_thread_of_a_plugin_does_not_keep_the_process_alive(tmp_path: Path, is_refused: bool) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "polls.py").write_text(WORKER)
    storage = {"path": "plugins"} if is_refused else {}
    with (
        (tmp_path / "errors").open("w+") as errors,
        surrounded(tmp_path, stderr=errors, storage=storage) as gateway,
    ):
        if is_refused:
            assert gateway.popen.wait(timeout=PATIENCE) == 1
        else:
            gateway.wait_ready()
            assert gateway.stop() == 0
        errors.seek(0)
        log = errors.read()
    assert "threads of plugins did not end" in log
    assert "worker" in log
    assert ("Error: " in log) is is_refused


@pytest.mark.parametrize(
    ("hook", "work"),
    [
        ("hookgw_run(gateway)", IN_A_THREAD),
        ("hookgw_run(gateway)", SHIELDED),
        ("hookgw_transform(event)", IN_A_THREAD),
    ],
    ids=["thread", "shield", "thread in a lane"],
)
def test_a_task_of_a_plugin_does_not_keep_the_process_alive(tmp_path: Path, hook: str, work: str) -> None:
    """systemd killed it half a minute later, and nothing said why; others waited for ever."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "polls.py").write_text(WAITS.format(hook=hook, work=work))
    with (
        (tmp_path / "errors").open("w+") as errors,
        surrounded(tmp_path, stderr=errors, server={"shutdown_grace": "0s"}) as gateway,
    ):
        gateway.wait_ready()
        gateway.register("shop", "http://127.0.0.1:9/")
        gateway.emit("shop")
        assert gateway.stop() == 0
        errors.seek(0)
        log = errors.read()
    assert "a plugin did not end: hookgw ends without it" in log
    assert hook.partition("(")[0] in log
    assert "polls.py:5" in log


def test_a_request_to_a_plugin_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    """The server waited for it, before anything else could stop."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "polls.py").write_text(ROUTE)
    with (
        (tmp_path / "errors").open("w+") as errors,
        surrounded(tmp_path, stderr=errors, server={"shutdown_grace": "0s"}) as gateway,
    ):
        gateway.wait_ready()
        with pytest.raises(httpx.ReadTimeout):
            gateway.http.get("/waits", timeout=2)
        assert gateway.stop() == 0
        errors.seek(0)
        log = errors.read()
    assert "a plugin did not end: hookgw ends without it" in log
    assert "polls.py:8 in waits" in log


def test_a_crash_is_named_though_a_plugin_does_not_end(tmp_path: Path) -> None:
    """Only the plugin was, which had nothing to do with it."""
    (tmp_path / "plugins").mkdir()
    plugin = WAITS.format(hook="hookgw_run(gateway)", work=IN_A_THREAD) + CRASHES
    (tmp_path / "plugins" / "polls.py").write_text(plugin)
    with (
        (tmp_path / "errors").open("w+") as errors,
        surrounded(tmp_path, stderr=errors, server={"shutdown_grace": "0s"}) as gateway,
    ):
        assert gateway.popen.wait(timeout=PATIENCE) == 1
        errors.seek(0)
        log = errors.read()
    assert "a plugin did not end: hookgw ends without it" in log
    assert "crashed" in log
    # Trio says it of a cancellation since 0.31.
    assert "a bug of hookgw" in log or version("trio") < "0.31"


@pytest.mark.parametrize(
    ("arguments", "code", "result"),
    [
        (["check-config"], 0, "is valid"),
        (["--help"], 0, "Start with"),
        (["works"], 0, "the result"),
        (["refuses"], 1, ""),
        (["unknown"], 2, ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_thread_of_a_plugin_does_not_keep_a_command_alive(
    tmp_path: Path, arguments: list[str], code: int, result: str
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "polls.py").write_text(WORKER + COMMANDS)
    done = subprocess.run(
        [sys.executable, "-m", "hookgw", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert result in done.stdout
    assert "worker" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("limit", [20, 40])
def test_names_that_do_not_resolve_take_only_the_threads_that_are_left(limit: int) -> None:
    uid = other_uid()
    with folder_of(uid) as folder, receiver() as (url, got):
        (folder / "sitecustomize.py").write_text(SLOW_LOOKUPS, encoding="utf-8")
        limited = [*as_user(uid), "prlimit", f"--nproc={limit}"]
        emitted = 0
        for start in range(3):
            with surrounded(folder, prefix=limited, env={"PYTHONPATH": str(folder)}) as gateway:
                gateway.wait_ready()
                if start == 0:
                    gateway.register("good", url)
                    with ThreadPoolExecutor(TENANTS) as pool:  # `set` looks the name up, too
                        list(pool.map(partial(_add_tenant, gateway), range(TENANTS)))
                for _ in range(20):
                    gateway.emit("good")
                    emitted += 1
                    assert gateway.http.get("/delivery/list/good").status_code == 200
                    assert gateway.http.get("/readyz").status_code == 200
                _wait_for(got, emitted)
                assert gateway.popen.poll() is None
                if start == 1:
                    assert gateway.stop() == 0
                else:
                    gateway.popen.send_signal(signal.SIGKILL)
        assert len(set(got)) == emitted


@pytest.mark.parametrize("limit", ["--nofile=20", "--data=100000000", "--as=250000000"])
def test_a_start_for_which_the_system_has_too_little_is_refused_with_what_to_raise(
    tmp_path: Path, limit: str
) -> None:
    _refuses_to_start(tmp_path, ["prlimit", limit])


@pytest.mark.parametrize("threads", [1, 5])
def test_a_start_with_too_few_threads_is_refused_with_what_to_raise(threads: int) -> None:
    uid = other_uid()
    with folder_of(uid) as folder:
        _refuses_to_start(folder, [*as_user(uid), "prlimit", f"--nproc={threads}"])


def _refuses_to_start(folder: Path, limited: Sequence[str]) -> None:
    with (
        (folder / "errors").open("w+") as errors,
        surrounded(folder, prefix=limited, stderr=errors) as gateway,
    ):
        assert gateway.popen.wait(timeout=PATIENCE) == 1
        errors.seek(0)
        assert "Raise the limits of the process" in errors.read()
    assert not (folder / "data").exists()


def _add_tenant(gateway: Surrounded, number: int) -> None:
    gateway.http.timeout = 30
    gateway.register(f"bad{number}", f"http://n{number}.slow.test/")
    gateway.emit(f"bad{number}")


def _wait_for(got: list[str], count: int) -> None:
    ends = time.monotonic() + PATIENCE
    while len(set(got)) < count:
        assert time.monotonic() < ends, f"{len(set(got))} of {count} arrived"
        time.sleep(0.05)
