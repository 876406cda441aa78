"""The protocol of sd_notify(3), against a socket as systemd has it."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from hookgw.config import service_manager
from tests.public.config import SERVICE_EXTEND_BY as EXTEND_BY
from tests.public.config import SERVICE_READY as READY
from tests.public.config import SERVICE_STOPPING as STOPPING
from tests.public.config import extended_start, notify
from tests.support.gateway_process import write_config
from tests.support.processes import started


@pytest.fixture(params=["a file", "abstract"])
def manager(request: pytest.FixtureRequest, socket_folder: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and its address in the environment."""
    name = str(socket_folder / "notify")
    address = f"\0{name}" if request.param == "abstract" else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(address)
        found.settimeout(30)
        yield found, address.replace("\0", "@")


def test_a_state_is_sent(manager: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, address = manager
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify(READY)
    assert receiver.recv(100) == b"READY=1"


def test_without_a_service_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    with structlog.testing.capture_logs() as logs:
        notify(READY)
    assert logs == []


def test_a_socket_that_nobody_reads_stops_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    with structlog.testing.capture_logs() as logs:
        notify(READY)
    assert [entry["event"] for entry in logs] == ["the service manager cannot be notified"]


def test_a_long_start_asks_for_more_time_before_it_begins_and_again(
    manager: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, address = manager
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setattr(service_manager, "EXTEND_EVERY", 0.001)
    expected = f"EXTEND_TIMEOUT_USEC={EXTEND_BY * 1_000_000}".encode()
    with extended_start():
        for _ in range(3):
            assert receiver.recv(100) == expected
    threads = [thread.name for thread in threading.enumerate()]
    assert "service manager" not in threads


@pytest.mark.process
@pytest.mark.parametrize("manager", ["a file"], indirect=True)
def test_serve_says_when_it_is_ready_and_when_it_stops(
    manager: tuple[socket.socket, str], tmp_path: Path
) -> None:
    receiver, address = manager
    command = ["-m", "hookgw", "serve", "--config", str(write_config(tmp_path))]
    with started(command, cwd=tmp_path, env={"NOTIFY_SOCKET": address}) as process:
        assert receiver.recv(100) == READY.encode()
        process.line_with(" listening on ")
        assert process.stop() == 0
        assert receiver.recv(100) == STOPPING.encode()
