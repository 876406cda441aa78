"""How a command fails: exit code 1, and sentences on standard error."""

from __future__ import annotations

from typing import IO, Any

import click


class Failed(click.ClickException):
    """The command is valid but could not be carried out.

    Args:
        messages: whole sentences. Each is printed on its own line.
    """

    exit_code = 1

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the messages to standard error."""
        click.echo(f"Error: {self.message}", file=file, err=True)


class ServerUnavailable(Failed):
    """The gateway does not respond, or responds that it is unavailable. A retry may succeed."""
