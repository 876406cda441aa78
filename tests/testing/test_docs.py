"""The page about the test kit: its example works, and it names every fixture and public name."""

import ast
import re
import textwrap
from pathlib import Path

import pytest
import trio.testing

import hookgw.testing
from hookgw.testing import GatewayKit, Receiver, pytest_plugin
from tests.support.processes import run

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.process
def test_the_example_passes_in_an_empty_folder(tmp_path: Path) -> None:
    files = dict(FILE.findall(PAGE))
    assert set(files) == {"shout.py", "test_shout.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    # A whole pytest session: with both cores busy it can take longer than a command.
    done = run(["-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "."], cwd=tmp_path, patience=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


async def test_a_receiver_that_hangs(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: trio.testing.MockClock
) -> None:
    [steps] = re.findall(r"^  ```python\n(.*?)^  ```$", PAGE, re.MULTILINE | re.DOTALL)
    await hookgw_gateway.register(hookgw_receiver.url)
    code = compile(textwrap.dedent(steps), "docs/testing.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, {"hang": hookgw.testing.hang, **locals()})
    (lane,) = hookgw_gateway.gateway.lanes()
    assert lane.last_outcome == hookgw.Outcome.UNANSWERED


@pytest.mark.parametrize("fixture", [name for name in vars(pytest_plugin) if name.startswith("hookgw_")])
def test_each_fixture_is_described(fixture: str) -> None:
    assert f"| `{fixture}` |" in PAGE


@pytest.mark.parametrize("name", sorted(set(hookgw.testing.__all__) - {"Received", "Step", "chunk"}))
def test_each_public_name_is_mentioned(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("name", hookgw.testing.__all__)
def test_each_public_name_exists(name: str) -> None:
    assert getattr(hookgw.testing, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = hookgw.testing.nothing_such  # type: ignore[attr-defined]


HEAVY = {"trio", "httpx", "quart", "quart_trio", "hypercorn", "msgspec", "h11", "hookgw.app.gateway"}


def test_the_pytest_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    program = "import sys, hookgw.testing.pytest_plugin; print(*sys.modules)"
    done = run(["-c", program], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert HEAVY.isdisjoint(done.stdout.split())
