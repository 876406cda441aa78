"""Where the demo shows itself: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click
import trio
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hookgw.cli.demo.board import Row, named_counts
from hookgw.cli.demo.ledger import Ledger
from hookgw.cli.demo.receivers import Trouble
from hookgw.cli.output import printable
from hookgw.models.deliveries import LaneState

HAPPENINGS = 5
"""How many sentences about what happened stay on the screen."""
NAME_LENGTH = 16
TEXT_LENGTH = 28
WIDE = 120
"""Columns from which there is room for what arrived last."""

Look = Callable[[], tuple[int, list[Row]]]
"""Gives how many events were accepted, and the lanes."""


class Screen(Protocol):
    """Shows the demo."""

    def tell(self, sentence: str) -> None:
        """Show that something happened."""

    async def keep_showing(self, look: Look) -> None:
        """Show what there is to see, again and again, until cancelled."""


@contextmanager
def open_screen(console: Console) -> Iterator[Screen]:
    """A screen that suits the console, for the length of the block."""
    if not console.is_terminal:
        yield PlainScreen()
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield LiveScreen(live)


class PlainScreen:
    """Prints a line each second in which something changed."""

    def tell(self, sentence: str) -> None:
        click.echo(f"{_clock()} -- {sentence}")

    async def keep_showing(self, look: Look) -> None:
        last = ""
        while True:
            line = summary(*look())
            if line != last:
                click.echo(f"{_clock()} {line}")
            last = line
            await trio.sleep(1)


class LiveScreen:
    """A table that changes in its place; the sentences stand below it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._happenings: deque[str] = deque(maxlen=HAPPENINGS)

    def tell(self, sentence: str) -> None:
        self._happenings.append(f"{_clock()} {sentence}")

    async def keep_showing(self, look: Look) -> None:
        try:
            while True:
                self._show(look)
                await trio.sleep(0.2)
        finally:
            self._show(look)

    def _show(self, look: Look) -> None:
        accepted, rows = look()
        head = Text(f"{accepted} events accepted, each for every receiver\n")
        lines = [Text(), *(Text(line, style="dim") for line in self._happenings)]
        self._live.update(Group(head, table(rows, self._live.console.width), *lines), refresh=True)


def summary(accepted: int, rows: Sequence[Row]) -> str:
    """One line about everything."""
    return f"accepted {accepted} | " + " | ".join(map(_summary, rows))


def _summary(row: Row) -> str:
    delivered = f" {row.ledger.arrived} delivered" if row.ledger else ""
    pending = f" {row.on_its_way} on the way ({row.lane})" if row.on_its_way else ""
    return f"{row.name}{delivered}{pending}"


def table(rows: Sequence[Row], width: int) -> Table:
    """The lanes as a table that fits into ``width`` columns."""
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("receiver", "", "its lane"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("on the way", "delivered", "in vain"):
        drawn.add_column(heading, no_wrap=True, justify="right")
    drawn.add_column("faults")
    if width >= WIDE:
        drawn.add_column("arrived last", no_wrap=True)
    for row in rows:
        drawn.add_row(*_cells(row)[: len(drawn.columns)])
    return drawn


def _cells(row: Row) -> list[Text]:
    return [
        Text(_short(row.name, NAME_LENGTH), style="bold"),
        Text(row.receiver, style="green" if row.receiver == Trouble.NONE else "red"),
        Text(row.lane, style="yellow" if row.lane is LaneState.WAITING else ""),
        Text(str(row.on_its_way), style="yellow" if row.on_its_way > 1 else ""),
        *_counts(row.ledger),
        Text(_short(row.last, TEXT_LENGTH), style="dim"),
    ]


def _counts(ledger: Ledger | None) -> list[Text]:
    if ledger is None:
        return [Text("-")] * 3
    faults = named_counts(ledger.faults)
    return [
        Text(str(ledger.arrived), style="green"),
        Text(str(ledger.in_vain), style="dim"),
        Text(faults or "none", style="bold red" if faults else "green"),
    ]


def _short(text: str, length: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _clock() -> str:
    return time.strftime("%H:%M:%S")
