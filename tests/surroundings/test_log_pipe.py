"""Nobody reads what hookgw writes: a pipe that is full, a terminal after Ctrl-S, a full or closed stream."""

import os
import subprocess
import termios
import tty
from pathlib import Path
from typing import Any

import pytest

from tests.surroundings.surrounded import pipe_that_nobody_reads, surrounded

pytestmark = pytest.mark.process

CHATTY = """
import logging
import hookgw

@hookgw.hookimpl
def hookgw_event_accepted(event):
    logging.getLogger("chatty").warning("x" * 100_000)
    print("a line of a plugin", "y" * 10_000)
"""


@pytest.fixture
def chatty(tmp_path: Path) -> dict[str, Any]:
    """Settings with a plugin that writes more than a pipe takes, for each event."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "chatty.py").write_text(CHATTY, encoding="utf-8")
    return {"plugins": {"folders": [str(folder)]}}


def test_a_log_that_nobody_reads_holds_nothing_up(tmp_path: Path, chatty: dict[str, Any]) -> None:
    with (
        pipe_that_nobody_reads(full=True) as (_, writer),
        surrounded(tmp_path, stdout=writer, stderr=writer, **chatty) as gateway,
    ):
        gateway.wait_ready()
        gateway.register("shop", "http://127.0.0.1:9/nobody")
        for _ in range(5):
            gateway.emit("shop")
            assert gateway.http.get("/healthz").status_code == 200
        assert gateway.stop() == 0


def test_lines_for_which_there_is_no_room_are_counted(tmp_path: Path, chatty: dict[str, Any]) -> None:
    with (
        pipe_that_nobody_reads() as (reader, writer),
        surrounded(tmp_path, stderr=writer, **chatty) as gateway,
    ):
        gateway.wait_ready()
        assert gateway.metric("hookgw_log_lines_dropped_total") == 0
        gateway.register("shop", "http://127.0.0.1:9/nobody")
        for _ in range(20):
            gateway.emit("shop")
        assert gateway.metric("hookgw_log_lines_dropped_total") > 0
        # Somebody reads again: all that waited arrives whole, and a line says how many are missing.
        os.set_blocking(reader, False)
        gateway.popen.terminate()
        read = _read_all(reader, gateway.popen)
        assert gateway.popen.returncode == 0
        lines = read.splitlines()
        assert all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
        assert any(b"log lines were dropped" in line for line in lines)


def _read_all(reader: int, popen: subprocess.Popen[bytes]) -> bytes:
    found = b""
    while True:
        try:
            found += os.read(reader, 2**20)
        except BlockingIOError:
            if popen.poll() is not None:
                return found
            os.set_blocking(reader, False)


def test_a_terminal_that_is_stopped_holds_nothing_up(tmp_path: Path, chatty: dict[str, Any]) -> None:
    leader, terminal = os.openpty()
    tty.setraw(terminal)
    termios.tcflow(terminal, termios.TCOOFF)  # as Ctrl-S
    try:
        with surrounded(tmp_path, stdout=terminal, stderr=terminal, **chatty) as gateway:
            gateway.wait_ready()
            gateway.register("shop", "http://127.0.0.1:9/nobody")
            gateway.emit("shop")
            assert gateway.http.get("/healthz").status_code == 200
            assert gateway.stop() == 0
    finally:
        os.close(leader)
        os.close(terminal)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_disk_under_a_stream_is_no_condition_of_the_start(tmp_path: Path, stream: str) -> None:
    with Path("/dev/full").open("wb") as full, surrounded(tmp_path, **{stream: full}) as gateway:  # type: ignore[arg-type]
        gateway.wait_ready()
        assert gateway.stop() == 0


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=["stdout", "stderr", "all"])
def test_a_closed_stream_is_no_condition_of_the_start(tmp_path: Path, closed: tuple[int, ...]) -> None:
    with surrounded(tmp_path, before=lambda: list(map(os.close, closed)).clear()) as gateway:
        gateway.wait_ready()
        # The data file has not taken the place of a stream.
        for descriptor in range(3):
            assert Path(f"/proc/{gateway.popen.pid}/fd/{descriptor}").readlink() == Path(os.devnull)
        assert gateway.stop() == 0


@pytest.mark.parametrize("where", ["closed", "full", "unread"])
def test_only_a_key_that_cannot_be_shown_stops_the_start(tmp_path: Path, where: str) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        pipe_that_nobody_reads(full=True) as (_, pipe),
        surrounded(
            tmp_path,
            stdout={"closed": None, "full": full, "unread": pipe}[where],
            stderr=subprocess.PIPE,
            before=(lambda: os.close(1)) if where == "closed" else None,
            auth={},
        ) as gateway,
    ):
        _, errors = gateway.popen.communicate(timeout=30)
        assert gateway.popen.returncode == 1
        assert b"The generated global key cannot be shown" in errors
    # Nothing was stored: with somebody who reads, there is a key.
    with surrounded(tmp_path, stdout=subprocess.PIPE, auth={}) as gateway:
        assert gateway.popen.stdout is not None
        assert b"Global key" in gateway.popen.stdout.readline()
