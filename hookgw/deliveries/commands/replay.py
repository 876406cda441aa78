"""``hookgw delivery replay``: send many deliveries again.

The command splits the time range into windows and requests them one after the other, oldest first. This keeps
the original order, shows progress, and allows a stop between two windows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import click

from hookgw.command.client import Client, call_options
from hookgw.command.failure import Failed
from hookgw.command.job import follow, follow_aloud
from hookgw.command.output import show_result, shown_as_json
from hookgw.command.selection import finished_option, selection_options, time_options
from hookgw.deliveries.commands.selection import body_of, kinds_option, show_counts
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext
from hookgw.kernel.times import parse_rfc3339, rfc3339

WINDOWS = 50

ShowProgress = Callable[[int, int], None]
"""Called with the number of deliveries replayed so far, and 1 after each window, 0 within one."""


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

    Ctrl-C stops the replay of one instance, and prints how to continue it. One of several goes on; see
    hookgw job pause and hookgw job cancel.
    """
    body = body_of(instance, instances, choice)
    if since is None and not {"finishedSince", "failedSince"} & body.keys():
        raise click.UsageError(_("Say from when on, with --since, --finished-since or --failed-since."))
    times = {name: value for name, value in (("since", since), ("until", until)) if value}
    if dry_run:
        found = client.call("POST", "delivery", "replay", instance, body=times | body | {"dryRun": True})
        if not shown_as_json(found):
            show_counts(found)
        return
    if instance is None or since is None:
        response = client.call("POST", "delivery", "replay", instance, body=times | body)
        replayed = response["replayed"]
        if "job" in response:
            replayed = follow_aloud(client, response["job"], "Replayed")["done"]
    else:
        windows = split_into_windows(since, until, client.server_time)
        with _progress_bar(len(windows)) as show_progress:
            replayed = replay_windows(client, instance, windows, body, show_progress)
    things = ngettext("{n} delivery", "{n} deliveries", replayed)
    show_result({"replayed": replayed}, _("Replayed {things}.", things=things))


def split_into_windows(since: str, until: str | None, now: float) -> list[dict[str, str]]:
    """Return windows that cover a time range in order, without gap or overlap.

    Args:
        since, until: RFC 3339. Without ``until``, the last window has no end.
        now: seconds since the epoch; the end of the range that is split if ``until`` is missing.
    """
    begin = parse_rfc3339(since)
    end = max(begin, parse_rfc3339(until) if until else now)
    inner = [rfc3339(begin + (end - begin) * number / WINDOWS) for number in range(1, WINDOWS)]
    # Times have milliseconds: a range of a few milliseconds has fewer windows.
    bounds = [since, *(bound for bound in dict.fromkeys(inner) if parse_rfc3339(bound) > begin)]
    windows = [{"since": a, "until": b} for a, b in pairwise(bounds)]
    # Without `until` the last window is open: the gateway's clock may be ahead of this machine's.
    return [*windows, {"since": bounds[-1]} | ({"until": until} if until else {})]


def replay_windows(
    client: Client,
    instance: str,
    windows: list[dict[str, str]],
    body: dict[str, Any],
    show_progress: ShowProgress,
) -> int:
    """Replay the windows in turn; return the number of deliveries.

    Raises:
        Failed: the gateway refused or did not respond, or the user pressed Ctrl-C. The message says how to
            continue.
    """
    replayed = 0
    for window in windows:
        try:
            response = client.call("POST", "delivery", "replay", instance, body=window | body)
            count = response["replayed"]
            if "job" in response:  # the window is large
                on_progress = partial(_show_within, show_progress, replayed)
                count = follow(client, response["job"], on_progress)["done"]
        except (Failed, KeyboardInterrupt) as error:
            # The gateway finishes the window even if this client leaves, unless the replay fails:
            # continue from the start of that window, not from its end.
            messages = [*error.messages] if isinstance(error, Failed) else [_("Stopped.")]
            if replayed:
                things = ngettext("{n} delivery", "{n} deliveries", replayed)
                done = _("Replayed {things}.", things=things)
                messages.append(done + " " + _("Continue with --since {time}", time=window["since"]))
            raise Failed(*messages) from error
        replayed += count
        show_progress(replayed, 1)
    return replayed


def _show_within(show_progress: ShowProgress, before: int, done: int) -> None:
    show_progress(before + done, 0)


@contextmanager
def _progress_bar(windows: int) -> Iterator[ShowProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    if not console.is_terminal:  # before rich 14.3 even a disabled bar prints an empty line
        yield lambda _, __: None
        return
    columns = (
        TextColumn("Replaying"),
        BarColumn(),
        TextColumn("{task.fields[replayed]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=windows, replayed=0)
        yield lambda replayed, windows: bar.update(task, advance=windows, replayed=replayed)
