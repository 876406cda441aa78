"""How the process ends, and its limits."""

import errno
import gc
import os
import resource
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog.testing
import trio

from hookgw import HookgwError, Invalid
from tests.public.command import (
    GC_THRESHOLD,
    RECOMMENDED_OPEN_FILES,
    Failed,
    StoppedEarly,
    exempt_started_objects,
    raise_file_limit,
    run_to_end,
    scarcity,
    spare_imports,
    try_resources,
    tune_garbage_collector,
)
from tests.public.kernel import StartError

INFINITY = resource.RLIM_INFINITY


def test_it_returns_the_result_of_the_program() -> None:
    async def main(value: int) -> int:
        await trio.lowlevel.checkpoint()
        return value + 1

    assert run_to_end(main, 1) == 2


async def fail(error: Exception) -> None:
    await trio.lowlevel.checkpoint()
    raise error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StartError("No.", "Never."), "No.\nNever."),
        (ExceptionGroup("", [StartError("No.")]), "No."),
        (
            ExceptionGroup("", [StartError("No."), ExceptionGroup("", [Invalid("Nor this.")])]),
            "No.\nNor this.",
        ),
        (HookgwError(), "Internal Server Error"),
        (MemoryError(), "\n".join(scarcity(MemoryError()))),
        (ExceptionGroup("", [MemoryError(), MemoryError()]), "\n".join(scarcity(MemoryError()))),
        (OSError(errno.ENOMEM, "no"), "\n".join(scarcity(OSError(errno.ENOMEM, "no")))),
    ],
)
def test_expected_errors_become_messages(error: Exception, message: str) -> None:
    with pytest.raises(Failed) as caught:
        run_to_end(fail, error)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "error", [RuntimeError("bug"), ExceptionGroup("", [StartError("No."), RuntimeError("bug")])]
)
def test_a_bug_is_logged_with_its_traceback(error: Exception) -> None:
    with structlog.testing.capture_logs() as logged, pytest.raises(SystemExit) as caught:
        run_to_end(fail, error)
    assert caught.value.code == 1
    assert logged == [{"event": "crashed", "log_level": "critical", "exc_info": error}]


def test_a_bug_of_a_command_that_has_no_log_is_told_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run_to_end(fail, RuntimeError("bug"))
    out, err = capsys.readouterr()
    assert out == ""
    assert "RuntimeError: bug" in err


@pytest.mark.parametrize("error", [StoppedEarly(), ExceptionGroup("", [StoppedEarly()])])
def test_a_signal_during_the_start_exits_with_0(error: Exception) -> None:
    with structlog.testing.capture_logs() as logged, pytest.raises(SystemExit) as caught:
        run_to_end(fail, error)
    assert caught.value.code == 0
    assert logged == []


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="Linux alone has epoll")
@pytest.mark.parametrize("call", ["os.eventfd", "select.epoll"])
@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_a_call_that_the_system_forbids_is_named(
    monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """A profile of seccomp that was written for another program ended the start in Trio's traceback."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(call, refuse)
    with pytest.raises(Failed) as caught:
        try_resources()
    assert os.strerror(code) in caught.value.message
    assert "epoll_wait and eventfd2" in caught.value.message


class Limit:
    """A fake of the system's limit on open files."""

    def __init__(self, soft: int, hard: int, *, refuses: bool = False) -> None:
        self.soft, self.hard, self.refuses = soft, hard, refuses

    def get(self, _: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _: int, limits: tuple[int, int]) -> None:
        if self.refuses:
            raise ValueError("not allowed to raise maximum limit")
        self.soft, self.hard = limits


@pytest.mark.parametrize(
    ("limit", "after", "allowed"),
    [
        (Limit(1024, 20_000), (20_000, 20_000), 20_000),
        (Limit(20_000, 20_000), (20_000, 20_000), 20_000),
        (Limit(256, INFINITY), (2**20, INFINITY), 2**20),
        (Limit(INFINITY, INFINITY), (INFINITY, INFINITY), 2**20),
        (Limit(2**21, 2**22), (2**21, 2**22), 2**21),
        (
            Limit(1024, RECOMMENDED_OPEN_FILES),
            (RECOMMENDED_OPEN_FILES, RECOMMENDED_OPEN_FILES),
            RECOMMENDED_OPEN_FILES,
        ),
    ],
)
def test_the_file_limit_is_raised(
    limit: Limit, after: tuple[int, int], allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    with structlog.testing.capture_logs() as logged:
        assert raise_file_limit() == allowed
    assert (limit.soft, limit.hard) == after
    assert logged == []


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (Limit(1024, RECOMMENDED_OPEN_FILES - 1), RECOMMENDED_OPEN_FILES - 1),
        (Limit(1024, 1024), 1024),
        (Limit(256, INFINITY, refuses=True), 256),
    ],
)
def test_a_low_file_limit_is_logged(limit: Limit, allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    with structlog.testing.capture_logs() as logged:
        assert raise_file_limit() == allowed
    [line] = logged
    assert (line["log_level"], line["limit"]) == ("warning", allowed)
    assert line["recommended"] == RECOMMENDED_OPEN_FILES
    assert "LimitNOFILE" in line["fix"]


@pytest.fixture
def _restored_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("descriptor", [0, 1])
def test_no_file_takes_the_place_of_a_closed_stream(descriptor: int) -> None:
    # Also none that a library keeps open once it is imported.
    script = (
        "import hookgw.__main__, os, sys\n"
        f"sys.exit(not os.path.samestat(os.fstat({descriptor}), os.stat(os.devnull)))"
    )
    command = ["sh", "-c", f'exec "$0" -c "$1" {descriptor}<&-', sys.executable, script]
    assert subprocess.run(command, check=False).returncode == 0


def test_objects_of_the_start_are_exempt_from_garbage_collection() -> None:
    """A full run of the collector over them blocks the event loop for 50 ms."""
    gc.unfreeze()  # what the tests exempt, see tests/conftest.py
    exempt_started_objects()
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < 10_000


@pytest.mark.usefixtures("_restored_thresholds")
def test_only_the_threshold_of_the_youngest_generation_changes() -> None:
    _, *older = gc.get_threshold()
    spare_imports()
    assert gc.get_threshold()[1:] == tuple(older)
    tune_garbage_collector()
    assert gc.get_threshold() == (GC_THRESHOLD, *older)
    assert gc.isenabled()


def test_no_garbage_is_looked_for_while_a_server_is_imported() -> None:
    script = (
        "import hookgw.__main__, gc\n"
        "before = gc.get_stats()[0]['collections']\n"
        "import hookgw.app.serve\n"
        "print(gc.get_stats()[0]['collections'] - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
