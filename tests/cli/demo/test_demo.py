"""``hookgw demo`` from start to end."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from hookgw.demo import command, stage
from tests.cli.conftest import Echoes
from tests.public.command import main
from tests.public.demo import EVENTS, Outage, Trouble


@pytest.mark.process
def test_once_ends_and_every_event_arrived(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hookgw", "demo", "--once"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for sentence in ("n8n is down", "n8n is up again", "bot answers 500", "bot is up again"):
        assert f"-- {sentence}\n" in done.stdout
    assert "dashboard" not in done.stdout
    lines = done.stdout.splitlines()[-3:]
    verdicts = [
        re.fullmatch(r" *(\w+): (\d+) of (\d+) events arrived once, in order, verified(.*)\.", line)
        for line in lines
    ]
    judged = [verdict.groups() for verdict in verdicts if verdict]
    assert [name for name, *_ in judged] == ["crm", "n8n", "bot"]
    assert all(int(arrived) == int(accepted) >= EVENTS for _, arrived, accepted, _ in judged)
    assert [bool(rest) for *_, rest in judged] == [False, True, True]
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_for_its_data_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))  # as without /tmp
    done = CliRunner().invoke(main, ["demo", "--once"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: The demo has no folder for its data: No such file or directory.")


@pytest.mark.process
def test_without_a_loopback_interface_it_says_so(tmp_path: Path) -> None:
    no_network = ["unshare", "--user", "--map-root-user", "--net"]  # with a loopback interface that is down
    if shutil.which("unshare") is None or subprocess.run([*no_network, "true"], check=False).returncode:
        pytest.skip("This needs namespaces (unshare), which this machine does not allow.")
    done = subprocess.run(
        [*no_network, sys.executable, "-m", "hookgw", "demo", "--once"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: The demo needs 127.0.0.1, and this machine cannot use it: Network is"
    )


FORGETFUL = """
from hookgw.demo import receivers
real = receivers.Ledger.arrive
def arrive(self, event_id):
    real(self, event_id)
    if self.arrived == 5:
        real(self, event_id)
receivers.Ledger.arrive = arrive
from hookgw.__main__ import main
main(prog_name="hookgw")
"""


@pytest.mark.process
def test_once_ends_with_1_if_an_event_arrived_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, "demo", "--once"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "1 repeated" in done.stdout.splitlines()[-1]


@pytest.mark.usefixtures("_signals_kept")
async def test_a_short_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, echoes: Echoes) -> None:
    monkeypatch.setattr(stage, "EVENTS", 10)
    monkeypatch.setattr(command, "FAST", 100)
    monkeypatch.setattr(
        stage, "ONCE", (Outage(0, "n8n", Trouble.REFUSES, 0), Outage(0, "bot", Trouble.FAILS, 0))
    )
    assert await command.run(stage.demo_settings(tmp_path), once=True)
    assert len(re.findall(r"(\d+) of \1 events arrived once", echoes.text)) == 3


@pytest.mark.usefixtures("_signals_kept")
async def test_a_link_logs_in_until_a_signal_ends_the_demo(tmp_path: Path, echoes: Echoes) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(command.run, stage.demo_settings(tmp_path), once=False))
        await echoes.wait_for("accepted [1-9]")
        link = re.search("http://(127.0.0.1:[0-9]+)(/dashboard/enter/.*)", echoes.text)
        assert link is not None
        response = await get(*link.groups())
        assert response.startswith(b"HTTP/1.1 303 ")
        assert b"set-cookie: hookgw_session_" in response
        signal.raise_signal(signal.SIGINT)
    assert echoes.text.count("events arrived") == 3


async def get(address: str, path: str) -> bytes:
    host, port = address.split(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        request = f"GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        await stream.send_all(request.encode())
        return b"".join([chunk async for chunk in stream])


@pytest.mark.process
def test_it_runs_until_a_signal(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hookgw", "demo"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            while "accepted" not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=30)
            assert process.returncode == 0
        finally:
            process.kill()
    assert "crm:" in rest


def test_it_uses_another_port_if_the_usual_one_is_in_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(stage, "PORT", port)
        taken.listen()
        assert stage.demo_settings(tmp_path).server.bind == ("127.0.0.1:0",)
    assert stage.demo_settings(tmp_path).server.bind == (f"127.0.0.1:{port}",)


@pytest.mark.parametrize(
    ("called", "on_path", "program"),
    [
        (".venv/bin/hookgw", None, ".venv/bin/hookgw"),
        ("/usr/bin/hookgw", "/usr/bin/hookgw", "hookgw"),
        ("/x/hookgw/__main__.py", None, f"{sys.executable} -m hookgw"),
    ],
)
def test_the_commands_to_type_are_those_that_were_typed(
    monkeypatch: pytest.MonkeyPatch, called: str, on_path: str | None, program: str
) -> None:
    monkeypatch.setattr(sys, "argv", [called, "demo"])
    monkeypatch.setattr("shutil.which", lambda _: on_path)
    assert command.program_name() == program
