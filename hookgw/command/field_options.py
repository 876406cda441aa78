"""Options of commands from a table of fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from hookgw.command.fields import read_json
from hookgw.kernel.fields import Choice, Field, Flag, Whole

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Special = Mapping[str, tuple[tuple[str, ...], dict[str, Any]]]
"""Options that are not read as others of their kind: their flags, and what click needs of them."""


def options_of(table: Iterable[Field], special: Special, *, defaults: bool = True) -> dict[str, Decorator]:
    """Return the options by the names of the fields; ``defaults`` says whether the help has the defaults."""
    options: dict[str, Decorator] = {}
    for field in table:
        if field.option is None:
            continue
        name = field.name.replace("_", "-")
        flags, more = special.get(field.name, ((f"--{name}",), {}))
        if isinstance(field.kind, Flag):
            flags, more = (f"--{name}/--no-{name}",), {"default": None}
        elif isinstance(field.kind, Choice):
            more = {"type": click.Choice([str(word) for word, _ in field.kind.words])}
        elif isinstance(field.kind, Whole):
            more = {"type": click.IntRange(field.kind.low, field.kind.high)}
        elif field.option.metavar == "JSON":
            more = {"callback": read_json}
        default = f"  [default: {field.option.default}]" if defaults and field.option.default else ""
        options[field.name] = click.option(
            *flags, metavar=field.option.metavar, help=field.option.help + default, **more
        )
    return options


def add_options(options: Iterable[Decorator]) -> Decorator:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed([*options]):  # click lists options in the reverse order of their decorators
            command = option(command)
        return command

    return add


def body_of(table: Iterable[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to send. The API reads a missing field as "keep the stored value"."""
    return {one.spellings[0]: given[one.name] for one in table if given.get(one.name) is not None}
