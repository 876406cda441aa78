"""The display of the demo: a live picture on a terminal, lines of text elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import trio
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hookgw.command.output import cut, say
from hookgw.command.words import printable
from hookgw.demo.board import Row, named_counts
from hookgw.demo.invitation import Invitation
from hookgw.demo.painter import Painter
from hookgw.demo.receivers import Trouble

BAR_EVENTS = 60
"""How many events a bar stands for. More are pending only where a receiver stays away."""
LONGEST_BAR = 30
SHORTEST_BAR = 15
OTHER_COLUMNS = 45
"""The width of the table without its bars. The shortest bars leave it within 60 columns."""
LOG_WIDTH = 80
"""Columns of lines that are not printed to a terminal."""
MAX_NAME = 12
MAX_STATE = 11
MAX_ROWS = 8
"""Rows that leave room for the rest in 24 lines."""

ReadBoard = Callable[[], tuple[int, list[Row]]]
"""Returns how many events were accepted, and the rows."""


class PlainScreen:
    """Prints a line per second if something changed."""

    def add_message(self, message: str, _explanation: str = "") -> None:
        say(f"{_clock()} -- {message}")

    async def run(self, read_board: ReadBoard) -> None:
        last = ""
        while True:
            line = summary(*read_board())
            if line != last:
                say(f"{_clock()} {line}")
            last = line
            await trio.sleep(1)  # a log file or a CI job keeps every line


class LiveScreen:
    """Updates a picture in place: the invitation, the receivers, and the last messages."""

    def __init__(self, console: Console, invitation: Invitation | None) -> None:
        self._console = console
        self._invitation = invitation
        self._painter = Painter(console)
        self._message = Text("Messages arrive at a simulated account.")

    def add_message(self, message: str, explanation: str = "") -> None:
        self._message = Text.assemble((f"{message}.", "bold"), f" {explanation}")

    async def run(self, read_board: ReadBoard) -> None:
        try:
            while True:
                self._painter.draw(self.picture(read_board))
                await trio.sleep(0.2)
        finally:
            # The last picture stays on the terminal: show the final counts, and no link that is dead.
            self._painter.draw(table(read_board()[1], self._console.width))

    def picture(self, read_board: ReadBoard) -> Group:
        width = self._console.width
        board: list[RenderableType] = [table(read_board()[1], width), Text(), self._message]
        end: list[RenderableType] = [Text(), Text("Ctrl-C ends the demo.", style="dim")]
        if self._invitation is None:
            return Group(*board, *end)
        link: list[RenderableType] = [
            Text("Watch it in a browser. This link logs in once:", style="bold"),
            Text(self._invitation.link(), style="cyan", overflow="fold"),
            Text(),
        ]
        join_in: list[RenderableType] = [
            Text(),
            Text("Join in from another terminal:", style="bold"),
            *(Text(line, style="cyan", overflow="fold") for line in self._invitation.command(width)),
        ]
        return Group(*link, *board, *join_in, *end)


Screen = PlainScreen | LiveScreen


@contextmanager
def open_screen(console: Console, invitation: Invitation | None) -> Iterator[Screen]:
    """Return a screen that suits the console and restore the console when the block ends.

    The invitation is ``None`` for a demo that ends at once.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        if invitation is not None:
            say(f"hookgw listens on {invitation.url}.")
            say(f"Dashboard (this link logs in once, within 5 minutes): {invitation.link()}")
            say("Join in from another terminal:")
            say(*invitation.command(LOG_WIDTH))
        yield PlainScreen()
        return
    console.show_cursor(False)
    try:
        yield LiveScreen(console, invitation)
    finally:
        console.show_cursor(True)


def summary(accepted: int, rows: Sequence[Row]) -> str:
    parts = [f"accepted {accepted}"]
    for row in rows:
        counts = [f"{row.ledger.arrived} delivered"] if row.ledger else []
        counts += [f"{row.pending} pending ({row.lane})"] if row.pending else []
        parts.append(f"{row.name} {', '.join(counts)}".rstrip())
    return " | ".join(parts)


def table(rows: Sequence[Row], width: int) -> Table:
    """Return the rows as a table that fits into ``width`` columns, from 60."""
    size = min(LONGEST_BAR, max(SHORTEST_BAR, width - OTHER_COLUMNS))
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    # Of fixed width: what changes five times a second must not move what stands beside it.
    for heading, least in (("receiver", 0), ("", MAX_STATE), (f"last {BAR_EVENTS} events", size)):
        drawn.add_column(heading, no_wrap=True, min_width=least)
    for heading in ("arrived", "pending"):
        drawn.add_column(heading, no_wrap=True, justify="right")
    for row in rows[:MAX_ROWS]:
        faults = named_counts(row.ledger.faults) if row.ledger else ""
        state_style = "green" if row.receiver == Trouble.NONE else "red"
        drawn.add_row(
            Text(cut(printable(row.name.partition("://")[2] or row.name), MAX_NAME), style="bold"),
            # Faults never happen; if one does, it must be seen.
            Text(cut(faults or row.receiver, MAX_STATE), style="bold red" if faults else state_style),
            bar(row, size),
            Text(str(row.ledger.arrived) if row.ledger else "-"),
            # One pending delivery is normal: the one in flight.
            Text(str(row.pending), style="yellow" if row.pending > 1 else ""),
        )
    if len(rows) > MAX_ROWS:
        drawn.add_row(Text(f"and {len(rows) - MAX_ROWS} more", style="dim"))
    return drawn


def bar(row: Row, size: int) -> Text:
    """Return a bar of the last events: the arrived ones, then the pending ones."""
    pending = min(row.pending, BAR_EVENTS)
    arrived = min(row.ledger.arrived, BAR_EVENTS - pending) if row.ledger else 0
    # The sum is rounded, so that both parts together never change their length.
    both = round((arrived + pending) * size / BAR_EVENTS)
    waiting = min(both, round(pending * size / BAR_EVENTS))
    return Text.assemble(("█" * (both - waiting), "green"), ("░" * waiting, "yellow"))


def _clock() -> str:
    return time.strftime("%H:%M:%S")
