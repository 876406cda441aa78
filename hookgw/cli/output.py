"""Print results: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PIPE_WIDTH = 200
"""Columns of a table that is not printed to a terminal."""


def json_option(command: F) -> F:
    """Add the option ``--json`` to a command, as its argument ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def show_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_warnings(response: Mapping[str, Any]) -> None:
    """Print the warnings of a response to standard error, one per line."""
    for warning in response.get("warnings") or ():
        click.echo(f"Warning: {warning}", err=True)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with one line per row, if the width allows it.

    Args:
        columns: the headings.
        rows: cells in the order of the headings; see :func:`printable`.
    """
    # rich takes longer to import than the rest of a command: commands with --json do without it.
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, not str: rich would read "[::1]" in a URL as markup.
        table.add_row(*(Text(printable(cell)) for cell in row))
    _print(table)


def show_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair per line. Leave out pairs whose value is ``None``."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        if value is not None:
            grid.add_row(Text(name, style="bold"), Text(printable(value), overflow="fold"))
    _print(grid)


def _print(renderable: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        # In a pipe rich assumes 80 columns and wraps URLs, which breaks `| grep` and `| awk`.
        console.width = PIPE_WIDTH
    # rich pads every line to the full width, which wraps in narrower windows and shows in copied text.
    with console.capture() as drawn:
        console.print(renderable)
    click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def printable(value: object) -> str:
    """Return a value as text for people: ``None`` is empty, and booleans are yes and no.

    Control characters, which could manipulate the terminal, become ``�``.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(printable(item) for item in value)
    return "".join(char if char.isprintable() else "�" for char in str(value))
