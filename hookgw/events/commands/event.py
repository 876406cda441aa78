"""``hookgw event``: the log of events, and what removes a person from it."""

from __future__ import annotations

import click

from hookgw.command.client import Client, call_options, table_call_options
from hookgw.command.group import CommandGroup
from hookgw.command.job import follow_aloud
from hookgw.command.names import complete_kinds, instance_argument
from hookgw.command.output import (
    Column,
    data_text,
    say,
    show_fields,
    show_next_page,
    show_table,
    show_warnings,
    shown_as_json,
)
from hookgw.command.selection import page_options, selection_options, time_options
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext
from hookgw.records.deliveries import DeliveryState

_LISTED = {
    "acceptedAt": Column("accepted", least=None, is_time=True),
    "event": Column("kind", least=12),
    "id": Column("id", least=None),
    "data": Column("data", least=16, drop=1),
}
"""The columns of the list, by the field of an event."""
_DELIVERED = {
    "id": Column("delivery", least=None),
    "state": Column("state", least=None),
    "label": Column("label", least=8),
    "finishedAt": Column("finished", least=None, is_time=True),
    "reason": Column("reason", least=16, wraps=True),
}


@click.group(cls=CommandGroup)
def event() -> None:
    """List, find and erase what is in the event log."""


@event.command()
@instance_argument()
@click.argument("remote_jid", metavar="REMOTE_JID")
@click.option("--yes", is_flag=True, help="Erase without asking.")
@call_options
def erase(client: Client, instance: str, remote_jid: str, yes: bool) -> None:
    """Erase a person's data from INSTANCE's events.

    REMOTE_JID is what the network calls the person, in full:

    \b
        hookgw event erase loja1 5511988887777@s.whatsapp.net

    Events that mention it anywhere are removed with their deliveries and attempts, pending or not. This
    cannot be undone.
    """
    if not yes:
        question = _(
            "Erase everything about {remote_jid!r} from {instance!r}? This cannot be undone.",
            remote_jid=remote_jid,
            instance=instance,
        )
        click.confirm(question, abort=True, err=True)
    erased = client.call("POST", "event", "erase", instance, body={"remoteJid": remote_jid})
    events, deliveries, warnings = erased["events"], erased["deliveries"], erased.get("warnings", [])
    if "job" in erased:
        found = follow_aloud(client, erased["job"], "Erased")
        events, deliveries = found["events"], found["done"]
        warnings = [found["warning"]] if found.get("warning") else []
    if not shown_as_json(
        {"events": events, "deliveries": deliveries} | ({"warnings": warnings} if warnings else {})
    ):
        show_warnings({"warnings": warnings})
        say(
            _(
                "Erased {things} with {counted2}.",
                things=ngettext("{n} event", "{n} events", events),
                counted2=ngettext("{n} delivery", "{n} deliveries", deliveries),
            )
        )


@event.command("list")
@selection_options
@click.option(
    "--state",
    type=click.Choice([state.value for state in DeliveryState]),
    help="Only events with a delivery in this state.",
)
@click.option("--kind", shell_complete=complete_kinds, help="Only events of this kind.")
@time_options()
@click.option("--chat", help="Only events about this chat: the network's name of it, or a number.")
@click.option("--sender", help="Only events by this sender: the network's name, or a number.")
@click.option("--id", "id", help="Only events about the message with this id of the network.")
@click.option("--order", type=click.Choice(["newest", "oldest"]), help="Which come first; newest by default.")
@page_options("Events per page.")
@table_call_options
def list_(client: Client, instance: str | None, tags: tuple[str, ...], **query: str | int | None) -> None:
    """List events, whether a webhook wanted them or not.

    What is said of deliveries finds events with at least one such delivery.
    """
    if instance is not None and (query["instances"] is not None or tags):
        raise click.UsageError(_("Name an INSTANCE, or several with --instances or --tag."))
    columns = _LISTED if instance is not None else {"instance": Column("instance", least=8), **_LISTED}
    page = client.page("events", "event", "list", instance, query={**query, "tag": tags})
    if shown_as_json(page):
        return
    rows = (
        [data_text(found) if name == "data" else found[name] for name in columns] for found in page["events"]
    )
    show_table(tuple(columns.values()), rows)
    # To standard error, so that a pipe gets only the table.
    if page.get("indexedUntil"):
        say(
            _("Events accepted after {page} are not listed yet. Try again soon.", page=page["indexedUntil"]),
            err=True,
        )
    if page.get("searchedUntil"):
        say(_("The search came to events of {page}.", page=page["searchedUntil"]), err=True)
    show_next_page(page)
    if not page["cursor"]:
        say(_("The log is complete since {page}.", page=page["from"]), err=True)


@event.command()
@instance_argument()
@click.argument("event_id", metavar="ID")
@table_call_options
def find(client: Client, instance: str, event_id: str) -> None:
    """Show an event and the deliveries that it made."""
    found = client.call("GET", "event", "find", instance, event_id)
    if shown_as_json(found):
        return
    one = found["event"]
    show_fields(
        {
            "event": one["id"],
            "kind": one["event"],
            "happened": one["date_time"],
            "accepted": one["acceptedAt"],
            "sender": one["sender"],
            # As JSON on one line, so that it can be copied into `hookgw emit --data`.
            "data": data_text(one),
        }
    )
    say("")
    if found["deliveries"]:
        rows = ([delivery[name] for name in _DELIVERED] for delivery in found["deliveries"])
        show_table(tuple(_DELIVERED.values()), rows)
    else:
        say(found["note"])
