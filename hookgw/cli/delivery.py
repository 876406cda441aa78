"""``hookgw delivery``: what became of the events."""

from __future__ import annotations

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
        ("id", "state", "kind", "event", "attempts", "accepted", "label", "reason"),
        map(_row, page["deliveries"]),
    )
    if page.get("cursor"):
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
    show_fields({})
