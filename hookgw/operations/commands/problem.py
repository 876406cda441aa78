"""``hookgw problem``: what is wrong now, by its cause."""

from __future__ import annotations

from typing import Any

import click

from hookgw.command.client import Client, server_options, table_call_options
from hookgw.command.group import CommandGroup
from hookgw.command.output import Column, say, show_table, shown_as_json
from hookgw.kernel.language import gettext as _

COLUMNS = (
    Column("id", least=None),
    Column("problem", least=16, wraps=True),
    Column("loss", least=None),
    Column("webhooks", least=None, right=True, drop=2),
    Column("accounts", least=None, right=True, drop=3),
    Column("pending", least=None, right=True),
    Column("since", least=None, is_time=True, drop=1),
    Column("muted until", least=None, is_time=True, drop=1),
)


@click.group(cls=CommandGroup)
def problem() -> None:
    """Show what is wrong now, by its cause, and mute it."""


@problem.command("list")
@table_call_options
def list_(client: Client) -> None:
    """List what is wrong now, what loses most first.

    A dead receiver of many webhooks is one problem. `hookgw doctor` follows the way of an event, and says
    what to do.
    """
    page = client.call("GET", "problem", "list")
    if shown_as_json(page):
        return
    show_table(COLUMNS, map(_row, page["problems"]))
    if page["others"]:
        say(_("And {count} more.", count=page["others"]), err=True)


@problem.command()
@click.argument("problem_id", metavar="ID")
@click.option("--reason", required=True, help="Why nobody needs to look at it. The audit keeps it.")
@click.option(
    "--until",
    default="7d",
    show_default=True,
    metavar="TIME",
    help="A duration from now, or an RFC 3339 time.",
)
@server_options
def mute(client: Client, problem_id: str, reason: str, until: str) -> None:
    """Mute a problem until a time.

    Needs a global key. Alerts tell it all the same: they have rules of their own.
    """
    client.call("POST", "problem", "mute", problem_id, body={"reason": reason, "until": until})
    say(_("Muted."))


@problem.command()
@click.argument("problem_id", metavar="ID")
@server_options
def unmute(client: Client, problem_id: str) -> None:
    """Show a muted problem again. Needs a global key."""
    client.call("POST", "problem", "unmute", problem_id)
    say(_("Shown again."))


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    first, mute = found["problems"][0], found["mute"]
    where = "/".join(first[name] for name in ("instance", "label", "plugin", "node") if name in first)
    return (
        found["id"],
        found["cause"] or f"{where}: {first['why']}".removeprefix(": "),
        found["loss"],
        found["webhooks"],
        found["instances"],
        found["pending"],
        found["since"],
        mute and mute["until"],
    )
