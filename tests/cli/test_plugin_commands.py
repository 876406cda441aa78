"""Commands of plugins that end in every way."""

import signal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import click.testing
import pytest

from hookgw import Invalid, hookimpl
from tests.public.command import LazyGroup, add_contained_commands
from tests.public.config import PluginsSettings
from tests.public.kernel import PluginFailed
from tests.public.plugins import Hooks, load_plugins


def run(tmp_path: Path, callback: Any, *path: str) -> tuple[click.testing.Result, list[PluginFailed]]:
    """Run a plugin's command, or the one below a group of it."""

    def add(group: click.Group) -> None:
        group.command("mine")(callback)
        inner = click.Group("inner")
        inner.command("mine")(callback)
        group.add_command(inner)

    failures: list[PluginFailed] = []
    settings = PluginsSettings(first_party=False, folders=())
    plugin = SimpleNamespace(hookgw_commands=hookimpl(add))
    hooks = Hooks(load_plugins(settings, base=tmp_path, extra={"acme": plugin}), on_failure=failures.append)
    group = LazyGroup(name="hookgw", add_plugin_commands=partial(add_contained_commands, hooks))
    return click.testing.CliRunner().invoke(group, [*path, "mine"]), failures


def raising(error: BaseException) -> Any:
    def callback() -> None:
        raise error

    return callback


@pytest.mark.parametrize("path", [(), ("inner",)])
@pytest.mark.parametrize(
    "error", [ValueError("boom"), GeneratorExit(), BaseExceptionGroup("", [ValueError("boom")])]
)
def test_what_a_command_raises_is_its_own_failure(
    tmp_path: Path, error: BaseException, path: tuple[str, ...]
) -> None:
    result, failures = run(tmp_path, raising(error), *path)
    assert result.exit_code == 1
    assert "Plugin 'acme' failed in hookgw_commands: " in result.output
    assert len(failures) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SystemExit(7), 7),
        (click.exceptions.Exit(3), 3),
        (click.UsageError("no such option"), 2),
        (click.Abort(), 1),
        (Invalid("number must be 1 or more."), 1),
    ],
)
def test_the_ways_in_which_a_command_ends_are_no_failures(
    tmp_path: Path, error: BaseException, status: int
) -> None:
    result, failures = run(tmp_path, raising(error))
    assert (result.exit_code, failures) == (status, [])


def test_ctrl_c_ends_a_command(tmp_path: Path) -> None:
    result, failures = run(tmp_path, lambda: signal.raise_signal(signal.SIGINT))
    assert (result.exit_code, failures) == (1, [])
    assert "Aborted!" in result.output


def test_a_command_has_its_name_help_and_options(tmp_path: Path) -> None:
    @click.option("--count", default=2)
    def callback(count: int) -> None:
        """Count something."""
        click.echo(f"counted {count}")

    result, failures = run(tmp_path, callback)
    assert (result.exit_code, result.output, failures) == (0, "counted 2\n", [])
