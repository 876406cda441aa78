"""``hookgw key``: the keys of an instance, and the global ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.output import json_option, show_fields, show_json, show_table

SHOWN = {"name": "name", "instance": "instance", "key": "key", "expiresAt": "expires"}


@click.group()
def key() -> None:
    """Create, list and revoke keys.

    They are the global ones, or with --instance those of an instance.
    """


def instance_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option ``--instance``."""
    return click.option("--instance", help="Whose keys.  [default: the global ones]")(command)


def _path(verb: str, instance: str | None, *rest: str) -> tuple[str, ...]:
    return ("key", verb, *rest) if instance is None else ("key", verb, instance, *rest)


@key.command()
@click.argument("name")
@instance_option
@click.option("--expires-in", metavar="DURATION", help="How long it opens anything, for example 30d.")
@click.option("--expires-at", metavar="TIME", help="Until when, for example 2026-12-31T00:00:00Z.")
@server_options
@json_option
def create(
    client: Client,
    name: str,
    instance: str | None,
    expires_in: str | None,
    expires_at: str | None,
    as_json: bool,
) -> None:
    """Create a key and print it; it is shown only now."""
    fields = {"name": name, "expiresIn": expires_in, "expiresAt": expires_at}
    body = {field: value for field, value in fields.items() if value is not None}
    answer = client.call("POST", *_path("create", instance), body=body)
    if as_json:
        show_json(answer)
    else:
        show_fields({shown: answer.get(field) for field, shown in SHOWN.items()})


@key.command("list")
@instance_option
@server_options
@json_option
def list_(client: Client, instance: str | None, as_json: bool) -> None:
    """List the keys; nobody can show the keys themselves again."""
    found = client.call("GET", *_path("list", instance))
    if as_json:
        show_json(found)
    else:
        show_table(("name", "state", "created", "expires", "made from", "in use here"), map(_row, found))


@key.command()
@click.argument("name")
@instance_option
@server_options
def revoke(client: Client, name: str, instance: str | None) -> None:
    """Revoke a key: it opens nothing from now on."""
    client.call("DELETE", *_path("delete", instance, name))
    click.echo(f"Revoked {name!r}.")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    fields = ("name", "state", "createdAt", "expiresAt", "origin", "current")
    return tuple(found.get(field) for field in fields)
