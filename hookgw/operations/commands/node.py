"""``hookgw node``: the nodes of a fleet."""

from __future__ import annotations

import click

from hookgw.command.client import Client, table_call_options
from hookgw.command.group import CommandGroup
from hookgw.command.output import Column, show_table, shown_as_json
from hookgw.kernel.language import gettext as _

COLUMNS = (
    Column("node", least=10),
    Column("URL", least=14, drop=1),
    Column("shards", least=None, right=True),
    Column("heartbeat", least=None, right=True),
    Column("state", least=None),
)


@click.group(cls=CommandGroup)
def node() -> None:
    """Show the nodes that share a database."""


@node.command("list")
@table_call_options
def list_(client: Client) -> None:
    """List the nodes, and how many of the 256 shards each holds.

    Needs a global key. The instances of a shard are on its node, with their lanes and connectors.
    """
    nodes = client.call("GET", "node", "list")
    if not shown_as_json(nodes):
        rows = (
            (
                _("{node} (asked)", node=found["node"]) if found["isHere"] else found["node"],
                found["url"],
                found["shards"],
                f"{found['heartbeatAge']:.1f} s",
                "starts or stops" if found["leaving"] else "running",
            )
            for found in nodes
        )
        show_table(COLUMNS, rows)
