"""How a command fails: exit code 1, and sentences on standard error."""

from __future__ import annotations

from typing import IO, Any

import click


class Failed(click.ClickException):
    """The command was understood and could not be done.

    Args:
        messages: whole sentences; each becomes a line of its own.
    """

    exit_code = 1

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the messages to standard error."""
        click.echo(f"Error: {self.message}", file=file, err=True)


class Away(Failed):
    """The gateway does not answer, or says that it cannot just now; trying again can help."""
