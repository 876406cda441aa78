"""``hookgw lane``: the in-order queues of registrations."""

from __future__ import annotations

from typing import Any

import click

from hookgw.command.client import Client, table_call_options
from hookgw.command.group import CommandGroup
from hookgw.command.names import tag_option
from hookgw.command.output import Column, say, short_duration, show_silent_nodes, show_table, shown_as_json
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import translated
from hookgw.site.words import wait_in_words

COLUMNS = (
    Column("instance", least=10),
    Column("label", least=8, drop=1),
    Column("URL", least=14),
    Column("partition", least=8, drop=5),
    Column("state", least=10),
    Column("backlog", least=None, right=True),
    Column("age", least=None, right=True),
    Column("head", least=None, drop=3),
    Column("retry at", least=None, drop=4, is_time=True),
    Column("last outcome", least=12, drop=2, wraps=True),
)
NODE = Column("node", least=6, drop=6)
"""Only in a fleet."""
HELD = Column("held back", least=None, right=True)
"""Only if a lane has deliveries that wait for an older transaction in the database."""


@click.group(cls=CommandGroup)
def lane() -> None:
    """Show the lanes: the in-order queues of registrations."""


@lane.command("list")
@tag_option("Only lanes of instances that carry this tag. Repeat it for more: all must match.")
@table_call_options
def list_(client: Client, tags: tuple[str, ...]) -> None:
    """List the lanes with their state and backlog.

    They are those of the instances that the key reaches. A registration has one lane, or one for each of its
    partitions. The age is that of the head: the oldest pending delivery, which `hookgw delivery cancel`
    skips.
    """
    lanes = client.call("GET", "lane", "list", query={"tag": tags})
    show_silent_nodes(client.silent_nodes)
    if not shown_as_json(lanes):
        lanes.sort(key=lambda one: (one["instance"] is None, one["instance"] or "", one["label"] or ""))
        columns, rows = [*COLUMNS], [[*_row(found)] for found in lanes]
        if any(found.get("held") for found in lanes):
            columns.append(HELD)
            for row, found in zip(rows, lanes, strict=True):
                row.append(found.get("held", 0))
        if any("node" in found for found in lanes):
            columns.append(NODE)
            for row, found in zip(rows, lanes, strict=True):
                row.append(found.get("node"))
        show_table(columns, rows)
        for advice in filter(None, (found.get("advice") for found in lanes)):
            say("", advice, err=True)


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    age, waits_for = found["headAge"], found.get("waitsFor")
    return (
        # A global webhook or the registration for operational events belongs to no instance.
        found.get("instance"),
        found.get("label"),
        # The URL is missing if the registration was just deleted; then only its id is known.
        found.get("url") or found.get("registration"),
        found.get("partition"),
        _("{state}, waits for {what}", state=translated(found["state"]), what=wait_in_words(waits_for))
        if waits_for
        else found["state"],
        found["backlog"],
        None if age is None else short_duration(age),
        found.get("head"),
        found["waitingUntil"],
        found["lastOutcome"] if found["lastError"] is None else found["lastError"],
    )
