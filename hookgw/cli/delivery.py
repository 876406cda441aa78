"""``hookgw delivery``: what became of the events."""

from __future__ import annotations

import json
from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.fields import read_moment
from hookgw.cli.output import json_option, show_fields, show_json, show_table


@click.group()
def delivery() -> None:
    """List deliveries, and show every attempt of one."""


@delivery.command("list")
@click.argument("instance")
@click.option("--state", type=click.Choice(["pending", "delivered", "dead", "dropped"]), help="Only these.")
@click.option("--kind", help="Only events of this kind.")
@click.option("--since", metavar="TIME", callback=read_moment, help="A time, or how long ago: 10m, 2h, 3d.")
@click.option("--until", metavar="TIME", callback=read_moment, help="Likewise.")
@click.option("--limit", type=click.IntRange(1), help="How many on a page.")
@click.option("--cursor", help="The next page: what the one before named.")
@server_options
@json_option
def list_(client: Client, instance: str, as_json: bool, **query: str | int | None) -> None:
    """List INSTANCE's deliveries, the newest first."""
    page = client.call("GET", "delivery", "list", instance, query=query)
    if as_json:
        show_json(page)
        return
    show_table(
        ("id", "state", "kind", "label", "attempts", "accepted", "event"),
        map(_row, page["deliveries"]),
    )
    if page["cursor"]:
        click.echo(f"There are more: --cursor {page['cursor']}", err=True)


@delivery.command()
@click.argument("instance")
@click.argument("delivery_id", metavar="ID")
@server_options
@json_option
def show(client: Client, instance: str, delivery_id: str, as_json: bool) -> None:
    """Show a delivery with every attempt; ID is the delivery's or the event's."""
    found = client.call("GET", "delivery", "find", instance, delivery_id)
    if as_json:
        show_json(found)
        return
    _show(found)


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    return tuple(
        found[name] for name in ("id", "state", "kind", "label", "attempts", "acceptedAt", "eventId")
    )


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
