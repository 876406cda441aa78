"""``hookgw delivery``: what became of the events, and sending them again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.fields import read_moment
from hookgw.cli.output import json_option, printable, show_fields, show_json, show_table
from hookgw.cli.replay import replay

LISTED = {
    "id": "id",
    "state": "state",
    "kind": "kind",
    "label": "label",
    "attempts": "attempts",
    "acceptedAt": "accepted",
    "eventId": "event",
}
LISTED_DEAD = {
    "id": "id",
    "kind": "kind",
    "label": "label",
    "attempts": "attempts",
    "finishedAt": "given up",
    "reason": "because",
}
"""The columns of the lists, by the field of a delivery."""


@click.group()
def delivery() -> None:
    """List deliveries, show every attempt of one, send them again."""


delivery.add_command(replay)


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose deliveries and pages of them."""
    for option in reversed(
        (
            click.option("--kind", help="Only events of this kind."),
            click.option(
                "--since", metavar="TIME", callback=read_moment, help="A time, or how long ago: 10m, 2h, 3d."
            ),
            click.option("--until", metavar="TIME", callback=read_moment, help="Likewise."),
            click.option("--limit", type=click.IntRange(1), help="How many on a page."),
            click.option("--cursor", help="The next page: what the one before named."),
        )
    ):
        command = option(command)
    return command


@delivery.command("list")
@click.argument("instance")
@click.option("--state", type=click.Choice(["pending", "delivered", "dead", "dropped"]), help="Only these.")
@page_options
@server_options
@json_option
def list_(client: Client, instance: str, as_json: bool, **query: str | int | None) -> None:
    """List INSTANCE's deliveries, the newest first."""
    _list(client, instance, query, LISTED, as_json)


@delivery.command()
@click.argument("instance")
@page_options
@server_options
@json_option
def dead(client: Client, instance: str, as_json: bool, **query: str | int | None) -> None:
    """List INSTANCE's dead letters and why, the newest first."""
    _list(client, instance, {"state": "dead", **query}, LISTED_DEAD, as_json)


def _list(
    client: Client,
    instance: str,
    query: Mapping[str, str | int | None],
    columns: Mapping[str, str],
    as_json: bool,
) -> None:
    page = client.call("GET", "delivery", "list", instance, query=query)
    if as_json:
        show_json(page)
        return
    show_table(tuple(columns.values()), ([found[name] for name in columns] for found in page["deliveries"]))
    if page["cursor"]:
        click.echo(f"There are more: --cursor {page['cursor']}", err=True)


@delivery.command()
@click.argument("instance")
@click.argument("delivery_id", metavar="ID")
@server_options
@json_option
def show(client: Client, instance: str, delivery_id: str, as_json: bool) -> None:
    """Show a delivery with every attempt.

    ID is the delivery's, or its event's.
    """
    found = client.call("GET", "delivery", "find", instance, delivery_id)
    if as_json:
        show_json(found)
        return
    _show(found)


@delivery.command()
@click.argument("instance")
@click.argument("delivery_id", metavar="ID")
@server_options
@json_option
def resend(client: Client, instance: str, delivery_id: str, as_json: bool) -> None:
    """Send a finished delivery again.

    ID is the delivery's, or its event's. It goes to the end of its lane, with the same webhook-id.
    """
    sent = client.call("POST", "delivery", "resend", instance, delivery_id)
    if as_json:
        show_json(sent)
    else:
        click.echo(f"{sent['id']} is sent again to {printable(sent['url'])}")


def _show(found: dict[str, Any]) -> None:
    show_fields(
        {
            "delivery": found["id"],
            "event": found["eventId"],
            "kind": found["kind"],
            "to": found["url"],
            "label": found["label"],
            "state": found["state"],
            "because": found["reason"],
            "accepted": found["acceptedAt"],
            "finished": found["finishedAt"],
            "next attempt": found["nextAttemptAt"],
            "data": json.dumps(found["event"]["data"], ensure_ascii=False),
        }
    )
    if found["attempts"]:
        click.echo()
        show_table(("attempt", "at", "ms", "outcome", "status", "answer"), map(_attempt, found["attempts"]))


def _attempt(made: dict[str, Any]) -> tuple[object, ...]:
    said = made["error"] or made["answer"]
    return made["number"], made["at"], made["duration"], made["outcome"], made["status"], said
