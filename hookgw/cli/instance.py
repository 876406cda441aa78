"""``hookgw instance``: the connected accounts."""

from __future__ import annotations

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.job import follow_aloud
from hookgw.cli.output import json_option, show_fields, show_json, show_table, show_warnings


@click.group()
def instance() -> None:
    """Create, list and delete instances (messaging accounts)."""


@instance.command()
@click.argument("name")
@click.option(
    "--integration",
    help="Connector to use, for example simulator.  [default: none; events arrive by HTTP]",
)
@click.option("--token", help="Key of the instance.  [default: generated]")
@click.option("--webhook", "url", metavar="URL", help="Also register this URL for its events.")
@server_options
@json_option
def create(
    client: Client, name: str, integration: str | None, token: str | None, url: str | None, as_json: bool
) -> None:
    """Create an instance and print its key.

    The key is shown once. Store it now.
    """
    webhook = {"url": url} if url else None
    body = {"instanceName": name, "integration": integration, "token": token, "webhook": webhook}
    created = client.call("POST", "instance", "create", body=body)
    if as_json:
        show_json(created)
    else:
        # The API returns the key as "hash", where clients of other gateways look for it.
        show_fields({"instance": name, "integration": integration, "key": created["hash"], "URL": url})
        # The warnings are those of the registration, if there is one.
        show_warnings(created.get("webhook") or created)


@instance.command("list")
@server_options
@json_option
def list_(client: Client, as_json: bool) -> None:
    """List the instances that the key can access, with their backlogs."""
    found = client.call("GET", "instance", "fetchInstances")
    if as_json:
        show_json(found)
        return
    show_table(
        ("name", "integration", "state", "pending", "bytes", "reason"),
        (
            (
                one["name"],
                one["instance"]["integration"],
                one["connectionStatus"],
                f"{one['backlog']['deliveries']:,}",
                f"{one['backlog']['bytes']:,}",
                one.get("disconnectionReason"),
            )
            for one in found
        ),
    )


@instance.command()
@click.argument("name")
@server_options
@json_option
def state(client: Client, name: str, as_json: bool) -> None:
    """Print the connection's state: open, connecting or close."""
    found = client.call("GET", "instance", "connectionState", name)
    if as_json:
        show_json(found)
    else:
        click.echo(found["instance"]["state"])
        if "reason" in found["instance"]:
            click.echo(found["instance"]["reason"], err=True)


@instance.command()
@click.argument("name")
@server_options
def delete(client: Client, name: str) -> None:
    """Delete an instance, its registrations and its keys.

    Its pending deliveries become dead letters. If that takes long, the command shows the progress.
    """
    deleted = client.call("DELETE", "instance", "delete", name)
    if "job" in deleted:
        follow_aloud(client, deleted["job"], "Dead letters")
    click.echo(f"Deleted {name!r}.")
