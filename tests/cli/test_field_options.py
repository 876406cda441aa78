"""Options of commands from a table of fields."""

from enum import StrEnum
from typing import Any

import click
from click.testing import CliRunner

from tests.public.command import add_options, body_of, options_of
from tests.public.kernel import Choice, Field, Flag, Kind, Line, Option, Whole, as_object, as_text


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


TEXT = Line(as_text, {"type": "string"}, str)
TABLE = (
    Field(name="is_loud", kind=Flag(), meaning="", spellings=("loud", "isLoud"), option=Option("Loud.")),
    Field(
        name="mood", kind=Choice(Mood, "well", "not well"), meaning="", option=Option("Mood.", default="good")
    ),
    Field(name="count", kind=Whole(1, 3), meaning="", option=Option("Count.")),
    Field(
        name="more",
        kind=Kind(as_object, {"type": "object"}, dict),
        meaning="",
        option=Option("More.", "JSON"),
    ),
    Field(name="hidden", kind=TEXT, meaning=""),
    Field(name="note", kind=TEXT, meaning="", option=Option("Note.")),
)


@click.command()
@add_options(
    options_of(TABLE, {"note": (("--note", "-n"), {"callback": lambda _, __, value: value})}).values()
)
def command(**given: Any) -> None:
    body = body_of(TABLE, given)
    click.echo(sorted(name for name in body if name != "more"))
    click.echo(body.get("loud"))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, arguments)


def test_an_option_has_the_name_and_the_type_of_its_field() -> None:
    given = ("--no-is-loud", "--mood", "bad", "--count", "3", "--more", "{}", "-n", "x")
    assert run(*given).output == "['count', 'loud', 'mood', 'note']\nFalse\n"
    for wrong in (("--mood", "worse"), ("--count", "4"), ("--more", "{"), ("--hidden", "x")):
        assert run(*wrong).exit_code == 2


def test_what_is_not_given_is_not_sent() -> None:
    assert run().output == "[]\n\n"


def test_the_help_has_the_order_of_the_table_and_the_defaults() -> None:
    shown = [line.split()[0] for line in run("--help").output.splitlines() if line.startswith("  -")]
    assert shown == ["--is-loud", "--mood", "--count", "--more", "-n,", "--help"]
    assert "[default: good]" in run("--help").output
    without = click.command()(add_options(options_of(TABLE, {}, defaults=False).values())(lambda: None))
    assert "[default" not in CliRunner().invoke(without, ["--help"]).output
