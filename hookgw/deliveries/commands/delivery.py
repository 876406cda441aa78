"""``hookgw delivery``: what happened to events, and how to send them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from hookgw.command.client import Client, call_options, table_call_options
from hookgw.command.field_options import add_options
from hookgw.command.fields import read_json
from hookgw.command.group import CommandGroup
from hookgw.command.job import follow_aloud
from hookgw.command.names import complete_kinds, instance_argument
from hookgw.command.output import (
    Column,
    data_text,
    say,
    show_fields,
    show_next_page,
    show_result,
    show_table,
    shown_as_json,
    wants_json,
)
from hookgw.command.selection import finished_option, page_options, selection_options, time_options
from hookgw.command.words import printable
from hookgw.deliveries.commands.replay import replay
from hookgw.deliveries.commands.selection import body_of, count_of, kinds_option, named, show_counts
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext
from hookgw.records.deliveries import DeliveryState
from hookgw.webhooks.commands import show_attempt

LISTED = {
    "id": Column("id", least=None),
    "state": Column("state", least=None),
    "kind": Column("kind", least=12),
    "label": Column("label", least=8, drop=2),
    "attempts": Column("attempts", least=None, drop=3, right=True),
    "acceptedAt": Column("accepted", least=None, is_time=True),
    "eventId": Column("event", least=None, drop=4),
}
LISTED_DEAD = {
    "id": Column("id", least=None),
    "kind": Column("kind", least=12),
    "label": Column("label", least=8, drop=2),
    "attempts": Column("attempts", least=None, drop=3, right=True),
    "finishedAt": Column("finished", least=None, is_time=True),
    "reason": Column("reason", least=16, wraps=True),
    "answer": Column("answer", least=16, drop=5, wraps=True),
}
"""The columns of the lists, by the field of a delivery."""

SHOWN = 200
"""Characters of an answer in a list."""


@click.group(cls=CommandGroup)
def delivery() -> None:
    """List, inspect, cancel and resend deliveries."""


delivery.add_command(replay)


list_options = add_options(
    (
        selection_options,
        click.option("--kind", shell_complete=complete_kinds, help="Only events of this kind."),
        time_options(),
        finished_option,
        page_options("Deliveries per page."),
    )
)


@delivery.command("list")
@click.option("--state", type=click.Choice([state.value for state in DeliveryState]), help="Only this state.")
@list_options
@table_call_options
def list_(client: Client, instance: str | None, tags: tuple[str, ...], **query: str | int | None) -> None:
    """List deliveries of INSTANCE, or of several, newest first."""
    _list(client, instance, tags, query, LISTED)


@delivery.command()
@list_options
@table_call_options
def dead(client: Client, instance: str | None, tags: tuple[str, ...], **query: str | int | None) -> None:
    """List dead letters with the reason, newest first."""
    _list(client, instance, tags, {"state": "dead", **query}, LISTED_DEAD)


def _list(
    client: Client,
    instance: str | None,
    tags: tuple[str, ...],
    query: Mapping[str, str | int | None],
    columns: Mapping[str, Column],
) -> None:
    if instance is not None and (query["instances"] is not None or tags):
        raise click.UsageError(_("Name an INSTANCE, or several with --instances or --tag."))
    if instance is None:
        columns = {"instance": Column("instance", least=8), **columns}
    page = client.page("deliveries", "delivery", "list", instance, query={**query, "tag": tags})
    if shown_as_json(page):
        return
    rows = (
        [_answer(found.get("lastAttempt")) if name == "answer" else found[name] for name in columns]
        for found in page["deliveries"]
    )
    show_table(tuple(columns.values()), rows)
    show_next_page(page)


def _answer(attempt: dict[str, Any] | None) -> str | None:
    """Return the start of what the receiver said, on one line; ``None`` if it said nothing."""
    said = " ".join((attempt or {}).get("answer", "").split())
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


@delivery.command()
@instance_argument()
@click.argument("delivery_id", metavar="ID")
@table_call_options
def show(client: Client, instance: str, delivery_id: str) -> None:
    """Show a delivery with all its attempts.

    ID is the delivery's id, or its event's id.
    """
    found = client.call("GET", "delivery", "find", instance, delivery_id)
    if shown_as_json(found):
        return
    show_fields(
        {
            "delivery": found["id"],
            "event": found["eventId"],
            "kind": found["kind"],
            "URL": found["url"],
            "label": found["label"],
            "state": found["state"],
            "reason": found["reason"],
            "accepted": found["acceptedAt"],
            "finished": found["finishedAt"],
            "next attempt": found["nextAttemptAt"],
            # As JSON on one line, so that it can be copied into `hookgw emit --data`.
            "data": data_text(found["event"]),
        }
    )
    if found["attempts"]:
        say("")
        fields: tuple[str, ...] = ("number", "at", "duration", "outcome", "status")
        columns = [
            Column("attempt", least=None, right=True),
            Column("at", least=None, is_time=True),
            Column("ms", least=None, right=True, drop=1),
            Column("outcome", least=None),
            Column("status", least=None, drop=2),
            Column("error", least=20, drop=3, wraps=True),
            Column("answer", least=20, wraps=True),
        ]
        # Nearly always it is the URL above.
        if any(one.get("url") not in (None, found["url"]) for one in found["attempts"]):
            fields = (*fields, "url")
            columns.insert(-2, Column("URL", least=20, wraps=True))
        show_table(
            columns,
            (
                [one[name] for name in fields] + [one["error"], " ".join(one["answer"].split())]
                for one in found["attempts"]
            ),
        )


@delivery.command()
@instance_argument()
@click.argument("delivery_id", metavar="ID")
@click.option(
    "--data",
    metavar="JSON",
    callback=read_json,
    help="Send a new event with this data instead: JSON, @FILE, or - for standard input.",
)
@click.option("--url", metavar="URL", help="Send the event once to this URL, now, outside the lane.")
@call_options
def resend(
    client: Client, instance: str, delivery_id: str, data: msgspec.Raw | None, url: str | None
) -> None:
    """Send a finished delivery again.

    ID is the delivery's id, or its event's id. The delivery goes to the end of its lane and keeps its
    webhook-id. With --data, it is a new event, whose id is made from the former one. With --url, it goes out
    without the headers and the secret of the registration; exit code 0 if it is delivered.
    """
    if data is not None and url is not None:
        raise click.UsageError(_("--data and --url cannot be given together."))
    if url is not None:
        call = client.call("POST", "delivery", "resend", instance, delivery_id, body={"url": url})
        show_attempt(call)
        return
    content = None if data is None else msgspec.json.encode({"data": data})
    queued = client.call("POST", "delivery", "resend", instance, delivery_id, content=content)
    # With data, it is a new event, which has a delivery for each registration that wants it.
    id_, url = queued.get("id", delivery_id), printable(queued["url"])
    show_result(queued, _("{id} will be sent again to {url}", id=id_, url=url))


@delivery.command()
@selection_options
@click.argument("delivery_id", metavar="[ID]", required=False)
@kinds_option
@time_options()
@click.option("--dry-run", is_flag=True, help="Only count them, by instance and label.")
@click.option("--yes", is_flag=True, help="Cancel without asking.")
@call_options
def cancel(
    client: Client,
    instance: str | None,
    instances: str | None,
    delivery_id: str | None,
    dry_run: bool,
    yes: bool,
    **choice: Any,
) -> None:
    """Cancel pending deliveries; they become dead letters.

    \b
        hookgw delivery cancel loja1 --label crm --until 1h
        hookgw delivery cancel loja1 --kind PRESENCE_UPDATE
        hookgw delivery cancel --instances 'loja*' --host crm.example.com
        hookgw delivery cancel --tag tenant=acme --dry-run

    Attempts in flight are not cut off. To send cancelled deliveries after all, use resend or replay.

    With the ID of a delivery or of its event, only that delivery is skipped: an attempt in flight is cut off,
    and its lane goes on with the next at once.

    \b
        hookgw delivery cancel loja1 dlv_17
    """
    body = body_of(instance, instances, choice)
    if delivery_id is not None:
        if body or dry_run:
            raise click.UsageError(_("With an ID, the options that select deliveries have no meaning."))
        found = client.call("POST", "delivery", "cancel", instance, delivery_id)
        text = _("Cancelled {state}. To send it after all, use resend.", state=found["id"])
        show_result(found, text)
        return
    if dry_run or not yes:
        asked = client.call("POST", "delivery", "cancel", instance, body=body | {"dryRun": True})
        if dry_run:
            if not shown_as_json(asked):
                show_counts(asked)
            return
        if not asked["matching"] and not wants_json():
            say(_("Nothing that is pending matches."))
            return
        click.confirm(
            _(
                "Cancel {deliveries} of {of}?",
                deliveries=count_of(asked, is_pending=True),
                of=named(instance, body),
            ),
            abort=True,
            err=True,
        )
    response = client.call("POST", "delivery", "cancel", instance, body=body)
    cancelled = response["cancelled"]
    if "job" in response:
        cancelled = follow_aloud(client, response["job"], "Cancelled")["done"]
    things = ngettext("{n} delivery", "{n} deliveries", cancelled)
    show_result({"cancelled": cancelled}, _("Cancelled {things}.", things=things))
