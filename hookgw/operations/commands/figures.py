"""``hookgw figures``: what became of events and deliveries over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from hookgw.command.client import Client, table_call_options
from hookgw.command.names import instance_argument
from hookgw.command.output import Column, say, short_duration, show_table, shown_as_json
from hookgw.kernel.language import gettext as _
from hookgw.records.figures import Span

COLUMNS = (
    Column("since", least=None, is_time=True),
    Column("accepted", least=None, right=True),
    Column("delivered", least=None, right=True),
    Column("failed", least=None, right=True),
    Column("dead", least=None, right=True),
    Column("p50", least=None, right=True, drop=2),
    Column("p95", least=None, right=True),
    Column("p99", least=None, right=True, drop=1),
    Column("whole p95", least=None, right=True, drop=3),
    Column("oldest", least=None, right=True, drop=4),
)


@click.command()
@instance_argument(required=False)
@click.option("--webhook", metavar="LABEL", help="Only of this webhook.")
@click.option("--tag", metavar="NAME=VALUE", help="Only of instances with this tag.")
@click.option(
    "--span",
    type=click.Choice([span.value for span in Span]),
    default=Span.DAY.value,
    show_default=True,
    help="How far back.",
)
@table_call_options
def figures(client: Client, instance: str | None, webhook: str | None, tag: str | None, span: str) -> None:
    """Show what became of events and deliveries over time.

    With INSTANCE, the figures of that instance and its own webhooks; without it, those of all instances that
    the key reaches. `failed` counts attempts. The milliseconds of p50, p95 and p99 are the receivers', those
    of `whole` are from acceptance to the response. `oldest` is the age that the oldest pending delivery
    reached.
    """
    if instance is not None and tag is not None:
        raise click.UsageError(_("--tag is for all instances: leave INSTANCE out."))
    query = {"span": span, "webhook": webhook, "tag": tag}
    series = client.call("GET", "figures", "find", instance, query=query)
    if shown_as_json(series):
        return
    show_table(COLUMNS, _rows(series))
    for status, count in series["total"]["failed"].items():
        say(_("Failed with {status}: {count}", status=status, count=count), err=True)
    if series["oldestPending"]:
        since = series["oldestPending"]
        say(_("The oldest pending delivery has been waiting since {since}.", since=since), err=True)


def _rows(series: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for one in [*series["steps"], series["total"] | {"at": None}]:
        receiver, whole = (one[name] or {} for name in ("receiver", "whole"))
        yield (
            one["at"] or _("all"),
            one["accepted"],
            one["delivered"],
            sum(one["failed"].values()),
            one["dead"],
            receiver.get("p50"),
            receiver.get("p95"),
            receiver.get("p99"),
            whole.get("p95"),
            None if one["oldestPending"] is None else short_duration(one["oldestPending"]),
        )
