"""The options by which commands select deliveries, and events by their deliveries."""

from __future__ import annotations

import click

from hookgw.command.field_options import add_options
from hookgw.command.names import complete_labels, instance_argument, tag_option

selection_options = add_options(
    (
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
)
"""Adds an optional instance, and the options that select deliveries, as fields of the API's calls."""
