"""The options by which commands select deliveries, events by their deliveries, times and pages of lists."""

from __future__ import annotations

import click

from hookgw.command.field_options import Decorator, add_options
from hookgw.command.fields import PAGE, read_time
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


def time_options(
    since: str = "Only events accepted since a time, or since 10m, 2h, 3d ago.",
    until: str = "Only events accepted until then.",
) -> Decorator:
    return add_options(
        (
            click.option("--since", metavar="TIME", callback=read_time, help=since),
            click.option("--until", metavar="TIME", callback=read_time, help=until),
        )
    )


finished_option = click.option(
    "--finished-since",
    "finishedSince",
    metavar="TIME",
    callback=read_time,
    help="Only what became delivered or dead since a time, or since 10m, 2h, 3d ago.",
)


def page_options(limit: str) -> Decorator:
    return add_options(
        (
            click.option("--limit", type=PAGE, help=limit),
            click.option("--cursor", help="Continue a list; each page prints the cursor of the next."),
        )
    )
