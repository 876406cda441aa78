"""``hookgw tail``: follow an instance's deliveries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import click

from hookgw.cli.client import Client, server_options
from hookgw.cli.failure import ServerUnavailable
from hookgw.cli.fields import read_interval
from hookgw.cli.output import printable
from hookgw.models.clock import parse_rfc3339
from hookgw.models.deliveries import parse_delivery_id

FIRST_PAGE = 20
"""Deliveries on the first page of each poll: enough for a quiet instance, and cheap."""
PAGE = 1000
MAX_FOLLOWED = 1000
"""The most pending deliveries that are followed to their end; the newest have precedence."""
INCOMPLETE = """Older deliveries may be pending too; they are not followed.
To see their lanes, run: hookgw lane list"""

DeliveryJson = dict[str, Any]
"""A delivery in the response of ``/delivery/list``."""
FetchPage = Callable[[str | None, int], dict[str, Any]]
"""Fetches a page, given its cursor (``None`` for the newest) and its limit."""


@click.command()
@click.argument("instance")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, PAGE),
    default=10,
    show_default=True,
    help="Number of past deliveries to start with.",
)
@click.option(
    "--interval",
    metavar="DURATION",
    default="1s",
    show_default=True,
    callback=read_interval,
    help="Time between two polls.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one delivery per line, as JSON.")
@server_options
def tail(client: Client, instance: str, lines: int, interval: float, as_json: bool) -> None:
    """Follow INSTANCE's deliveries until Ctrl-C.

    Prints a line for each delivery when it is attempted and when it finishes. If hookgw restarts, the command
    waits for it and continues.
    """

    def fetch(cursor: str | None, limit: int) -> dict[str, Any]:
        query = {"cursor": cursor, "limit": limit}
        page: dict[str, Any] = client.call("GET", "delivery", "list", instance, query=query)
        return page

    def show(deliveries: Iterable[DeliveryJson]) -> None:
        for delivery in deliveries:
            click.echo(json.dumps(delivery, ensure_ascii=False) if as_json else text_line(delivery))

    try:
        follow(DeliveryFeed(fetch), lines, show, lambda: time.sleep(interval))
    except KeyboardInterrupt:  # the only way to end it, so the exit code is 0
        return


class DeliveryFeed:
    """Finds what changed among an instance's deliveries; returns each state of a delivery once.

    Delivery ids contain growing numbers, so a number above the newest known one is a new delivery. Pending
    deliveries are read again until they finish.

    Args:
        fetch: fetches a page.

    Attributes:
        is_incomplete: whether there may be pending deliveries that are too old, or too many, to follow.
    """

    def __init__(self, fetch: FetchPage) -> None:
        self.is_incomplete = False
        self._fetch = fetch
        self._newest = 0
        self._pending: dict[int, tuple[str, int]] = {}

    def start(self, lines: int) -> list[DeliveryJson]:
        """Return the newest deliveries, oldest first. :meth:`poll` returns what changes after them."""
        found: list[DeliveryJson] = []
        cursor, wanted = None, max(1, lines)
        while len(found) < wanted:
            page = self._fetch(cursor, wanted - len(found))
            found += page["deliveries"]
            cursor = page["cursor"]
            if cursor is None:  # a page that is only short may be one of a search that took long
                break
        # The delivery before the last one shown is unknown. If the last one is pending, so may that one be.
        self.is_incomplete = cursor is not None and found[-1]["state"] == "pending"
        self._newest = max(map(_number, found), default=0)
        self._remember(found)
        return found[lines - 1 :: -1] if lines else []

    def poll(self) -> list[DeliveryJson]:
        """Return the deliveries that were attempted or finished since the last call, in order."""
        oldest = min(self._pending, default=self._newest + 1)
        found: list[DeliveryJson] = []
        # The list is newest first: read until it reaches the oldest delivery that can have changed.
        cursor, limit = None, FIRST_PAGE
        while True:
            page = self._fetch(cursor, limit)
            wanted = [delivery for delivery in page["deliveries"] if _number(delivery) >= oldest]
            found += wanted
            cursor, limit = page["cursor"], PAGE
            if cursor is None or len(wanted) < len(page["deliveries"]):
                break
        changed = []
        for delivery in found:
            number, status = _number(delivery), _status(delivery)
            # A new delivery without an attempt has nothing to report yet. A known one that is not in
            # `_pending` was finished before, or too many were pending to follow it.
            before = ("pending", 0) if number > self._newest else self._pending.get(number, status)
            if status != before:
                changed.append(delivery)
        self._newest = max(map(_number, found), default=self._newest)
        self._remember(found)
        return changed[::-1]

    def _remember(self, found: Iterable[DeliveryJson]) -> None:
        pending = [delivery for delivery in found if delivery["state"] == "pending"]
        # Each poll reads every page down to the oldest followed delivery: a receiver that is down for days
        # would make that millions.
        self.is_incomplete = self.is_incomplete or len(pending) > MAX_FOLLOWED
        self._pending = {_number(delivery): _status(delivery) for delivery in pending[:MAX_FOLLOWED]}


def follow(
    feed: DeliveryFeed, lines: int, show: Callable[[Iterable[DeliveryJson]], None], wait: Callable[[], None]
) -> None:
    """Show what changes, forever.

    Args:
        feed: returns the changes.
        lines: how many past deliveries to start with.
        show: prints deliveries.
        wait: returns when the next poll is due.

    Raises:
        Failed: the gateway refuses, or is unavailable at the first request.
    """
    # A wrong --server must fail at once; only a gateway that has answered before is worth waiting for.
    show(feed.start(lines))
    is_down = has_warned = False
    while True:
        if feed.is_incomplete and not has_warned:
            click.echo(INCOMPLETE, err=True)
            has_warned = True
        wait()
        try:
            changed = feed.poll()
        except ServerUnavailable as error:
            if not is_down:
                click.echo(f"{error.message}\nWaiting until hookgw responds …", err=True)
            is_down = True
            continue
        if is_down:
            click.echo("hookgw responds again.", err=True)
        is_down = False
        show(changed)


def text_line(delivery: DeliveryJson) -> str:
    """Return a line about a delivery and its latest attempt."""
    last = delivery["lastAttempt"] or {}
    at = delivery["finishedAt"] or last.get("at") or delivery["acceptedAt"]
    parts = (
        datetime.fromtimestamp(parse_rfc3339(at)).astimezone().strftime("%H:%M:%S.%f")[:-3],
        delivery["state"],
        delivery["id"],
        delivery["kind"],
        delivery["label"],
        f"attempt {delivery['attempts']}",
        last.get("status"),
        f"{last['duration']:g} ms" if last else None,
        delivery["reason"] or last.get("error"),
    )
    return "  ".join(printable(part) for part in parts if part is not None)


def _number(delivery: DeliveryJson) -> int:
    return parse_delivery_id(delivery["id"]) or 0


def _status(delivery: DeliveryJson) -> tuple[str, int]:
    # An attempt changes the second, an end the first. A resent delivery is pending again.
    return delivery["state"], delivery["attempts"]
