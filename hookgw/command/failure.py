"""The failure of a command: exit code 1, and sentences on standard error."""

from __future__ import annotations

import click

from hookgw.command.words import printable


class Failed(click.ClickException):
    """The command could not be carried out. click prints the messages and exits with code 1.

    Args:
        messages: whole sentences, with texts from anywhere in them. Each is printed on its own line.

    Attributes:
        status: of the response that was an error; 0 for other failures.
    """

    status = 0

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages

    def format_message(self) -> str:
        return "\n".join(map(printable, self.messages))


class ReaderGone(BrokenPipeError):
    """Nobody reads standard output any more. click ends the command with exit code 1, without a word."""


class ServerUnavailable(Failed):
    """The gateway does not respond, or responds that it is unavailable or too busy. A retry may succeed."""
