"""``hookgw delivery replay``: send many deliveries again."""

from __future__ import annotations

from typing import Any

import click

from hookgw.command.client import Client, call_options
from hookgw.command.job import follow_aloud
from hookgw.command.output import show_result, shown_as_json
from hookgw.command.selection import finished_option, selection_options, time_options
from hookgw.deliveries.commands.selection import body_of, kinds_option, show_counts
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext


@click.command()
@selection_options
@time_options(
    "Only events accepted since a time, or since 10m, 2h, 3d ago. Required without --finished-since and "
    "--failed-since.",
    "Only events accepted until then.  [default: now]",
)
@finished_option
@click.option(
    "--state",
    type=click.Choice(["dead", "all"]),
    default="dead",
    show_default=True,
    help="Dead letters only, or all finished deliveries.",
)
@kinds_option
@click.option("--dry-run", is_flag=True, help="Only count them, by instance and label.")
@call_options
def replay(
    client: Client,
    instance: str | None,
    instances: str | None,
    since: str | None,
    until: str | None,
    dry_run: bool,
    **choice: Any,
) -> None:
    """Send dead letters again, in their original order.

    \b
        hookgw delivery replay loja1 --since 2h
        hookgw delivery replay loja1 --finished-since 2h
        hookgw delivery replay loja1 --since 3d --until 1d --state all
        hookgw delivery replay --instances 'loja*' --since 2h --dry-run
        hookgw delivery replay --tag tenant=acme --since 2h

    Ctrl-C pauses the replay, and prints how to resume it.
    """
    body = body_of(instance, instances, choice)
    if since is None and not {"finishedSince", "failedSince"} & body.keys():
        raise click.UsageError(_("Say from when on, with --since, --finished-since or --failed-since."))
    times = {name: value for name, value in (("since", since), ("until", until)) if value}
    asked = times | body | ({"dryRun": True} if dry_run else {})
    found = client.call("POST", "delivery", "replay", instance, body=asked)
    if dry_run:
        if not shown_as_json(found):
            show_counts(found)
        return
    replayed = found["replayed"]
    if "job" in found:
        replayed = follow_aloud(client, found["job"], "Replayed", pauses=True)["done"]
    things = ngettext("{n} delivery", "{n} deliveries", replayed)
    show_result({"replayed": replayed}, _("Replayed {things}.", things=things))
