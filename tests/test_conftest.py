"""What the set-up of all tests shows of a test that fails."""

import pytest


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
