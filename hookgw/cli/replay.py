"""``hookgw delivery replay``: send many again.

A replay is asked for in windows, one after the other, the oldest first: that keeps the original order,
shows how far it has come, and lets it be stopped between two of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Protocol

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.failure import Failed
from hookgw.cli.fields import read_moment
from hookgw.cli.output import json_option, show_json
from hookgw.models.clock import parse_rfc3339, rfc3339

WINDOWS = 50
"""Into how many parts the time of a replay is cut."""
WINDOW_TIMEOUT = 900.0
"""Seconds that one window may take: a burst can put all of a replay into one."""


class Advance(Protocol):
    """Called after each window with how many were replayed so far."""

    def __call__(self, replayed: int, /) -> None: ...


@click.command()
@click.argument("instance")
@click.option(
    "--since",
    metavar="TIME",
    required=True,
    callback=read_moment,
    help="When the event was accepted: a time, or how long ago: 10m, 2h, 3d.",
)
@click.option("--until", metavar="TIME", callback=read_moment, help="Likewise.  [default: now]")
@click.option(
    "--state",
    type=click.Choice(["dead", "all"]),
    default="dead",
    show_default=True,
    help="Dead letters, or everything that is finished.",
)
@click.option("--kind", "kinds", multiple=True, help="Only events of this kind; repeatable.")
@click.option("--label", help="Only to the registration of this label.")
@server_options
@json_option
def replay(
    client: Client, instance: str, since: str, until: str | None, as_json: bool, **choice: Any
) -> None:
    """Send INSTANCE's dead letters again, in their original order.

    \b
        hookgw delivery replay loja1 --since 2h
        hookgw delivery replay loja1 --since 3d --until 1d --state all

    Ctrl-C stops it; it says from where to go on.
    """
    body = {name: value for name, value in choice.items() if value}
    windows = cut(since, until, time.time())
    with _progress_bar(len(windows)) as advance:
        replayed = _replay(client, instance, windows, body, advance)
    if as_json:
        show_json({"replayed": replayed})
    else:
        click.echo(f"Replayed {replayed:,}.")


def cut(since: str, until: str | None, now: float) -> list[dict[str, str]]:
    """Windows that together cover a time, in order; one without an end is open.

    Args:
        since, until: RFC 3339; no ``until`` leaves the last window open.
        now: where the cutting ends then, in seconds since the epoch.
    """
    begin = parse_rfc3339(since)
    end = max(begin, parse_rfc3339(until) if until else now)
    inner = [rfc3339(begin + (end - begin) * number / WINDOWS) for number in range(1, WINDOWS)]
    bounds = list(dict.fromkeys([since, *inner]))
    windows = [{"since": a, "until": b} for a, b in pairwise(bounds)]
    return [*windows, {"since": bounds[-1]} | ({"until": until} if until else {})]


def _replay(
    client: Client, instance: str, windows: list[dict[str, str]], body: dict[str, Any], advance: Advance
) -> int:
    replayed = 0
    for window in windows:
        try:
            answer = client.call(
                "POST", "delivery", "replay", instance, body=window | body, timeout=WINDOW_TIMEOUT
            )
        except Failed as error:
            raise Failed(error.message, *_how_to_go_on(replayed, window)) from error
        except KeyboardInterrupt as stop:
            raise Failed("Stopped.", *_how_to_go_on(replayed, window)) from stop
        replayed += answer["replayed"]
        advance(replayed)
    return replayed


def _how_to_go_on(replayed: int, window: dict[str, str]) -> list[str]:
    if not replayed:
        return []
    return [f"{replayed:,} were replayed before that; --since {window['since']} goes on from there."]


@contextmanager
def _progress_bar(windows: int) -> Iterator[Advance]:
    """A bar on standard error that is gone at the end; none where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("Replaying"),
        BarColumn(),
        TextColumn("{task.fields[replayed]:,}"),
        TimeElapsedColumn(),
    )
    console = Console(file=sys.stderr)
    if not console.is_terminal:  # even a bar that is switched off ends with a line, before rich 14.3
        yield lambda _: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=windows, replayed=0)
        yield lambda replayed: bar.update(task, advance=1, replayed=replayed)
