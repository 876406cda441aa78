"""``hookgw health``: check that a gateway accepts and delivers events, for health checks of containers."""

from __future__ import annotations

import click

from hookgw.command.client import Client, server_options
from hookgw.command.output import say


@click.command()
@server_options
def health(client: Client) -> None:
    """Check that hookgw accepts and delivers events.

    Prints `ready`, or ends with exit code 1 and the reason. Needs no key.
    """
    say(client.call("GET", "readyz")["status"])
