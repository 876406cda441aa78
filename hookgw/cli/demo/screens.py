"""Where the demo shows itself: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click
import trio
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hookgw.cli.demo.board import Row
from hookgw.cli.demo.ledger import Ledger
from hookgw.cli.demo.receivers import Trouble
from hookgw.cli.output import printable
from hookgw.deliveries import LaneState

HAPPENINGS = 5
"""How many sentences about what happened stay on the screen."""
TEXT_LENGTH = 24

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
        head = Text(f"{accepted} events accepted for each receiver", style="bold")
        lines = [Text(line, style="dim") for line in self._happenings]
        self._live.update(Group(head, table(rows), *lines), refresh=True)


def summary(accepted: int, rows: Sequence[Row]) -> str:
    """One line about everything."""
    return f"accepted {accepted} | " + " | ".join(map(_summary, rows))


def _summary(row: Row) -> str:
    delivered = f" {row.ledger.arrived} delivered" if row.ledger else ""
    pending = f" {row.on_its_way} on the way ({row.lane})" if row.on_its_way else ""
    return f"{row.name}{delivered}{pending}"


def table(rows: Sequence[Row]) -> Table:
    """The lanes as a table."""
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("receiver", "it is", "its lane"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("on the way", "delivered", "in vain", "repeated", "out of order", "unverified"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("arrived last", no_wrap=True, min_width=TEXT_LENGTH)
    for row in rows:
        drawn.add_row(*_cells(row))
    return drawn


def _cells(row: Row) -> list[Text]:
    return [
        Text(printable(row.name), style="bold"),
        Text(row.receiver, style="green" if row.receiver == Trouble.NONE else "red"),
        Text(row.lane, style="yellow" if row.lane is LaneState.WAITING else ""),
        Text(str(row.on_its_way), style="yellow" if row.on_its_way > 1 else ""),
        *_counts(row.ledger),
        Text(printable(row.last)[:TEXT_LENGTH], style="dim"),
    ]


def _counts(ledger: Ledger | None) -> list[Text]:
    """What the receiver counts; the last three must stay at 0."""
    if ledger is None:
        return [Text("-")] * 5
    faults = (ledger.repeated, ledger.out_of_order, ledger.unverified)
    return [
        Text(str(ledger.arrived), style="green"),
        Text(str(ledger.in_vain), style="dim"),
        *(Text(str(count), style="bold red" if count else "dim") for count in faults),
    ]


def _clock() -> str:
    return time.strftime("%H:%M:%S")
