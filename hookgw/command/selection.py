"""The options by which commands select deliveries, and events by their deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hookgw.command.names import complete_labels, instance_argument, tag_option


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an optional instance, and the options that select deliveries, as fields of the API's calls."""
    options = (
        instance_argument(required=False),
        click.option(
            "--instances",
            metavar="NAMES",
            help="Without INSTANCE: only these, separated by commas; 'loja*' for all that begin so.",
        ),
        tag_option("Without INSTANCE: only instances that carry this tag; repeatable, all must match."),
        click.option(
            "--label",
            shell_complete=complete_labels,
            help="Only deliveries to the registration with this label.",
        ),
        click.option("--host", help="Only deliveries to URLs at this host, with or without its port."),
        click.option(
            "--status", metavar="STATUS", help="Only this status in the newest attempt: 503, or 5xx."
        ),
        click.option("--error", metavar="TEXT", help="Only with this text in the reason, error or answer."),
        click.option("--person", metavar="ID", help="Only deliveries whose payload names this person."),
        click.option("--text", metavar="TEXT", help="Only deliveries with this text in the payload."),
        click.option(
            "--failed-since",
            "failedSince",
            metavar="ID",
            help="Only this delivery, by its id, and later ones.",
        ),
    )
    for option in reversed(options):  # click lists options in the reverse order of their decorators
        command = option(command)
    return command
