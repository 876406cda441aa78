"""``hookgw audit``: who changed what, and when."""

from __future__ import annotations

from typing import Any

import click

from hookgw.command.client import Client, table_call_options
from hookgw.command.group import CommandGroup
from hookgw.command.names import instance_argument
from hookgw.command.output import Column, show_next_page, show_table, shown_as_json
from hookgw.command.selection import page_options, time_options

COLUMNS = (
    Column("at", least=None, is_time=True),
    Column("who", least=10, wraps=True),
    Column("from", least=None, drop=3),
    Column("action", least=None),
    Column("subject", least=12, drop=1, wraps=True),
    Column("what", least=16, drop=2, wraps=True),
)


@click.group(cls=CommandGroup)
def audit() -> None:
    """Show who changed what, and when."""


@audit.command("list")
@instance_argument(required=False)
@click.option("--action", help="Only this action, for example key.create, or all of a resource: key.")
@time_options("Only changes since a time, or since 10m, 2h, 3d ago.", "Only changes until then.")
@page_options("Changes per page.")
@table_call_options
def list_(client: Client, instance: str | None, **query: str | int | None) -> None:
    """List changes, newest first.

    With INSTANCE, the changes of that instance, of its registrations and of its keys. Without it, all that
    are within the key's reach.
    """
    page = client.page("entries", "audit", "list", instance, query=query)
    if shown_as_json(page):
        return
    show_table(COLUMNS, map(_row, page["entries"]))
    show_next_page(page)


def _row(entry: dict[str, Any]) -> tuple[object, ...]:
    actor = entry["actor"]
    who = f"{actor['kind']} {actor['name']}" if actor["name"] else actor["kind"]
    if actor["instance"]:
        who = f"{who} of {actor['instance']}"
    if actor.get("person"):
        who = f"{actor['person']}, {who}"
    if actor["via"]:
        who = f"{who}, {actor['via']}"
    subject = "/".join(part for part in (entry["instance"], entry["subject"]) if part)
    what = [_change(change) for change in entry["changes"]]
    what += [f"{name}: {value}" for name, value in entry["details"].items()]
    return entry["at"], who, actor["address"], entry["action"], subject, what


def _change(change: dict[str, Any]) -> str:
    before, after = change["before"], change["after"]
    if before is None and after is None:
        return str(change["field"])
    return f"{change['field']}: {before or '–'} → {after or '–'}"
