"""An option that takes one value is given once."""

import click
import pytest
from click.testing import CliRunner

from tests.public.command import main, refuse_repeated


@click.group()
def tool() -> None: ...


@tool.command()
@click.option("--one", "-o")
@click.option("--many", multiple=True)
@click.option("--flag/--no-flag")
def run(one: str | None, many: tuple[str, ...], flag: bool) -> None:
    click.echo(f"{one} {many} {flag}")


refuse_repeated(tool)


@pytest.mark.parametrize("given", [["--one", "a", "--one", "b"], ["-o", "a", "--one", "a"]])
def test_a_repeated_option_is_refused(given: list[str]) -> None:
    result = CliRunner().invoke(tool, ["run", *given])
    assert result.exit_code == 2
    assert "--one is given twice; it takes one value." in result.output


def test_lists_and_flags_may_be_repeated() -> None:
    result = CliRunner().invoke(tool, ["run", "--many", "a", "--many", "b", "--flag", "--no-flag"])
    assert result.output == "None ('a', 'b') False\n"


@pytest.mark.parametrize(
    "words",
    [
        ["key", "list", "--instance", "a", "--instance", "b"],
        ["webhook", "test", "loja1", "--label", "a", "--label", "b"],
        ["delivery", "list", "loja1", "--state", "dead", "--state", "pending"],
    ],
)
def test_every_command_refuses_it(words: list[str]) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "is given twice" in result.output
