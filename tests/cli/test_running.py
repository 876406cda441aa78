"""What becomes of errors that leave a Trio program."""

from __future__ import annotations

import pytest
import structlog.testing
import trio

from hookgw.cli.failure import Failed
from hookgw.cli.running import run_to_end
from hookgw.models.errors import HookgwError, Invalid, StartError


def test_it_gives_what_the_program_returns() -> None:
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
    ],
)
def test_errors_that_have_a_reader_are_told(error: Exception, message: str) -> None:
    with pytest.raises(Failed) as caught:
        run_to_end(fail, error)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "error", [RuntimeError("bug"), ExceptionGroup("", [StartError("No."), RuntimeError("bug")])]
)
def test_anything_else_is_logged_with_its_traceback(error: Exception) -> None:
    with structlog.testing.capture_logs() as logged, pytest.raises(SystemExit) as caught:
        run_to_end(fail, error)
    assert caught.value.code == 1
    assert logged == [{"event": "crashed", "log_level": "critical", "exc_info": error}]


def test_a_failure_without_words_says_what_kind_it_is() -> None:
    with pytest.raises(Failed, match="Internal Server Error"):
        run_to_end(fail, HookgwError())
