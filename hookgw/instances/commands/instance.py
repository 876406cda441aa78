"""``hookgw instance``: the connected accounts."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from hookgw.command.client import Client, call_options, server_options, table_call_options
from hookgw.command.failure import Failed
from hookgw.command.field_options import add_options, body_of, options_of
from hookgw.command.fields import read_secret
from hookgw.command.group import CommandGroup
from hookgw.command.job import follow_aloud
from hookgw.command.names import complete_connectors, instance_argument, tag_option, tags_of
from hookgw.command.output import (
    Column,
    ask_on_terminal,
    say,
    show_fields,
    show_json,
    show_result,
    show_silent_nodes,
    show_table,
    show_warnings,
    shown_as_json,
    wants_json,
    yes_option,
)
from hookgw.command.words import told
from hookgw.instances.commands.connect import choice_options, choose, connect, number_of
from hookgw.instances.fields import CREATION, OPTIONS
from hookgw.kernel.language import gettext as _
from hookgw.records.tags import tag_texts


def _read_options(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Read options in the form ``NAME=TEXT`` or ``NAME:=JSON``; the text ``-`` stands for a line of stdin."""
    options: dict[str, Any] = {}
    for value in values:
        name, equals, content = value.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":").strip()
        # The value is repeated in no message: it may be a secret.
        if not equals or not name:
            raise click.BadParameter(
                _("this is not an option of a connector. Write NAME=TEXT or NAME:=JSON.")
            )
        if name in options:
            raise click.BadParameter(_("{option} is given twice; it takes one value.", option=name))
        if content == "-":
            # The bytes, which are UTF-8: a text stream has the encoding of the terminal, and reads ahead.
            line = sys.stdin.buffer.readline()
            if not line:  # an empty text would be a line of its own
                raise click.BadParameter(_("standard input has no line for {name}.", name=name))
            content = line.decode(errors="surrogateescape").rstrip("\r\n")
        try:
            options[name] = json.loads(content) if is_json else content
        except (ValueError, RecursionError):
            raise click.BadParameter(
                _("the value of {name} is not JSON. For a text, write NAME=TEXT.", name=name)
            ) from None
    return options


_CREATION = (*CREATION, *OPTIONS)
_GIVEN_ELSEWHERE = {one.json: f"--{one.name.replace('_', '-')}" for one in _CREATION if one.option} | {
    "instanceName": "the argument INSTANCE",
    "tags": "--tag",
}
"""How ``create`` takes the fields that no connector can have as an option, by their names in the API."""

option_values = click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="NAME=TEXT",
    callback=_read_options,
    help="Option of the connector; NAME:=JSON for numbers and the like; NAME=- reads the text from standard "
    "input. Repeat it for more.",
)


@click.group(cls=CommandGroup)
def instance() -> None:
    """Create, connect and delete instances (messaging accounts)."""


instance.add_command(connect)


@instance.command()
@click.argument("name", metavar="INSTANCE")
@add_options(
    options_of(
        _CREATION,
        {
            "token": (("--token",), {"callback": read_secret}),
            "integration": (("--integration",), {"shell_complete": complete_connectors}),
        },
    ).values()
)
@tag_option("Tag of the instance, for example tenant=acme. Repeat it for more.")
@option_values
@call_options
def create(
    client: Client,
    name: str,
    webhook: str | None,
    tags: tuple[str, ...],
    options: dict[str, Any],
    **fields: Any,
) -> None:
    """Create an instance and print its key.

    The key is shown once. Store it now.
    """
    for option, place in _GIVEN_ELSEWHERE.items():
        if option in options:
            raise click.UsageError(
                _(
                    "{option} is not an option of a connector. Use {place} instead.",
                    option=option,
                    place=place,
                )
            )
    fields |= {"name": name, "webhook": {"url": webhook} if webhook else None, "tags": tags_of(tags) or None}
    body = {**options, **body_of(_CREATION, fields)}
    created = client.call("POST", "instance", "create", body=body)
    if not shown_as_json(created):
        # The API returns the key as "hash", where clients of other gateways look for it.
        show_fields(
            {
                "instance": name,
                "integration": fields["integration"],
                "key": created["hash"],
                "URL": webhook,
                "ingest URL": created.get("ingestUrl"),
            }
        )
        # The warnings are those of the registration, if there is one.
        show_warnings(created.get("webhook") or created)


@instance.command("list")
@choice_options
@table_call_options
def list_(client: Client, **choice: Any) -> None:
    """List the instances of the key, with accounts and backlogs.

    \b
        hookgw instance list --state close --tag tenant=acme --search 5511
    """
    found = choose(client, **choice)
    show_silent_nodes(client.silent_nodes)
    if shown_as_json(found):
        return
    show_table(
        (
            Column("name", least=16),
            Column("integration", least=10, drop=2),
            Column("state", least=None),
            Column("number", least=None, drop=4),
            Column("profile", least=10, drop=5),
            Column("pending", least=None, right=True),
            Column("bytes", least=None, drop=6, right=True),
            Column("since", least=None, drop=3, is_time=True),
            Column("tags", least=12, drop=7, wraps=True),
            Column("reason", drop=1, wraps=True),
        ),
        (
            (
                one["name"],
                one["instance"]["integration"],
                one["connectionStatus"],
                number_of(one),
                one.get("profileName"),
                one["backlog"]["deliveries"],
                one["backlog"]["bytes"],
                one.get("disconnectionAt") if one["connectionStatus"] == "close" else None,
                " ".join(tag_texts(one.get("tags", {}))) or None,
                one.get("disconnectionReason"),
            )
            for one in found
        ),
    )


@instance.command()
@instance_argument("name")
@call_options
def state(client: Client, name: str) -> None:
    """Print the connection's state: open, connecting or close."""
    found = client.call("GET", "instance", "connectionState", name)
    if not shown_as_json(found):
        say(found["instance"]["state"])
        if "reason" in found["instance"]:
            say(told(found["instance"]["reason"]), err=True)


@instance.command("ingest-url")
@instance_argument("name")
@click.option("--rotate", is_flag=True, help="Make a new URL first; the old one ends at once.")
@call_options
def ingest_url(client: Client, name: str, rotate: bool) -> None:
    """Print the URL at which the network calls hookgw for an instance.

    Its last part is a secret.
    """
    if rotate:
        found = client.call("POST", "instance", "rotateIngest", name)
    else:
        listed = client.call("GET", "instance", "fetchInstances", query={"instanceName": name})
        if not listed:
            raise Failed(_("The instance {name!r} does not exist.", name=name))
        if listed[0].get("connector") is None:
            raise Failed(
                _("The instance {name!r} has no connector, so no network calls hookgw for it.", name=name)
            )
        if "ingestUrl" not in listed[0]:
            raise Failed(
                _("The connector of the instance {name!r} takes no requests of its network.", name=name)
            )
        found = {"ingestUrl": listed[0]["ingestUrl"]}
    if shown_as_json(found):
        return
    say(found["ingestUrl"])
    if found["ingestUrl"].startswith("/"):
        say(_("This is a path: set server.public_url to have the whole URL."), err=True)


@instance.command()
@instance_argument("name")
@option_values
@click.option("--unset", multiple=True, metavar="NAME", help="Option to remove. Repeat it for more.")
@call_options
def options(client: Client, name: str, options: dict[str, Any], unset: tuple[str, ...]) -> None:
    """Print the options of the instance's connector, or change some.

    A change restarts the connector, if it runs. Secrets are shown as ********.
    """
    for twice in options.keys() & {*unset}:
        raise click.UsageError(_("{option} is given twice; it takes one value.", option=twice))
    change = {**options, **dict.fromkeys(unset)}
    if change:
        # Not as `body`, which leaves out fields that are None: here these remove an option.
        found = client.call("PATCH", "instance", "options", name, content=json.dumps(change).encode())
    else:
        found = client.call("GET", "instance", "options", name)
    if shown_as_json(found):
        return
    if not found["options"] and not change:
        say(_("No options are set."), err=True)
    show_fields(
        {
            option: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for option, value in found["options"].items()
        },
        are_data=True,
    )
    show_warnings(found)


@instance.command()
@instance_argument("name")
@tag_option("Tag that it has from now on, for example tenant=acme. Repeat it for more.")
@click.option("--none", "removes", is_flag=True, help="Remove all tags.")
@call_options
def tags(client: Client, name: str, tags: tuple[str, ...], removes: bool) -> None:
    """Print the instance's tags, or replace all of them.

    A change needs the right operate, which an instance's own key does not have.

    \b
        hookgw instance tags loja1 --tag tenant=acme --tag plan=gold
    """
    if tags and removes:
        raise click.UsageError(_("Use --tag or --none, not both."))
    if tags or removes:
        found = client.call("PATCH", "instance", "tags", name, body={"tags": tags_of(tags)})["tags"]
    else:
        listed = client.call("GET", "instance", "fetchInstances", query={"instanceName": name})
        if not listed:
            raise Failed(_("The instance {name!r} does not exist.", name=name))
        found = listed[0].get("tags", {})
    if wants_json():
        show_json(found)
    elif not found:
        say(_("It has no tags."), err=True)
    else:
        show_fields(found, are_data=True)


@instance.command()
@instance_argument("name")
@call_options
def logout(client: Client, name: str) -> None:
    """End the instance's connection. It stays ended until `hookgw instance connect`."""
    done = client.call("DELETE", "instance", "logout", name)
    show_result(done, _("Logged out {name!r}.", name=name))


@instance.command()
@instance_argument("name")
@click.option(
    "--option",
    "-o",
    "settings",
    multiple=True,
    metavar="NAME:=JSON",
    callback=_read_options,
    help="Setting to change, for example rejectCall:=true or msgCall='No calls'. Repeat it for more.",
)
@call_options
def settings(client: Client, name: str, settings: dict[str, Any]) -> None:
    """Print the settings of the instance's account, or change some."""
    warnings = {}
    if settings:
        warnings = client.call("POST", "settings", "set", name, body=settings)
        found = warnings["settings"]["settings"]
    else:
        found = client.call("GET", "settings", "find", name)
    if shown_as_json(warnings or found):
        return
    show_fields(found, are_data=True)
    show_warnings(warnings)


@instance.command()
@instance_argument("name")
@call_options
def restart(client: Client, name: str) -> None:
    """Restart the instance's connection; print its state."""
    found = client.call("POST", "instance", "restart", name)
    show_result(found, found["instance"]["state"])


@instance.command()
@instance_argument("name")
@yes_option
@server_options
def delete(client: Client, name: str, yes: bool) -> None:
    """Delete an instance, its registrations and its keys.

    On a terminal, it asks first. Its pending deliveries become dead letters. If that takes long, the command
    shows the progress. Its account stays linked at its network: to unlink it, log it out first.
    """
    question = _("Delete {name!r}, its registrations and its keys? This cannot be undone.", name=name)
    ask_on_terminal(question, is_sure=yes)
    deleted = client.call("DELETE", "instance", "delete", name)
    if "job" in deleted:
        follow_aloud(client, deleted["job"], "Dead letters")
    say(_("Deleted {name!r}.", name=name))
