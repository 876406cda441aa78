"""What the set-up of all tests does after one has failed."""

import os
import signal
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from tests.conftest import pytest_collection_modifyitems


def fail(depth: int) -> None:
    error: Exception = AssertionError("a gateway has many nurseries")
    for number in range(depth):
        error = ExceptionGroup("of a nursery", [error, OSError(f"beside {number}")])
    raise error


@pytest.mark.parametrize(
    ("option", "left"),
    [
        ("", ["a[0]", "a[1]", "a[2]", "b[0]", "b[1]", "b[2]", "c[0]", "c[1]", "c[2]"]),
        ("--few-cases", ["a[0]", "a[2]", "b[0]", "b[2]", "c[0]", "c[2]"]),
        ("--few-cases-of=a", ["a[0]", "a[2]", "b[0]", "b[1]", "b[2]", "c[0]", "c[1]", "c[2]"]),
        ("--few-cases-of=", ["a[0]", "a[2]", "b[0]", "b[1]", "b[2]", "c[0]", "c[2]"]),
    ],
)
def test_few_cases_are_of_tests_that_take_long(option: str, left: list[str]) -> None:
    """Else CI would not see most rows of a table."""
    fixtures = {"a": ["kit", "tmp_path"], "b": [], "c": ["postgres"]}
    items: list[Any] = [Case(f"{name}[{number}]", fixtures[name]) for name in fixtures for number in range(3)]
    name, _, folder = option.partition("=")
    options = {"--few-cases": name == "--few-cases", "--few-cases-of": [folder] if "=" in option else []}
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    pytest_collection_modifyitems(cast("Any", SimpleNamespace(getoption=options.get, hook=hook)), items)
    assert [item.nodeid for item in items] == left


@dataclass(eq=False)
class Case:
    """A case of a test, as pytest has collected it."""

    nodeid: str
    fixturenames: list[str]
    marks: list[str] = field(default_factory=list)

    def add_marker(self, name: str) -> None:
        self.marks.append(name)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


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
