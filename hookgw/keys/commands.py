"""``hookgw key``: the keys of an instance, and the global keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from hookgw.command.client import Client, call_options, server_options, table_call_options
from hookgw.command.field_options import add_options, body_of, options_of
from hookgw.command.fields import read_moment
from hookgw.command.group import CommandGroup
from hookgw.command.names import complete_instances, read_name, tag_option, tags_of
from hookgw.command.output import (
    Column,
    ask_on_terminal,
    say,
    show_fields,
    show_table,
    shown_as_json,
    yes_option,
)
from hookgw.kernel.language import gettext as _
from hookgw.keys.fields import FIELDS
from hookgw.records.api_keys import Right

CREATED = {
    "name": "name",
    "key": "key",
    "instances": "reach",
    "rights": "can",
    "expiresAt": "expires",
}
"""The headings, by the field of a key."""
MOST_NAMED = 10
"""Instances of a key that are named; ``--json`` has all."""
LISTED = {
    "name": Column("name", least=12),
    "state": Column("state", least=None),
    "reach": Column("reach", least=16),
    "rights": Column("can", least=16),
    "createdAt": Column("created", least=None, is_time=True),
    "expiresAt": Column("expires", least=None, is_time=True),
    "origin": Column("created with", drop=2),
    "current": Column("this key", least=None, drop=1),
}
"""The columns of a list, by the field of a key."""


@click.group(cls=CommandGroup)
def key() -> None:
    """Create, list and revoke API keys.

    With --instance, the commands are about the keys of that instance, otherwise about those of none.
    """


instance_option = click.option(
    "--instance",
    callback=read_name,
    shell_complete=complete_instances,
    help="Keys of this instance.  [default: those of no instance]",
)


def instances_option(meaning: str) -> Callable[..., Any]:
    """Add an option that names instances, as ``instances``."""
    return click.option(
        "--instance",
        "instances",
        multiple=True,
        callback=read_name,
        shell_complete=complete_instances,
        help=meaning,
    )


def rights_option(meaning: str) -> Callable[..., Any]:
    """Add an option that names rights, as ``rights``: a list, or ``None`` for none."""
    return click.option(
        "--can", "rights", multiple=True, metavar="RIGHTS", callback=_read_rights, help=meaning
    )


def _read_rights(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    return [word.strip() for one in given for word in one.split(",") if word.strip()] or None


@key.command()
@click.argument("name", callback=read_name)
@instances_option("The key belongs to this instance; repeated, it reaches these instances.")
@tag_option("The key reaches the instances with this tag, also those made later; repeated, with all of them.")
@rights_option(
    f"What the key may do, separated by commas: {', '.join(Right)}, receive:LABEL.  "
    "[default: what your key may]"
)
@add_options(
    options_of(
        FIELDS,
        {
            "expires_in": (("--expires-in", "--expires"), {}),
            "expires_at": (("--expires-at",), {"callback": read_moment}),
        },
    ).values()
)
@call_options
def create(
    client: Client,
    name: str,
    instances: tuple[str, ...],
    tags: tuple[str, ...],
    **fields: Any,
) -> None:
    """Create a key and print it.

    The key is shown once. Store it now.

    \b
    For a customer:
    hookgw key create acme --tag tenant=acme --can read,replay --expires 90d
    """
    if instances and tags:
        raise click.UsageError(_("Give --instance or --tag, not both."))
    named = list(dict.fromkeys(instances))
    # A key that belongs to its instance goes with it; one for several is a key of its own.
    own = named[0] if len(named) == 1 else None
    reached = {"instances": named if len(named) > 1 else None, "tags": tags_of(tags) or None}
    given = {"name": name, **reached, **fields}
    created = client.call("POST", "key", "create", own, body=body_of(FIELDS, given))
    if not shown_as_json(created):
        shown = {**created, "instances": _reach(created), "rights": ", ".join(created.get("rights", ()))}
        show_fields({heading: shown.get(field) for field, heading in CREATED.items()})


def _reach(one: Mapping[str, Any]) -> str:
    tags, instances = one.get("tags"), one.get("instances")
    words = [f"{name}={value}" for name, value in (tags or {}).items()]
    if instances is not None:
        words.append(", ".join(instances[:MOST_NAMED]) or "no instance that exists")
        if len(instances) > MOST_NAMED:
            words.append(f"and {len(instances) - MOST_NAMED} more")
    return " ".join(words) or "everything"


@key.command("list")
@instance_option
@table_call_options
def list_(client: Client, instance: str | None) -> None:
    """List the names, states, reach and rights of keys.

    The keys themselves cannot be shown again: hookgw stores only their hashes.
    """
    found = client.call("GET", "key", "list", instance)
    if not shown_as_json(found):
        shown = ({**one, "reach": _reach(one), "rights": ", ".join(one.get("rights", ()))} for one in found)
        rows = ([one.get(field) for field in LISTED] for one in shown)
        show_table(tuple(LISTED.values()), rows)


@key.command()
@click.argument("name", callback=read_name)
@instance_option
@yes_option
@server_options
def revoke(client: Client, name: str, instance: str | None, yes: bool) -> None:
    """Revoke a key. This takes effect at once. On a terminal, it asks first."""
    ask_on_terminal(_("Revoke {name!r}? Whoever uses it gets 401 at once.", name=name), is_sure=yes)
    client.call("DELETE", "key", "delete", instance, name)
    say(_("Revoked {name!r}.", name=name))
