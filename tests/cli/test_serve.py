"""``hookgw serve`` as a process."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import httpx
import msgspec
import pytest

from hookgw import __version__
from tests.public.app import listen_on
from tests.public.command import GC_THRESHOLD, ONE_SIGNAL
from tests.public.config import ServerSettings, Settings

pytestmark = pytest.mark.process

ANY_PORT = "server: {bind: ['127.0.0.1:0']}\n"
KEYED = ANY_PORT + "auth: {global_key: test-key-1}\n"
PROGRAM = ("-m", "hookgw")
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
from hookgw.command.group import main
main()
"""


@contextmanager
def serving(
    folder: Path, config: str = KEYED, program: tuple[str, ...] = PROGRAM, pipe: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a server in a folder until the block ends. Its configuration is a file, or comes from a pipe."""
    if pipe is None:
        (folder / "config.yaml").write_text(config)
    process = subprocess.Popen(
        [sys.executable, *program, "serve", *(() if pipe is None else ("--config", f"/dev/fd/{pipe}"))],
        cwd=folder,
        pass_fds=() if pipe is None else (pipe,),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    """Return its URL when it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    start = f"hookgw {__version__} listening on "
    assert line.startswith(start), process.stderr and process.stderr.read()
    return line.removeprefix(start).strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_exits_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as server:
        assert (
            httpx.get(f"{url_of(server)}/readyz", trust_env=False, timeout=30, verify=False).status_code
            == 200
        )
        server.send_signal(number)
        out, _ = server.communicate(timeout=30)
        assert (server.returncode, out) == (0, "")
    assert (tmp_path / "data" / "hookgw.db").exists()


def reloaded(server: subprocess.Popen[str]) -> str:
    """Send SIGHUP, and return the line of the log about it."""
    assert server.stderr is not None
    server.send_signal(signal.SIGHUP)
    return next(line for line in server.stderr if "reloaded" in line)


@pytest.mark.parametrize("away", ["config.yaml", "."])
def test_a_file_that_is_away_is_not_reloaded_as_the_defaults(tmp_path: Path, away: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with serving(folder) as server:
        url_of(server)
        (folder / away).rename(tmp_path / "away")
        if away == ".":  # its successor, of another deployment, has the file
            folder.mkdir()
            (folder / "config.yaml").write_text(KEYED)
            (tmp_path / "away" / "config.yaml").unlink()
        line = reloaded(server)
    assert "configuration not reloaded" in line
    assert "No such file" in line


def test_an_empty_file_is_not_reloaded_as_the_defaults(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        url_of(server)
        (tmp_path / "config.yaml").write_text("")
        line = reloaded(server)
    assert "configuration not reloaded" in line
    assert "this file is empty" in line


def test_a_pipe_is_not_reloaded_as_the_defaults(tmp_path: Path) -> None:
    out, into = os.pipe()
    os.write(into, KEYED.encode())
    os.close(into)
    try:
        with serving(tmp_path, pipe=out) as server:
            url_of(server)
            line = reloaded(server)
    finally:
        os.close(out)
    assert "configuration not reloaded" in line
    assert "this is a pipe" in line


def test_each_address_has_a_line(tmp_path: Path, socket_folder: Path) -> None:
    bind = f"server: {{bind: ['127.0.0.1:0', 'unix:{socket_folder}/gw.sock']}}\n"
    with serving(tmp_path, bind + KEYED.split("\n")[1]) as server:
        first = url_of(server)
        second = url_of(server)
    assert first.startswith("http://127.0.0.1:")
    assert "gw.sock" in second


def test_the_generated_key_is_shown_at_the_first_start_only(tmp_path: Path) -> None:
    with serving(tmp_path, ANY_PORT) as server:
        assert server.stdout is not None
        label, key = server.stdout.readline().rsplit(" ", 1)
        assert label == "Global key (shown once, store it now):"
        asked = httpx.get(
            f"{url_of(server)}/lane/list",
            headers={"apikey": key.strip()},
            trust_env=False,
            verify=False,
            timeout=30,
        )
        assert asked.status_code == 200
        server.terminate()
        server.wait(30)
    with serving(tmp_path, ANY_PORT) as server:
        again = httpx.get(
            f"{url_of(server)}/lane/list",
            headers={"apikey": key.strip()},
            trust_env=False,
            verify=False,
            timeout=30,
        )
        assert again.status_code == 200


def refused(folder: Path, config: str) -> str:
    """Return the error messages of a start that must fail."""
    with serving(folder, config) as server:
        out, errors = server.communicate(timeout=30)
        assert (server.returncode, out) == (1, "")
    assert "crashed" not in errors
    return errors


def test_a_port_in_use_prevents_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = f"server: {{bind: ['{address}']}}\nauth: {{global_key: test-key-1}}\n"
        assert address in refused(tmp_path, config)


def test_a_typo_prevents_the_start(tmp_path: Path) -> None:
    assert "server.bnd" in refused(tmp_path, "server: {bnd: []}\n")


def test_a_data_file_in_use_prevents_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        url_of(server)
        assert "hookgw.db" in refused(tmp_path, KEYED)


def test_a_broken_plugin_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "broken.py").write_text("1 / 0\n")
    errors = refused(tmp_path, KEYED)
    assert "Plugin 'broken'" in errors
    assert "ZeroDivisionError" in errors


@pytest.mark.parametrize(
    "hook",
    [
        "def hookgw_event_kinds(): return [hookgw.EventKind(name='a b', meaning='X.')]",
        "def hookgw_connectors(): raise KeyboardInterrupt",
        "def hookgw_routes(app): 1 / 0",
    ],
)
def test_a_plugin_that_fails_at_start_is_named_in_one_line(tmp_path: Path, hook: str) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text(f"import hookgw\n@hookgw.hookimpl\n{hook}\n")
    errors = refused(tmp_path, KEYED)
    assert errors.splitlines()[-1].startswith("Error: Plugin 'mine' failed in hookgw_")
    assert errors.count("mine.py, line 3") == errors.count("mine.py") <= 1
    assert "Traceback" not in errors


def test_a_missing_file_prevents_the_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *PROGRAM, "serve", "--config", "none.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "none.yaml" in done.stderr


BROKEN_DISPATCHER = """
from hookgw.lanes.dispatcher import Dispatcher
def dispatch(self, deliveries):
    raise RuntimeError("a bug in the dispatcher")
Dispatcher.dispatch = dispatch
from hookgw.__main__ import main
main(prog_name="hookgw")
"""
EVENT = {"event": "CALL", "data": {}}


def test_a_crash_of_the_dispatcher_ends_the_process_with_1(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_DISPATCHER)
    with serving(tmp_path, program=("broken.py",)) as server:
        headers = {"apikey": "test-key-1"}
        with httpx.Client(
            base_url=url_of(server), headers=headers, trust_env=False, timeout=30, verify=False
        ) as client:
            client.post("/webhook/set/loja1", json={"url": "http://127.0.0.1:9/"}).raise_for_status()
            with suppress(httpx.TransportError):
                client.post("/event/emit/loja1", json=EVENT)  # 202, if it is in time: the event is on disk
                assert client.post("/event/emit/loja1", json=EVENT).status_code != 202
        out, errors = server.communicate(timeout=30)
        assert (server.returncode, out) == (1, "")
    assert "a bug in the dispatcher" in errors


FAILS_ASIDE = """
import gc
import logging
import threading

import hookgw


class Held:
    def __del__(self):
        raise ValueError("in __del__ https://user:hunter2@a.example/")


def poll():
    raise RuntimeError("in the thread https://user:hunter2@a.example/")


def leave():
    raise SystemExit


@hookgw.hookimpl
async def hookgw_run(gateway):
    for name, target in (("poller", poll), ("leaver", leave)):
        thread = threading.Thread(target=target, name=name)
        thread.start()
        thread.join()
    Held()
    gc.collect()
    logging.getLogger("mine").warning("%d of https://user:hunter2@a.example/", "many")
    print("failed aside", flush=True)
"""


def test_what_fails_beside_the_program_is_a_line_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text(FAILS_ASIDE)
    with serving(tmp_path) as server:
        assert server.stdout is not None
        said = {server.stdout.readline().partition(" listening")[0] for _ in range(2)}
        assert said == {"failed aside\n", f"hookgw {__version__}"}
        server.terminate()
        _, errors = server.communicate(timeout=30)
    assert "hunter2" not in errors
    lines = [msgspec.json.decode(line) for line in errors.splitlines()]
    [thread] = [line for line in lines if line["event"] == "a thread failed"]
    assert (thread["thread"], thread["level"]) == ("poller", "error")
    assert thread["exception"].endswith("RuntimeError: in the thread https://***@a.example/")
    [ignored] = [line for line in lines if line["event"] == "an exception was ignored"]
    assert (ignored["where"], ignored["level"]) == ("Held.__del__", "error")
    assert ignored["exception"].endswith("ValueError: in __del__ https://***@a.example/")
    [unfit] = [line for line in lines if line["logger"] == "mine"]
    assert unfit["event"] == "%d of https://***@a.example/ ('many',)"


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    hanging = socket.socket()
    hanging.bind(("127.0.0.1", 0))
    hanging.listen()
    config = KEYED + "delivery: {allow_networks: ['127.0.0.0/8'], timeout: 60s}\n"
    config = config.replace("'127.0.0.1:0']", "'127.0.0.1:0'], shutdown_grace: 1h")
    with hanging, serving(tmp_path, config) as server:
        url = url_of(server)
        headers = {"apikey": "test-key-1"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30, verify=False) as client:
            address = "http://{}:{}/".format(*hanging.getsockname())
            client.post("/webhook/set/loja1", json={"url": address}).raise_for_status()
            client.post("/event/emit/loja1", json=EVENT).raise_for_status()
        connection, _ = hanging.accept()
        server.terminate()
        with connection:
            wait_refused(url)
            assert server.poll() is None
            time.sleep(ONE_SIGNAL)  # what comes sooner is the first signal once more
            server.terminate()
            assert server.wait(30) == -signal.SIGTERM


def wait_refused(url: str) -> None:
    """Return when nothing listens at the URL."""
    while True:
        try:
            httpx.get(f"{url}/healthz", trust_env=False, timeout=30, verify=False)
        except httpx.TransportError:
            return


def test_a_low_limit_of_open_files_is_told_at_start(tmp_path: Path) -> None:
    limited = ("-c", LIMITED)
    with serving(tmp_path, program=limited) as server:
        url_of(server)
        server.terminate()
        _, errors = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "the limit on open files is low" in errors
    assert '"limit":512' in errors.replace(" ", "")
    assert '"clients":256,"lanes":192,"others":64' in errors.replace(" ", "")


THRESHOLD_PLUGIN = """
import gc
import hookgw
@hookgw.hookimpl
async def hookgw_run(gateway):
    with open("threshold", "w") as file:
        print(gc.get_threshold()[0], file=file)
    await gateway.instances.create("ready")
"""


def test_the_garbage_collector_is_tuned(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "threshold.py").write_text(THRESHOLD_PLUGIN)
    with serving(tmp_path) as server:
        headers = {"apikey": "test-key-1"}
        with httpx.Client(
            base_url=url_of(server), headers=headers, trust_env=False, timeout=30, verify=False
        ) as client:
            while client.get("/instance/connectionState/ready").status_code == 404:
                assert server.poll() is None
    assert (tmp_path / "threshold").read_text() == f"{GC_THRESHOLD}\n"


@pytest.mark.parametrize(
    ("bind", "host", "port", "listens"),
    [
        (("127.0.0.1:8080",), None, None, ("127.0.0.1:8080",)),
        (("127.0.0.1:8080",), None, 9000, ("127.0.0.1:9000",)),
        (("127.0.0.1:8080",), "0.0.0.0", None, ("0.0.0.0:8080",)),
        (("unix:/run/x.sock", "[::1]:8081", "10.0.0.1:1"), None, 0, ("[::1]:0",)),
        (("fd://3",), "::", 9000, ("[::]:9000",)),
        (("unix:/run/x.sock",), None, 9000, ("127.0.0.1:9000",)),
    ],
)
def test_an_address_of_the_options_replaces_the_configured_ones(
    bind: tuple[str, ...], host: str | None, port: int | None, listens: tuple[str, ...]
) -> None:
    settings = Settings(server=ServerSettings(bind=bind))
    assert listen_on(settings, host, port).server.bind == listens


def test_a_host_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="--host"):
        listen_on(Settings(), "[::g]", None)
