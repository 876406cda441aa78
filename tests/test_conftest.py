"""What the set-up of all tests does after one has failed."""

import os
import signal
import threading

import pytest
import trio


def fail(depth: int) -> None:
    error: Exception = AssertionError("a gateway has many nurseries")
    for number in range(depth):
        error = ExceptionGroup("of a nursery", [error, OSError(f"beside {number}")])
    raise error


@pytest.mark.parametrize(("depth", "is_added"), [(7, False), (20, True)])
def test_exceptions_are_shown_however_many_groups_they_are_in(
    request: pytest.FixtureRequest, depth: int, is_added: bool
) -> None:
    call = pytest.CallInfo.from_call(lambda: fail(depth), "call")
    report = request.config.hook.pytest_runtest_makereport(item=request.node, call=call)
    added = "".join(text for _, text in report.sections)
    assert ("AssertionError: a gateway has many nurseries" in added) is is_added
    for said in ("AssertionError: a gateway has many nurseries", "OSError: beside 0"):
        assert said in report.longreprtext + added


def test_after_a_test_that_took_too_long_others_run(request: pytest.FixtureRequest) -> None:
    def take_too_long(*_: object) -> None:
        pytest.fail("Timeout")

    async def wait() -> None:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await trio.sleep_forever()

    usual = signal.signal(signal.SIGUSR1, take_too_long)
    call = pytest.CallInfo.from_call(lambda: trio.run(wait), "call")
    signal.signal(signal.SIGUSR1, usual)
    assert call.excinfo is not None
    request.config.hook.pytest_runtest_makereport(item=request.node, call=call)
    trio.run(trio.lowlevel.checkpoint)
