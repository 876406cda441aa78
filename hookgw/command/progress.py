"""The progress of something that may take minutes, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressBar:
    """A bar on standard error, if that is a terminal: what is done, how much of it, and for how long."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar

    def begin(self, text: str) -> None:
        """Show what begins now. Until more is known, the bar says no more than that it goes on."""
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(text, total=None)

    def show(self, done: int, total: int) -> None:
        """Show how much of it is done."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[-1], completed=done, total=total)


@contextmanager
def progress_bar(text: str) -> Iterator[ProgressBar]:
    """Show the progress of something that may take minutes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:  # before rich 14.3 even a disabled bar prints an empty line
        yield ProgressBar(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        bar = ProgressBar(shown)
        bar.begin(text)
        yield bar
