"""The command line of the simulator, with runs that break what they are told to."""

import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tests.simulation import command
from tests.simulation.history import History


@pytest.fixture
def broken_seeds(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    broken: set[int] = set()

    def simulate(seed: int, folder: Path, history: History, *, hub: bool = True) -> None:
        assert not list(folder.iterdir())
        if seed in broken:
            raise RuntimeError("a fault of the gateway")

    monkeypatch.setattr(command, "simulate", simulate)
    return broken


def run(*options: str) -> int:
    return command.main([*options, "--workers", "1"])


def test_a_run_goes_on_after_a_failure_and_collects_them(
    broken_seeds: set[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken_seeds |= {3, 5}
    failures = tmp_path / "failures"
    failures.write_text("an earlier one\n")
    assert run("--seed", "1", "--runs", "6", "--failures", str(failures)) == 1
    printed = capsys.readouterr().out
    assert "6 runs (seeds 1 to 6), 0.0 simulated years, 2 failed;" in printed
    collected = failures.read_text()
    assert collected.startswith("an earlier one\nseed 3: fault:")
    assert "--seed 5 --trace" in collected


def test_it_ends_with_the_first_failure_if_asked(
    broken_seeds: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    broken_seeds |= {2}
    assert run("--seed", "1", "--runs", "9", "--first") == 1
    assert "2 runs (seeds 1 to 2)" in capsys.readouterr().out


@pytest.mark.parametrize("contained", [Exception, BaseException], ids=["lanes", "jobs"])
def test_a_run_that_waits_for_ever_is_a_failure(
    contained: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def simulate(*_: object, **__: object) -> None:
        with suppress(contained):  # as hookgw does
            time.sleep(60)
        if contained is Exception:
            time.sleep(60)

    monkeypatch.setattr(command, "TIMERS", ((signal.SIGALRM, signal.ITIMER_REAL, 0.01),))
    monkeypatch.setattr(command, "simulate", simulate)
    assert run("--seed", "4") == 1
    assert "does it end?" in capsys.readouterr().out


@pytest.mark.usefixtures("broken_seeds")
def test_a_long_run_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PROGRESS_EVERY", 0.0)
    assert run("--seed", "7", "--runs", "2") == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("… 1 runs, 0 failed; ")
    assert second.startswith("… 2 runs, 0 failed; ")
    assert last.startswith("2 runs (seeds 7 to 8)")


@pytest.mark.usefixtures("broken_seeds")
def test_it_ends_after_some_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seed", "7", "--minutes", "0.000001") == 0
    assert capsys.readouterr().out.startswith("1 runs (seeds 7 to 7)")


def test_an_interrupt_ends_it_with_the_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def simulate(seed: int, folder: Path, history: History, *, hub: bool = True) -> None:
        if seed == 4:
            raise BaseExceptionGroup("of a nursery", [KeyboardInterrupt()])

    monkeypatch.setattr(command, "simulate", simulate)
    assert run("--runs", "9") == 0
    assert capsys.readouterr().out.startswith("interrupted\n3 runs (seeds 1 to 3)")


def test_an_interrupt_within_trio_is_no_failure_of_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seed: int, folder: Path, history: History, *, hub: bool = True) -> None:
        raise trio.TrioInternalError("internal error in Trio") from KeyboardInterrupt()

    monkeypatch.setattr(command, "simulate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        command.run_seed(1)
