"""``hookgw delivery``: what happened to events, and how to send them again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from hookgw.command.client import Client, server_options
from hookgw.command.fields import PAGE, read_time
from hookgw.command.job import follow_aloud
from hookgw.command.names import complete_kinds, complete_labels, instance_argument
from hookgw.command.output import (
    Column,
    counted,
    json_option,
    printable,
    say,
    show_fields,
    show_json,
    show_table,
    table_options,
)
from hookgw.deliveries.commands.replay import replay

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
MOST_COUNTED = 100_000
"""The highest number that the server counts to."""


@click.group()
def delivery() -> None:
    """List, inspect, cancel and resend deliveries."""


delivery.add_command(replay)


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--kind", shell_complete=complete_kinds, help="Only events of this kind."),
        click.option(
            "--label",
            shell_complete=complete_labels,
            help="Only deliveries to the registration with this label.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            callback=read_time,
            help="Only events accepted since a time, or since 10m, 2h, 3d ago.",
        ),
        click.option("--until", metavar="TIME", callback=read_time, help="Only events accepted until then."),
        click.option("--limit", type=PAGE, help="Deliveries per page."),
        click.option("--cursor", help="Continue a list; each page prints the cursor of the next."),
    )
    for option in reversed(options):  # click lists options in the reverse order of their decorators
        command = option(command)
    return command


@delivery.command("list")
@instance_argument()
@click.option(
    "--state", type=click.Choice(["pending", "delivered", "dead", "dropped"]), help="Only this state."
)
@page_options
@server_options
@table_options
def list_(client: Client, instance: str, wide: bool, as_json: bool, **query: str | int | None) -> None:
    """List INSTANCE's deliveries, newest first."""
    _list(client, instance, query, LISTED, wide, as_json)


@delivery.command()
@instance_argument()
@page_options
@server_options
@table_options
def dead(client: Client, instance: str, wide: bool, as_json: bool, **query: str | int | None) -> None:
    """List INSTANCE's dead letters with the reason, newest first."""
    _list(client, instance, {"state": "dead", **query}, LISTED_DEAD, wide, as_json)


def _list(
    client: Client,
    instance: str,
    query: Mapping[str, str | int | None],
    columns: Mapping[str, Column],
    wide: bool,
    as_json: bool,
) -> None:
    page = client.page("deliveries", "delivery", "list", instance, query=query)
    if as_json:
        show_json(page)
        return
    rows = (
        [_answer(found.get("lastAttempt")) if name == "answer" else found[name] for name in columns]
        for found in page["deliveries"]
    )
    show_table(tuple(columns.values()), rows, wide=wide)
    if page["cursor"]:
        # To standard error, so that a pipe gets only the table.
        say(f"There are more. For the next page, add: --cursor {page['cursor']}", err=True)


def _answer(attempt: dict[str, Any] | None) -> str | None:
    """Return the start of what the receiver said, on one line; ``None`` if it said nothing."""
    said = " ".join((attempt or {}).get("answer", "").split())
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


@delivery.command()
@instance_argument()
@click.argument("delivery_id", metavar="ID")
@server_options
@table_options
def show(client: Client, instance: str, delivery_id: str, wide: bool, as_json: bool) -> None:
    """Show a delivery with all its attempts.

    ID is the delivery's id, or its event's id.
    """
    found = client.call("GET", "delivery", "find", instance, delivery_id)
    if as_json:
        show_json(found)
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
            "data": json.dumps(found["event"]["data"], ensure_ascii=False),
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
            wide=wide,
        )


@delivery.command()
@instance_argument()
@click.argument("delivery_id", metavar="ID")
@server_options
@json_option
def resend(client: Client, instance: str, delivery_id: str, as_json: bool) -> None:
    """Send a finished delivery again.

    ID is the delivery's id, or its event's id. The delivery goes to the end of its lane and keeps its
    webhook-id.
    """
    queued = client.call("POST", "delivery", "resend", instance, delivery_id)
    if as_json:
        show_json(queued)
    else:
        say(f"{queued['id']} will be sent again to {printable(queued['url'])}")


@delivery.command()
@instance_argument()
@click.argument("delivery_id", metavar="[ID]", required=False)
@click.option("--label", help="Only deliveries to the registration with this label.")
@click.option("--kind", "kinds", multiple=True, help="Only events of this kind; repeatable.")
@click.option(
    "--since",
    metavar="TIME",
    callback=read_time,
    help="Only events accepted since a time, or since 10m, 2h, 3d ago.",
)
@click.option("--until", metavar="TIME", callback=read_time, help="Only events accepted until then.")
@click.option("--yes", is_flag=True, help="Cancel without asking.")
@server_options
@json_option
def cancel(
    client: Client, instance: str, delivery_id: str | None, yes: bool, as_json: bool, **choice: Any
) -> None:
    """Cancel INSTANCE's pending deliveries: they become dead letters.

    \b
        hookgw delivery cancel loja1 --label crm --until 1h
        hookgw delivery cancel loja1 --kind PRESENCE_UPDATE

    Attempts in flight are not cut off. To send cancelled deliveries after all, use resend or replay.

    With the ID of a delivery or of its event, only that delivery is skipped: an attempt in flight is cut off,
    and its lane goes on with the next at once.

    \b
        hookgw delivery cancel loja1 dlv_17
    """
    body = {name: value for name, value in choice.items() if value}
    if delivery_id is not None:
        if body:
            raise click.UsageError("With an ID, the options that select deliveries have no meaning.")
        found = client.call("POST", "delivery", "cancel", instance, delivery_id)
        if as_json:
            show_json(found)
        else:
            say(f"Cancelled {found['id']}. To send it after all, use resend.")
        return
    if not yes:
        asked = client.call("POST", "delivery", "cancel", instance, body=body | {"dryRun": True})
        count = asked["matching"]
        if not count and not as_json:
            say("Nothing that is pending matches.")
            return
        shown = counted(count, "pending delivery", "pending deliveries")
        if count >= MOST_COUNTED:
            shown = f"{count:,} or more pending deliveries"
        click.confirm(f"Cancel {shown} of {instance!r}?", abort=True, err=True)
    response = client.call("POST", "delivery", "cancel", instance, body=body)
    cancelled = response["cancelled"]
    if "job" in response:
        cancelled = follow_aloud(client, response["job"], "Cancelled")["done"]
    if as_json:
        show_json({"cancelled": cancelled})
    else:
        say(f"Cancelled {counted(cancelled, 'delivery', 'deliveries')}.")
