"""``hookgw alerts``: shows open alerts, and tries channels."""

from __future__ import annotations

import click

from hookgw.command.client import Client, server_options, table_call_options
from hookgw.command.failure import Failed
from hookgw.command.group import CommandGroup
from hookgw.command.output import Column, say, show_table, shown_as_json

COLUMNS = (
    Column("since", least=None, is_time=True),
    Column("on", least=None),
    Column("problems", least=None),
    Column("which", least=16, wraps=True),
)


@click.group(cls=CommandGroup)
def alerts() -> None:
    """Show open alerts, and try the channels of alerts."""


@alerts.command("list")
@table_call_options
def list_(client: Client) -> None:
    """List the open alerts."""
    found = client.call("GET", "alerts", "list")
    if shown_as_json(found):
        return
    rows = []
    for one in found["alerts"]:
        names = ("/".join(filter(None, (each["instance"], each["label"]))) for each in one["problems"])
        rows.append((one["since"], one["on"], one["count"], ", ".join(filter(None, names))))
    show_table(COLUMNS, rows)
    untold: dict[tuple[str, str], int] = {}
    for one in found["refused"]:
        why = " or ".join(one["channels"]), one["error"]
        untold[why] = untold.get(why, 0) + 1
    for (channels, error), count in untold.items():
        say(f"Not told to {channels} ({count} waiting, tried again): {error}", err=True)
    for one in found["leftOut"]:
        on, channels = ", ".join(one["on"]), " or ".join(one["to"])
        say(f"Not in use, the rule on {on} for {channels}: {one['reason']}", err=True)


@alerts.command()
@click.argument("channels", nargs=-1)
@server_options
def test(client: Client, channels: tuple[str, ...]) -> None:
    """Send a test through CHANNELS, by default all of them."""
    found = client.call("POST", "alerts", "test", body={"channels": [*channels]})
    if not found["channels"]:
        raise Failed("hookgw has no channels. Add them to alerts.channels in its configuration.")
    for one in found["channels"]:
        say(f"{one['name']}: {one['error'] or 'sent'}")
    if any(one["error"] for one in found["channels"]):
        raise Failed("Not every channel has taken the test.")
