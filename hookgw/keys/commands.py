"""``hookgw key``: the keys of an instance, and the global keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hookgw.command.client import Client, server_options
from hookgw.command.field_options import add_options, body_of, options_of
from hookgw.command.fields import read_moment
from hookgw.command.names import complete_instances, read_name
from hookgw.command.output import Column, json_option, say, show_fields, show_json, show_table, table_options
from hookgw.keys.fields import FIELDS

CREATED = {
    "name": "name",
    "instance": "instance",
    "key": "key",
    **{one.json: one.heading for one in FIELDS[1:] if one.shows},
}
"""The headings, by the field of a key."""
LISTED = {
    "name": Column("name", least=12),
    "state": Column("state", least=None),
    "createdAt": Column("created", least=None, is_time=True),
    "expiresAt": Column("expires", least=None, is_time=True),
    "origin": Column("created with", drop=2),
    "current": Column("this key", least=None, drop=1),
}
"""The columns of a list, by the field of a key."""


@click.group()
def key() -> None:
    """Create, list and revoke API keys.

    With --instance, the commands are about the keys of that instance, otherwise about the global keys.
    """


def instance_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--instance",
        callback=read_name,
        shell_complete=complete_instances,
        help="Keys of this instance.  [default: the global keys]",
    )(command)


@key.command()
@click.argument("name", callback=read_name)
@instance_option
@add_options(options_of(FIELDS, {"expires_at": (("--expires-at",), {"callback": read_moment})}).values())
@server_options
@json_option
def create(client: Client, name: str, instance: str | None, as_json: bool, **fields: Any) -> None:
    """Create a key and print it.

    The key is shown once. Store it now.
    """
    body = body_of(FIELDS, {"name": name, **fields})
    created = client.call("POST", "key", "create", instance, body=body)
    if as_json:
        show_json(created)
    else:
        show_fields({heading: created.get(field) for field, heading in CREATED.items()})


@key.command("list")
@instance_option
@server_options
@table_options
def list_(client: Client, instance: str | None, wide: bool, as_json: bool) -> None:
    """List the names and states of keys.

    The keys themselves cannot be shown again: hookgw stores only their hashes.
    """
    found = client.call("GET", "key", "list", instance)
    if as_json:
        show_json(found)
    else:
        rows = ([one.get(field) for field in LISTED] for one in found)
        show_table(tuple(LISTED.values()), rows, wide=wide)


@key.command()
@click.argument("name", callback=read_name)
@instance_option
@server_options
def revoke(client: Client, name: str, instance: str | None) -> None:
    """Revoke a key. This takes effect at once."""
    client.call("DELETE", "key", "delete", instance, name)
    say(f"Revoked {name!r}.")
