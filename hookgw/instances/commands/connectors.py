"""``hookgw connectors``: what instances can be connected with."""

from __future__ import annotations

import json
from typing import Any

import click

from hookgw.command.client import Client, table_call_options
from hookgw.command.failure import Failed
from hookgw.command.names import complete_connectors
from hookgw.command.output import Column, say, show_json, show_table, shown_as_json, wants_json
from hookgw.kernel.language import gettext as _

_CONNECTORS = (
    Column("name", least=None),
    Column("options", least=16, wraps=True),
    Column("calls", least=16, drop=1, wraps=True),
    Column("ingest URL", least=None, drop=3),
    Column("integrations", least=10, drop=2, wraps=True),
)
_OPTIONS = (
    Column("option", least=None),
    Column("default", least=8, wraps=True),
    Column("meaning", least=24, wraps=True),
)


@click.command()
@click.argument("name", metavar="[CONNECTOR]", required=False, shell_complete=complete_connectors)
@click.option("--find", is_flag=True, help="Look for servers of connectors beside the gateway.")
@table_call_options
def connectors(client: Client, name: str | None, find: bool) -> None:
    """List the connectors, or the options of one of them.

    Needs a global key. A connector is the --integration of an instance; its options are those of
    `hookgw instance create -o`.

    With --find, the gateway asks port 3000 of waha, gowa and 127.0.0.1, and port 8080 of evolution and
    127.0.0.1, without credentials, and prints what to add to its configuration.
    """
    if find:
        _find(client, name)
        return
    found = client.call("GET", "connector", "list")
    if name is not None:
        found = [one for one in found if one["name"] == name]
        if not found:
            raise Failed(_("There is no connector {name!r}. `hookgw connectors` lists them.", name=name))
    if wants_json():
        show_json(found if name is None else found[0])
    elif name is None:
        show_table(
            _CONNECTORS,
            (
                (
                    one["name"],
                    " ".join((one["optionsSchema"] or {}).get("properties", {})),
                    " ".join(one["calls"]),
                    "yes" if one["takesRequests"] else None,
                    " ".join(one["integrations"]),
                )
                for one in found
            ),
        )
    elif found[0]["optionsSchema"] is None:
        say(_("The connector {name} describes no options: it takes any.", name=name), err=True)
    else:
        show_table(_OPTIONS, _options(found[0]["optionsSchema"]))


def _find(client: Client, name: str | None) -> None:
    servers = client.call("POST", "connector", "find")
    servers = [one for one in servers if name in (None, one["connector"])]
    if shown_as_json(servers):
        return
    if not servers:
        say(_("None of the usual places has a server of a connector. docs/networks says how to start one."))
    for one in servers:
        say(f"{one['url']}: {one['connector']} {one['version'] or ''}".rstrip())
        if one["isListed"]:
            say("  " + _("The configuration lists it already."), "")
        else:
            say("  " + _("Add this to the configuration, and start hookgw again:"), "")
            say(*(f"    {line}" for line in one["configuration"].split("\n")), "")


def _options(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for option, described in schema.get("properties", {}).items():
        described = described if isinstance(described, dict) else {}
        default = described.get("default")
        shown = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
        if option in schema.get("required", ()):
            shown = "required"
        meaning = described.get("description", "")
        if choices := described.get("enum"):
            meaning = f"{meaning} One of: {', '.join(map(str, choices))}."
        if described.get("writeOnly"):
            meaning = f"{meaning} A secret."
        if described.get("x-operator"):
            meaning = f"{meaning} Only a global key changes it."
        rows.append((option, "" if default is None and shown != "required" else shown, meaning.strip()))
    return rows
