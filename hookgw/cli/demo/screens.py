"""The display of the demo: a live table on a terminal, lines of text elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
import trio
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hookgw.cli.demo.board import Row, named_counts
from hookgw.cli.demo.receivers import Trouble
from hookgw.cli.output import printable
from hookgw.models.deliveries import LaneState

MAX_MESSAGES = 3
# With these limits the table fits into 60 columns, with the lanes into 80, and with the last event into 120.
MAX_NAME = 16
MAX_NAME_NARROW = 8
MAX_TEXT = 28
USUAL = 80
WIDE = 120

ReadBoard = Callable[[], tuple[int, list[Row]]]
"""Returns how many events were accepted, and the rows."""


class PlainScreen:
    """Prints a line per second if something changed."""

    def add_message(self, message: str) -> None:
        """Show that something happened."""
        click.echo(f"{_clock()} -- {message}")

    async def run(self, read_board: ReadBoard) -> None:
        """Refresh the display until cancelled."""
        last = ""
        while True:
            line = summary(*read_board())
            if line != last:
                click.echo(f"{_clock()} {line}")
            last = line
            await trio.sleep(1)  # a log file or a CI job keeps every line


class LiveScreen:
    """Updates a table in place, with the latest messages below it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)

    def add_message(self, message: str) -> None:
        self._messages.append(f"{_clock()} {message}")

    async def run(self, read_board: ReadBoard) -> None:
        try:
            while True:
                self._draw(read_board)
                await trio.sleep(0.2)
        finally:
            # The last picture stays on the terminal: show the final counts.
            self._draw(read_board)

    def _draw(self, read_board: ReadBoard) -> None:
        accepted, rows = read_board()
        head = Text(f"{accepted} events accepted. Each goes to every receiver.\n")
        lines = [Text(), *(Text(line, style="dim") for line in self._messages)]
        self._live.update(Group(head, table(rows, self._live.console.width), *lines), refresh=True)


Screen = PlainScreen | LiveScreen


@contextmanager
def open_screen(console: Console) -> Iterator[Screen]:
    """Return a screen that suits the console and restore the console when the block ends."""
    if not console.is_terminal:
        yield PlainScreen()
        return
    # The task in run() refreshes the table; auto_refresh would start a thread for it.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield LiveScreen(live)


def summary(accepted: int, rows: Sequence[Row]) -> str:
    """Return everything in one line."""
    parts = [f"accepted {accepted}"]
    for row in rows:
        counts = [f"{row.ledger.arrived} delivered"] if row.ledger else []
        counts += [f"{row.pending} pending ({row.lane})"] if row.pending else []
        parts.append(f"{row.name} {', '.join(counts)}".rstrip())
    return " | ".join(parts)


def table(rows: Sequence[Row], width: int) -> Table:
    """Return the rows as a table that fits into ``width`` columns, from 60."""
    headings = ("receiver", "state", "lane", "pending", "delivered", "failed", "faults", "last event")
    left_out = {"lane"} if width < USUAL else set()
    left_out |= {"last event"} if width < WIDE else set()
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        if heading not in left_out:
            right = heading in ("pending", "delivered", "failed")
            drawn.add_column(heading, no_wrap=heading != "faults", justify="right" if right else "left")
    for row in rows:
        ledger = row.ledger
        faults = named_counts(ledger.faults) if ledger else ""
        cells = [
            Text(_short(row.name, MAX_NAME if width >= USUAL else MAX_NAME_NARROW), style="bold"),
            Text(row.receiver, style="green" if row.receiver == Trouble.NONE else "red"),
            Text(row.lane, style="yellow" if row.lane is LaneState.WAITING else ""),
            # One pending delivery is normal: the one in flight.
            Text(str(row.pending), style="yellow" if row.pending > 1 else ""),
            Text(str(ledger.arrived) if ledger else "-", style="green" if ledger else ""),
            Text(str(ledger.failed_attempts) if ledger else "-", style="dim"),
            Text(faults or ("none" if ledger else "-"), style="bold red" if faults else "green"),
            Text(_short(row.last, MAX_TEXT), style="dim"),
        ]
        drawn.add_row(*(c for c, heading in zip(cells, headings, strict=True) if heading not in left_out))
    return drawn


def _short(text: str, length: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _clock() -> str:
    return time.strftime("%H:%M:%S")
