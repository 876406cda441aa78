"""``hookgw instance``: the connected accounts."""

from __future__ import annotations

from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.output import json_option, show_fields, show_json, show_table, show_warnings


@click.group()
def instance() -> None:
    """Create, list and delete instances."""


@instance.command()
@click.argument("name")
@click.option(
    "--integration", help="The connector, for example simulator.  [default: none, events come by HTTP]"
)
@click.option("--token", help="The instance's key.  [default: generated]")
@click.option("--webhook", "url", metavar="URL", help="Also have its events posted there.")
@server_options
@json_option
def create(
    client: Client, name: str, integration: str | None, token: str | None, url: str | None, as_json: bool
) -> None:
    """Create an instance and print its key; it is shown only now."""
    fields = {
        "instanceName": name,
        "integration": integration,
        "token": token,
        "webhook": url and {"url": url},
    }
    body = {field: value for field, value in fields.items() if value is not None}
    answer = client.call("POST", "instance", "create", body=body)
    if as_json:
        show_json(answer)
    else:
        show_fields({"instance": name, "integration": integration, "key": answer["hash"], "URL": url})
        show_warnings(answer.get("webhook") or answer)


@instance.command("list")
@server_options
@json_option
def list_(client: Client, as_json: bool) -> None:
    """List the instances that the key may see."""
    found = client.call("GET", "instance", "fetchInstances")
    if as_json:
        show_json(found)
    else:
        show_table(("name", "integration", "state"), map(_row, found))


@instance.command()
@click.argument("name")
@server_options
@json_option
def state(client: Client, name: str, as_json: bool) -> None:
    """Print the state of the connection: open, connecting or close."""
    answer = client.call("GET", "instance", "connectionState", name)
    if as_json:
        show_json(answer)
    else:
        click.echo(answer["instance"]["state"])


@instance.command()
@click.argument("name")
@server_options
def delete(client: Client, name: str) -> None:
    """Delete an instance; what is pending becomes dead letters.

    Its registrations and keys go with it.
    """
    client.call("DELETE", "instance", "delete", name)
    click.echo(f"Deleted {name!r}.")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    return found["name"], found["instance"]["integration"], found["connectionStatus"]
