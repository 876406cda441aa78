"""``hookgw event``: events that hookgw has stored."""

from __future__ import annotations

import click

from hookgw.command.client import Client, server_options
from hookgw.command.job import follow_aloud
from hookgw.command.names import instance_argument
from hookgw.command.output import counted, json_option, say, show_json, show_warnings


@click.group()
def event() -> None:
    """Erase a person's data from the stored events."""


@event.command()
@instance_argument()
@click.argument("remote_jid", metavar="REMOTE_JID")
@click.option("--yes", is_flag=True, help="Erase without asking.")
@server_options
@json_option
def erase(client: Client, instance: str, remote_jid: str, yes: bool, as_json: bool) -> None:
    """Erase a person's data from INSTANCE's events.

    REMOTE_JID is what the network calls the person, in full:

    \b
        hookgw event erase loja1 5511988887777@s.whatsapp.net

    Events that mention it anywhere are removed with their deliveries and attempts, pending or not. This
    cannot be undone.
    """
    if not yes:
        question = f"Erase everything about {remote_jid!r} from {instance!r}? This cannot be undone."
        click.confirm(question, abort=True, err=True)
    erased = client.call("POST", "event", "erase", instance, body={"remoteJid": remote_jid})
    events, deliveries, warnings = erased["events"], erased["deliveries"], erased.get("warnings", [])
    if "job" in erased:
        found = follow_aloud(client, erased["job"], "Erased")
        events, deliveries = found["events"], found["done"]
        warnings = [found["warning"]] if found.get("warning") else []
    if as_json:
        show_json({"events": events, "deliveries": deliveries} | ({"warnings": warnings} if warnings else {}))
    else:
        show_warnings({"warnings": warnings})
        say(f"Erased {counted(events, 'event')} with {counted(deliveries, 'delivery', 'deliveries')}.")
