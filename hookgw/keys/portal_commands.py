"""``hookgw portal``: links that open the dashboard without a key."""

from __future__ import annotations

from typing import Any

import click

from hookgw.command.client import Client, call_options
from hookgw.command.field_options import add_options, body_of, options_of
from hookgw.command.group import CommandGroup
from hookgw.command.names import tag_option, tags_of
from hookgw.command.output import say, shown_as_json
from hookgw.keys.commands import instances_option, rights_option
from hookgw.keys.portal_fields import PORTAL_FIELDS


@click.group(cls=CommandGroup)
def portal() -> None:
    """Make links that show somebody their accounts, without a key."""


@portal.command()
@tag_option("Accounts with this tag, for example tenant=acme. Repeat it: all must match.")
@instances_option("This instance. Repeat it for more.")
@rights_option("What the link allows, such as read,replay,webhooks.  [default: read]")
@add_options(options_of(PORTAL_FIELDS, {}).values())
@call_options
def link(
    client: Client,
    tags: tuple[str, ...],
    instances: tuple[str, ...],
    rights: list[str] | None,
    **fields: Any,
) -> None:
    """Print a link that opens the dashboard once, with these accounts alone.

    Give it to one person. The key that makes it needs the right keys, and
    gives no more than it has.
    """
    body = {
        "tags": tags_of(tags) or None,
        "instances": list(instances) or None,
        "rights": rights,
    } | body_of(PORTAL_FIELDS, fields)
    made = client.call(
        "POST", "portal", "link", body={name: one for name, one in body.items() if one is not None}
    )
    if not shown_as_json(made):
        say(made["url"])
        say(f"It opens once, until {made['expiresAt']}.", err=True)
