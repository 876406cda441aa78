"""The command group: lazy imports, and the commands of plugins."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import click.testing
import pytest

from hookgw import Invalid, __version__
from hookgw.command import group
from tests.public.kernel import StartError

HEAVY = (
    "asyncio", "h11", "httptools", "httpx", "hypercorn", "msgspec", "pluggy", "prometheus_client", "quart",
    "quart_trio", "rich", "sqlite3", "ssl", "structlog", "trio", "yaml",
)  # fmt: skip


def test_the_version_needs_no_heavy_import() -> None:
    script = (
        "import sys; sys.argv = ['hookgw', '--version']\n"
        "before = set(sys.modules)  # where coverage is measured, sqlite3 is in it\n"
        "import hookgw.__main__ as program\n"
        "try:\n    program.main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules.keys() - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"hookgw {__version__}", ""]


def test_the_server_loads_quart_and_pages_after_it_listens() -> None:
    late = {"asyncio", "jinja2", "pygments", "quart", "rich", "segno", "werkzeug"}
    script = (
        "import hookgw.app.serve, sys\n"
        "from pathlib import Path\n"
        "from hookgw.config.settings import PluginsSettings\n"
        "from hookgw.plugins.hooks import Hooks\n"
        "from hookgw.plugins.loading import load_plugins\n"
        "Hooks(load_plugins(PluginsSettings(), base=Path())).dashboard_pages()\n"
        f"print(*{late} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize("package", ["hookgw", "hookgw.connectors", "hookgw.testing"])
def test_help_and_completion_know_a_public_name_before_its_first_use(package: str) -> None:
    script = f"import {package} as package; print(*set(package.__all__) - set(dir(package)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hookgw", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hookgw {__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that takes nothing")
@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize("args", [["--help"], ["--version"], ["completion", "--help"]])
def test_a_full_disk_is_told_in_a_sentence(args: list[str], buffering: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": buffering}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hookgw", *args], stdout=full, stderr=subprocess.PIPE, env=environment
        )
    assert done.stderr == b"Error: Standard output cannot be written: No space left on device.\n"
    assert done.returncode == 1


@pytest.mark.parametrize("name", sorted(group.COMMANDS))
def test_each_command_is_in_its_module(name: str) -> None:
    command = group.main.get_command(click.Context(group.main), name)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


def command_lines() -> Iterator[list[str]]:
    """Return the arguments of every command and subcommand."""
    context = click.Context(group.main)
    yield []
    for name in group.COMMANDS:
        yield [name]
        command = group.main.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ([name, sub] for sub in command.list_commands(context))


@pytest.mark.parametrize("args", list(command_lines()), ids=" ".join)
def test_help_fits_80_columns_and_no_summary_is_cut(args: list[str]) -> None:
    text = click.testing.CliRunner().invoke(group.main, [*args, "--help"], terminal_width=80).output
    assert [line for line in text.splitlines()[1:] if len(line) > 80 or line.endswith("...")] == []


def run(*args: str, add: Callable[[click.Group], None] = lambda _: None) -> click.testing.Result:
    """Run a new group; ``add`` adds the plugin commands."""
    fresh = group.LazyGroup(name="hookgw", add_plugin_commands=add)
    return click.testing.CliRunner().invoke(fresh, args)


def add_greet(to: click.Group) -> None:
    @to.command()
    def greet() -> None:
        click.echo("hello")

    @to.command("serve")
    def serve() -> None:
        click.echo("taken over")


def test_a_plugin_command_is_listed_last() -> None:
    assert run("greet", add=add_greet).output == "hello\n"
    listed = [
        line.split()[0] for line in run("--help", add=add_greet).output.splitlines() if line[:3] == "  g"
    ]
    assert listed == ["greet"]


def test_a_plugin_cannot_replace_a_command() -> None:
    assert "taken over" not in run("serve", "--help", add=add_greet).output


def test_plugins_are_loaded_only_for_an_unknown_command() -> None:
    loaded: list[click.Group] = []
    assert run("emit", "--help", add=loaded.append).exit_code == 0
    assert loaded == []
    assert run("unheard-of", add=loaded.append).exit_code == 2
    assert len(loaded) == 1


def test_a_broken_plugin_does_not_affect_other_commands() -> None:
    def refuse(_to: click.Group) -> None:
        raise StartError("Plugin 'x' cannot be loaded.")

    result = run("--help", add=refuse)
    assert result.exit_code == 0
    assert "Plugin commands are unavailable: Plugin 'x' cannot be loaded." in result.stderr
    assert "check-config" in result.stdout


def test_an_expected_error_exits_with_1_and_its_messages() -> None:
    def add(to: click.Group) -> None:
        @to.command()
        def fail() -> None:
            raise Invalid("This is wrong.", "So is that.")

    result = run("fail", add=add)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: This is wrong.\nSo is that.\n"


def test_a_plugin_in_a_folder_adds_its_command(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "greeter.py").write_text(
        "import click, hookgw\n"
        "print('imported')\n"
        "@hookgw.hookimpl\n"
        "def hookgw_commands(group):\n"
        "    print('called')\n"
        "    @group.command()\n"
        "    def greet():\n"
        "        click.echo('hello')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "hookgw", "greet"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.stdout, done.returncode) == ("hello\n", 0), done.stderr
    assert done.stderr == "imported\ncalled\n"  # standard output is the command's


@pytest.mark.parametrize(("typed", "meant"), [("delivry", "delivery"), ("webhooks", "webhook")])
def test_a_mistyped_command_gets_a_suggestion(typed: str, meant: str) -> None:
    result = run(typed)
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in result.stderr
    assert "Did you mean" not in run("xyzzy").stderr


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("event emit", "Did you mean 'hookgw emit'? There are: erase, find, list."),
        ("event replay", "Did you mean 'hookgw delivery replay'? There are: erase, find, list."),
        ("webhook resend", "Did you mean 'hookgw delivery resend'? There are: backfill, "),
        ("webhook get", "Did you mean 'find'? There are: backfill, delete, "),
        ("webhook ls", "Did you mean 'list'? There are: backfill, delete, "),
        ("delivery find", "Did you mean 'show'? There are: cancel, dead, "),
        ("webhook create", "Did you mean 'set'? There are: backfill, delete, "),
        ("message text", "There are: send."),
        ("profile delete", "Did you mean 'remove'? There are: add, list, "),
        ("key delete", "Did you mean 'revoke'? There are: create, list, revoke."),
        ("instance resart", "Did you mean 'restart'? There are: connect, create, "),
        ("import waha", "There are: evolution."),
        ("alerts xyzzy", "There are: list, test."),
    ],
)
def test_an_unknown_command_of_a_group_is_told_which_there_are(typed: str, hint: str) -> None:
    result = click.testing.CliRunner().invoke(group.main, typed.split(), prog_name="hookgw")
    assert result.exit_code == 2
    assert f"No such command '{typed.split()[-1]}'. {hint}" in result.stderr


def test_each_group_is_of_that_kind() -> None:
    def groups(command: click.Command) -> Iterator[click.Group]:
        if isinstance(command, click.Group):
            yield command
            for name in command.list_commands(context):
                yield from groups(command.get_command(context, name) or command)

    context = click.Context(group.main)
    found = [*groups(group.main)]
    assert len(found) > 10
    assert {type(one) for one in found} == {group.LazyGroup, group.CommandGroup}


def test_a_group_of_a_plugin_is_of_that_kind_too() -> None:
    def add(to: click.Group) -> None:
        @to.group()
        def parcels() -> None:
            """Parcels."""

        @parcels.command()
        def track() -> None:
            """Track one."""

    assert (
        "No such command 'trak'. Did you mean 'track'? There are: track."
        in run("parcels", "trak", add=add).stderr
    )


def test_a_command_of_a_group_is_found_from_outside() -> None:
    result = click.testing.CliRunner().invoke(group.main, ["replay"], prog_name="hookgw")
    assert "No such command 'replay'. Did you mean 'hookgw delivery replay'?" in result.stderr
    # By the word of another program: it was told to call restore, which replaces the data.
    result = click.testing.CliRunner().invoke(group.main, ["retry"], prog_name="hookgw")
    assert "Did you mean 'hookgw delivery resend'?" in result.stderr
    # Several groups have it.
    for typed in ("pause", "delete"):
        assert "Did you mean" not in click.testing.CliRunner().invoke(group.main, [typed]).stderr


@pytest.mark.parametrize("typed", ["help", "help instance", "help instance create"])
def test_help_is_a_command_too(typed: str) -> None:
    result = run(*typed.split())
    assert result.exit_code == 0, result.stderr
    assert result.stdout == run(*typed.split()[1:], "--help").stdout


def test_help_is_a_command_of_each_group() -> None:
    assert run("instance", "help").stdout == run("instance", "--help").stdout
    assert run("instance", "help", "create").stdout == run("instance", "create", "--help").stdout


def test_the_version_is_a_command_too() -> None:
    result = click.testing.CliRunner().invoke(group.main, ["version"])
    assert (result.stdout, result.exit_code) == (f"hookgw {__version__}\n", 0)


def test_a_mistyped_command_after_help_gets_a_suggestion() -> None:
    assert "Did you mean 'delivery'?" in run("help", "delivry").stderr


def test_an_option_before_its_command_is_told_where_it_belongs() -> None:
    result = run("--json", "instance", "list")
    assert result.exit_code == 2
    assert "Options of a command come after it: hookgw instance … --json." in result.stderr
    assert "Did you mean" not in result.stderr
    assert "come after" not in run("--verison").stderr
