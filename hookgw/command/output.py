"""Prints results: tables for people, JSON for programs."""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import click

from hookgw.command.failure import Failed, ReaderGone
from hookgw.command.words import cell_text, printable
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import local_number, translated
from hookgw.kernel.times import parse_rfc3339

_F = TypeVar("_F", bound=Callable[..., Any])

GAP = 2
"""Spaces between two columns of a table."""
_RARE = re.compile("[^\n -~]")
EVERYTHING = 100_000
"""Columns of a table that is not limited by a terminal."""


def json_option(command: _F) -> _F:
    return _noted("--json", "as_json", help="Print JSON, for programs.")(command)


def table_options(command: _F) -> _F:
    wide = _noted("--wide", "wide", help="Print every column in full, however wide.")
    return wide(json_option(command))


def _noted(flag: str, name: str, **more: Any) -> Callable[[_F], _F]:
    """Return an option that this module notes, so that commands need not pass it on."""

    def note(ctx: click.Context, _param: click.Parameter, given: bool) -> None:
        ctx.meta[f"hookgw.{name}"] = given  # the same for all contexts of one command line

    return click.option(flag, name, is_flag=True, expose_value=False, callback=note, **more)


def _is_noted(name: str) -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.meta.get(f"hookgw.{name}", False)


def wants_json() -> bool:
    """Return whether the current command has ``--json``."""
    return _is_noted("as_json")


def shown_as_json(value: Any) -> bool:
    """Print a value if the current command has ``--json``; return whether it has."""
    if wants_json():
        show_json(value)
    return wants_json()


def say(*lines: object, err: bool = False) -> None:
    """Print values, each on one line, as :func:`~hookgw.command.words.printable` returns them.

    Commands print only through this module: a text may come from anywhere.
    """
    for line in lines:
        _write(printable(line), err=err)


def show_progress(text: str) -> None:
    """Print a text to standard error, replacing the one before it. Then say() ends the line."""
    click.echo(f"\r{printable(text)}", nl=False, err=True)


def show_drawing(text: str) -> None:
    """Print this program's own text for terminals or shells, unchanged."""
    _write(text)


def check_output() -> None:
    """Raise ``Failed`` if standard output is closed, for those who do not write to it with this module."""
    if sys.stdout is None:
        raise _unwritable(os.strerror(errno.EBADF))


def _write(text: str, *, err: bool = False) -> None:
    if not err:
        check_output()  # click says nothing
    try:
        click.echo(text, err=err)
    except OSError as error:
        if err:
            raise
        _end_output(error)


def flush_output() -> None:
    """Raise ``Failed`` or ``ReaderGone`` if standard output does not take what others have written to it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _end_output(error)


def _end_output(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise ReaderGone(*error.args) from error
    # What is left in the buffer would fail once more, and louder, when the process ends.
    with suppress(OSError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    raise _unwritable(error.strerror or error) from error


def _unwritable(reason: object) -> Failed:
    return Failed(_("Standard output cannot be written: {reason}.", reason=reason))


def show_json(value: Any) -> None:
    _write(_json_text(value, indent=2))


def show_result(value: Any, *lines: object) -> None:
    """Print a result: the value for programs, or the lines for people."""
    if not shown_as_json(value):
        say(*lines)


def data_text(event: Mapping[str, Any]) -> str:
    """Return the data of an event as JSON on one line; without the right to see it, why there is none."""
    if "data" not in event:
        return str(event.get("withheld", ""))
    return json.dumps(event["data"], ensure_ascii=False)


def show_json_line(value: Any) -> None:
    _write(_json_text(value))


def takes_all_characters() -> bool:
    """Return whether standard output is UTF-8. Elsewhere, texts for programs escape what is not ASCII."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name == "utf-8"


def _json_text(value: Any, indent: int | None = None) -> str:
    # JSON escapes only the first 32 characters by itself. Programs read the same text either way.
    text = json.dumps(value, indent=indent, ensure_ascii=not takes_all_characters())
    return _RARE.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def show_warnings(response: Mapping[str, Any]) -> None:
    say(*(_("Warning: {warning}", warning=warning) for warning in response.get("warnings") or ()), err=True)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def ask_on_terminal(question: str, *, is_sure: bool) -> None:
    """Ask before something is deleted that cannot be had back. Scripts, which have no terminal, go on.

    Raises:
        click.Abort: the answer is not yes.
    """
    if not is_sure and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


def show_silent_nodes(nodes: str) -> None:
    """Print to standard error which nodes of a fleet a list lacks, if any."""
    if nodes:
        say(_("Warning: these nodes do not answer: {nodes}", nodes=nodes), err=True)


class Column(NamedTuple):
    """A column of a table, and its form in a narrow terminal.

    Attributes:
        least: the width to which long cells are cut; ``None``: they are never cut. An id that is cut cannot
            be copied.
        drop: columns with the highest number are left out first; 0: the column always stays.
        wraps: whether a long cell takes several lines, instead of being cut.
        is_time: whether cells are RFC 3339 times, which are short and in local time if space is limited.
        right: whether cells are numbers, which are at the right, and written as the language does.
    """

    heading: str
    least: int | None = 12
    drop: int = 0
    wraps: bool = False
    is_time: bool = False
    right: bool = False

    def comfortable(self, natural: int) -> int:
        """Return the width that cells should have before whole columns are left out."""
        return natural if self.least is None else min(natural, max(3 * self.least // 2, len(self.heading)))

    def minimum(self, natural: int) -> int:
        """Return the least width of readable cells."""
        return natural if self.least is None else min(natural, max(self.least, len(self.heading)))


def show_table(columns: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> None:
    """Print a table that fits the terminal, unless the current command has ``--wide``.

    Columns without any value are left out. In a narrow terminal, the least important columns are left out
    too, and long cells are cut or wrapped. A pipe gets everything, on one line for each row, unless the
    environment has ``COLUMNS``.
    """
    # rich takes longer to import than the rest of a command: commands with --json do without it.
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    width = EVERYTHING if _is_noted("wide") else available_width()
    specs = [Column(column) if isinstance(column, str) else column for column in columns]
    cells = [
        [
            short_time(cell)
            if spec.is_time and width < EVERYTHING and cell
            else local_number(cell)
            if spec.right and isinstance(cell, int | float)
            else cell_text(spec.heading, printable(cell))
            for spec, cell in zip(specs, row, strict=True)
        ]
        for row in rows
    ]
    specs = [spec._replace(heading=translated(spec.heading)) for spec in specs]
    natural = [
        max([cell_len(spec.heading), *(cell_len(row[index]) for row in cells)])
        for index, spec in enumerate(specs)
    ]
    is_empty = [bool(cells) and not any(row[index] for row in cells) for index in range(len(specs))]
    # Without a limit, every table has the same columns: scripts count them.
    widths = fit(specs, natural, is_empty, width) if width < EVERYTHING else dict(enumerate(natural))
    # Not rich's own fitting: it folds every column, ids too, until nothing can be read.
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for index, size in widths.items():
        spec = specs[index]
        table.add_column(
            spec.heading,
            width=size,
            no_wrap=not spec.wraps,
            overflow="fold" if spec.wraps else "ellipsis",
            justify="right" if spec.right else "left",
        )
    for row in cells:
        # Text, not str: rich would read "[::1]" in a URL as markup.
        table.add_row(*(Text(row[index]) for index in widths))
    _print(table, sum(widths.values()) + GAP * len(widths))


def fit(
    columns: Sequence[Column], natural: Sequence[int], is_empty: Sequence[bool], width: int
) -> dict[int, int]:
    """Choose which columns a table has, and their widths by index.

    They fit, unless not even the columns that always stay do.

    Args:
        natural: for each column, the width of its widest cell.
        is_empty: for each column, whether no row has a value.
    """
    shown = [index for index in range(len(columns)) if not is_empty[index] or not columns[index].drop]

    def room(widths: Iterable[int]) -> int:
        return width - sum(widths) - GAP * (len(shown) - 1)

    while room(columns[index].comfortable(natural[index]) for index in shown) < 0:
        optional = [index for index in shown if columns[index].drop]
        if not optional:
            break
        shown.remove(max(optional, key=lambda index: columns[index].drop))
    widths = {index: columns[index].minimum(natural[index]) for index in shown}
    # What is left goes to the narrowest columns first: a short cell is shown in full beside a long URL.
    while (left := room(widths.values())) > 0:
        cut = [index for index in shown if widths[index] < natural[index]]
        if not cut:
            break
        narrowest = min(cut, key=lambda index: widths[index])
        others = [widths[index] for index in cut if widths[index] > widths[narrowest]]
        step = min([natural[narrowest], *others]) - widths[narrowest]
        widths[narrowest] += max(1, min(step, left // len(cut)))
    return widths


def available_width() -> int:
    """Return how many columns tables may have: ``COLUMNS``, else the terminal's; a pipe has no limit."""
    if not (sys.stdout and sys.stdout.isatty()) and not os.environ.get("COLUMNS", "").isdecimal():
        return EVERYTHING  # wrapped or cut lines would break `| grep` and `| awk`
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def cut(text: str, width: int) -> str:
    if len(text) * 2 <= width:
        return text
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def short_time(value: object) -> str:
    """Return an RFC 3339 time as month, day and time of this machine's zone."""
    try:
        return datetime.fromtimestamp(parse_rfc3339(str(value))).astimezone().strftime("%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return printable(value)


def short_duration(seconds: float) -> str:
    """Return a duration in one unit, for a column."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s"


def show_next_page(page: Mapping[str, Any]) -> None:
    if page["cursor"]:
        # To standard error, so that a pipe gets only the table. Whether there are more is not known: a search
        # through a long history also ends a page, perhaps an empty one.
        say(_("This is not the end. For the next page, add: --cursor {page}", page=page["cursor"]), err=True)


def show_fields(fields: Mapping[str, object], *, are_data: bool = False) -> None:
    """Print names and values, one pair per line. Leave out pairs whose value is ``None``.

    Args:
        are_data: whether the names are somebody's data, such as tags, and not headings to translate.
    """
    from rich.table import Table
    from rich.text import Text

    if all(value is None for value in fields.values()):
        return  # not even an empty line
    grid = Table.grid(padding=(0, GAP))
    for name, value in fields.items():
        if value is not None:
            heading, text = printable(name), printable(value)
            if not are_data:
                heading, text = translated(heading), cell_text(name, text)
            grid.add_row(Text(heading, style="bold"), Text(text, overflow="fold"))
    _print(grid, available_width())


def _print(renderable: Any, width: int) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=width)
    # rich pads every line to the full width, which wraps in narrower windows and shows in copied text.
    with console.capture() as drawn:
        console.print(renderable)
    _write("\n".join(line.rstrip() for line in drawn.get().splitlines()))
