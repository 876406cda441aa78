"""``hookgw lane``: the in-order queues of registrations."""

from __future__ import annotations

from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.output import json_option, show_json, show_table

COLUMNS = ("URL", "instance", "label", "partition", "state", "backlog", "age", "retry at", "last outcome")


@click.group()
def lane() -> None:
    """Show the lanes: the in-order queues of registrations."""


@lane.command("list")
@server_options
@json_option
def list_(client: Client, as_json: bool) -> None:
    """List the lanes with their state and backlog.

    Needs a global key. A registration has one lane, or one for each of its partitions. The age is that of
    the oldest pending delivery.
    """
    lanes = client.call("GET", "lane", "list")
    if as_json:
        show_json(lanes)
    else:
        show_table(COLUMNS, map(_row, lanes))


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    age, waits_for = found["headAge"], found.get("waitsFor")
    return (
        # The URL is missing if the registration was just deleted; then only its id is known.
        found.get("url") or found.get("registration"),
        # A global webhook or the registration for operational events belongs to no instance.
        found.get("instance"),
        found.get("label"),
        found.get("partition"),
        f"{found['state']}, waits for {waits_for}" if waits_for else found["state"],
        found["backlog"],
        None if age is None else f"{age:.1f} s",
        found["waitingUntil"],
        found["lastOutcome"] if found["lastError"] is None else found["lastError"],
    )
