"""``hookgw lane``: the in-order queues, one for each URL."""

from __future__ import annotations

from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.output import json_option, show_json, show_table


@click.group()
def lane() -> None:
    """Show the lanes: the in-order queue of each URL."""


@lane.command("list")
@server_options
@json_option
def list_(client: Client, as_json: bool) -> None:
    """List the lanes with their state and backlog; needs a global key."""
    lanes = client.call("GET", "lane", "list")
    if as_json:
        show_json(lanes)
    else:
        show_table(
            ("lane", "state", "backlog", "head waits", "tries again", "last outcome"), map(_row, lanes)
        )


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    age = found["headAge"]
    shown_age = None if age is None else f"{age:.1f} s"
    outcome = found["lastOutcome"] if found["lastError"] is None else found["lastError"]
    return found["lane"], found["state"], found["backlog"], shown_age, found["waitingUntil"], outcome
