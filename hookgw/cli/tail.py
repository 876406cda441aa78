"""``hookgw tail``: follow an instance's deliveries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.failure import Away
from hookgw.cli.fields import read_interval
from hookgw.cli.output import printable
from hookgw.models.clock import parse_rfc3339
from hookgw.models.deliveries import parse_delivery_id

FIRST_PAGE = 20
"""How many deliveries are asked for at first: where little happens, that is enough to know it."""
PAGE = 1000
WATCHED = 1000
"""How many pending deliveries are followed to their end, the newest."""
LEFT_OUT = """Older deliveries may be pending too; they are not followed.
What their lanes do is shown by: hookgw lane list"""

Found = dict[str, Any]
"""A delivery as ``/delivery/list`` gives it."""
Fetch = Callable[[str | None, int], dict[str, Any]]
"""Gets a page: its cursor, ``None`` for the newest; and at most how many."""


@click.command()
@click.argument("instance")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, PAGE),
    default=10,
    show_default=True,
    help="Begin with the last ones.",
)
@click.option(
    "--interval",
    metavar="DURATION",
    default="1s",
    show_default=True,
    callback=read_interval,
    help="How often to look.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one delivery a line.")
@server_options
def tail(client: Client, instance: str, lines: int, interval: float, as_json: bool) -> None:
    """Print INSTANCE's deliveries as they go, until Ctrl-C.

    A line says how a delivery stands after its latest attempt. A restart of hookgw is waited for.
    """

    def fetch(cursor: str | None, limit: int) -> dict[str, Any]:
        query = {"cursor": cursor, "limit": limit}
        page: dict[str, Any] = client.call("GET", "delivery", "list", instance, query=query)
        return page

    try:
        _follow(Follower(fetch), lines, _json_line if as_json else _text_line, lambda: time.sleep(interval))
    except KeyboardInterrupt:
        return


class Follower:
    """Tells what is new of an instance's deliveries, each state of one once.

    Deliveries have numbers that only grow, so what is newer than the newest known one is new; besides,
    pending ones are looked at again until they are finished.

    Args:
        fetch: gets a page.

    Attributes:
        leaves_out: whether there may be pending deliveries that are too old, or too many, to be watched.
    """

    def __init__(self, fetch: Fetch) -> None:
        self.leaves_out = False
        self._fetch = fetch
        self._newest = 0
        self._watched: dict[int, tuple[str, int]] = {}

    def begin(self, lines: int) -> list[Found]:
        """The last deliveries, the oldest first; what comes after them is new."""
        page = self._fetch(None, max(1, lines))
        found = page["deliveries"]
        self.leaves_out = page["cursor"] is not None and found[-1]["state"] == "pending"
        self._newest = max(map(_number, found), default=0)
        self._watch(found)
        return found[lines - 1 :: -1] if lines else []

    def news(self) -> list[Found]:
        """The deliveries that were tried or finished since the last look, in their order."""
        found = list(self._down_to(min(self._watched, default=self._newest + 1)))
        told = [one for one in found if self._is_news(one)]
        self._newest = max(map(_number, found), default=self._newest)
        self._watch(found)
        return told[::-1]

    def _down_to(self, oldest: int) -> Iterator[Found]:
        """The deliveries from the newest to one of that number, in pages."""
        cursor, limit = None, FIRST_PAGE
        while True:
            page = self._fetch(cursor, limit)
            for one in page["deliveries"]:
                if _number(one) < oldest:
                    return
                yield one
            cursor, limit = page["cursor"], PAGE
            if cursor is None:
                return

    def _is_news(self, one: Found) -> bool:
        number = _number(one)
        if number > self._newest:
            return _standing(one) != ("pending", 0)
        return self._watched.get(number, _standing(one)) != _standing(one)

    def _watch(self, found: Iterable[Found]) -> None:
        pending = [one for one in found if one["state"] == "pending"]
        self.leaves_out = self.leaves_out or len(pending) > WATCHED
        self._watched = {_number(one): _standing(one) for one in pending[:WATCHED]}


def _follow(
    follower: Follower, lines: int, line_of: Callable[[Found], str], wait: Callable[[], None]
) -> None:
    """Print what is new for ever. Only that nobody answers at the very beginning is an error."""
    _print(follower.begin(lines), line_of)
    is_away = was_told = False
    while True:
        if follower.leaves_out and not was_told:
            click.echo(LEFT_OUT, err=True)
            was_told = True
        wait()
        try:
            news = follower.news()
        except Away as error:
            if not is_away:
                click.echo(f"{error.message}\nWaiting for it …", err=True)
            is_away = True
            continue
        if is_away:
            click.echo("It answers again.", err=True)
        is_away = False
        _print(news, line_of)


def _print(found: Iterable[Found], line_of: Callable[[Found], str]) -> None:
    for one in found:
        click.echo(line_of(one))


def _number(one: Found) -> int:
    return parse_delivery_id(one["id"]) or 0


def _standing(one: Found) -> tuple[str, int]:
    """What makes a line of its own where it changes."""
    return one["state"], one["attempts"]


def _json_line(one: Found) -> str:
    return json.dumps(one, ensure_ascii=False)


def _text_line(one: Found) -> str:
    last = one["lastAttempt"] or {}
    at = one["finishedAt"] or last.get("at") or one["acceptedAt"]
    clock = datetime.fromtimestamp(parse_rfc3339(at)).astimezone().strftime("%H:%M:%S.%f")[:-3]
    said = one["reason"] or last.get("error")
    parts = (
        clock,
        one["state"],
        one["id"],
        one["kind"],
        one["label"],
        f"attempt {one['attempts']}",
        last.get("status"),
        f"{last['duration']:g} ms" if last else None,
        said,
    )
    return printable("  ".join(printable(part) for part in parts if part is not None))
