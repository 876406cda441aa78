"""``hookgw tail``: follow the deliveries of instances."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any

import click
import msgspec

from hookgw.command.client import Client, server_options
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.fields import read_interval
from hookgw.command.names import complete_kinds, complete_labels, instance_argument, tag_option
from hookgw.command.output import EVERYTHING, available_width, cut, say, show_json_line
from hookgw.command.words import printable
from hookgw.kernel.language import gettext as _
from hookgw.kernel.times import parse_rfc3339, rfc3339
from hookgw.records.deliveries import DeliveryState, parse_delivery_id
from hookgw.records.events import fold_kind

FIRST_PAGE = 20
"""Deliveries on the first page of each poll: enough for a quiet instance, and cheap."""
PAGE = 1000
MAX_FOLLOWED = 1000
"""The most pending deliveries of an instance with followed attempts; the newest have precedence."""
MAX_SEARCHED = 10_000
"""The most past deliveries of an instance that a start searches for matches."""
MAX_INSTANCES = 50
"""The most instances that are followed without being named: each costs two requests per poll."""
LOOK_EVERY = 10.0
"""Seconds between two looks for instances that were created meanwhile."""
OVERLAP = 5.0
"""Seconds of the time before a poll that the next one looks at again. A delivery becomes visible with its
commit, a moment after the time at which it finished."""
INCOMPLETE = (
    "Many deliveries are pending. Of the oldest ones, only the end is shown, not each attempt.",
    "To see their lanes, run: hookgw lane list",
)

DeliveryJson = dict[str, Any]
"""A delivery in the response of ``/delivery/list``."""
FetchPage = Callable[[str | None, int, float | None], dict[str, Any]]
"""Fetches a page, given its cursor (``None`` for the newest), its limit, and the time (in seconds since the
epoch) since which its deliveries finished (``None`` for all deliveries)."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries are shown. Empty filters show all.

    Attributes:
        error: a part of the error or the reason, in any case.
    """

    kinds: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    error: str = ""

    def match(self, delivery: DeliveryJson) -> bool:
        return (
            (not self.kinds or delivery["kind"] in self.kinds)
            and (not self.states or delivery["state"] in self.states)
            and (not self.labels or delivery["label"] in self.labels)
            and self.error.lower() in (_problem(delivery) or "").lower()
        )


@click.command()
@instance_argument("instances", nargs=-1)
@click.option(
    "-n",
    "--limit",
    "lines",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Number of past deliveries to start with.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    callback=lambda _ctx, _param, values: tuple(map(fold_kind, values)),
    shell_complete=complete_kinds,
    help="Only events of this kind; repeatable.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in DeliveryState]),
    help="Only this state; repeatable.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    shell_complete=complete_labels,
    help="Only deliveries to the registration with this label; repeatable.",
)
@tag_option("Without INSTANCE: only instances that carry this tag; repeatable, all must match.")
@click.option("--error", default="", metavar="TEXT", help="Only deliveries with this text in their error.")
@click.option(
    "--interval",
    metavar="DURATION",
    default="1s",
    show_default=True,
    callback=read_interval,
    help="Time between two polls.",
)
@click.option("--wide", is_flag=True, help="Print lines in full, however long.")
@click.option("--json", "as_json", is_flag=True, help="Print one delivery per line, as JSON.")
@server_options
def tail(  # noqa: C901 -- reads once from top to bottom
    client: Client,
    instances: tuple[str, ...],
    tags: tuple[str, ...],
    lines: int,
    interval: float,
    wide: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Follow the deliveries of instances until Ctrl-C.

    Prints a line for each delivery when it is attempted and when it finishes. Without INSTANCE, it follows
    the instances that the key can access, also those that are created later. If hookgw restarts, the command
    waits for it and continues.

    \b
        hookgw tail loja1 --state dead
        hookgw tail --tag tenant=acme
        hookgw tail loja1 loja2 --kind MESSAGES_UPSERT --error 404
    """
    wanted = Filters(**filters)
    if instances and tags:
        raise click.UsageError(_("Name instances, or choose them with --tag, not both."))
    names = list(dict.fromkeys(instances)) or _all_instances(client, tags)
    looked_at = time.monotonic()

    def feed_of(instance: str) -> DeliveryFeed:
        def fetch(cursor: str | None, limit: int, finished_since: float | None) -> dict[str, Any]:
            query = {
                "cursor": cursor,
                "limit": limit,
                "kind": wanted.kinds[0] if len(wanted.kinds) == 1 else None,
                "finishedSince": None if finished_since is None else rfc3339(finished_since),
            }
            page: dict[str, Any] = client.call("GET", "delivery", "list", instance, query=query)
            return page

        return DeliveryFeed(fetch, wanted.match, lambda: client.server_time)

    def show(instance: str, deliveries: Iterable[DeliveryJson]) -> None:
        # Asked each time: a terminal may become wider or narrower.
        width = EVERYTHING if wide else available_width()
        for delivery in deliveries:
            if as_json:
                show_json_line({"instance": instance, **delivery})
            else:
                say(cut(text_line(delivery, instance if len(names) > 1 else None), width))

    def follow_added() -> None:
        nonlocal looked_at
        if instances or time.monotonic() < looked_at + LOOK_EVERY:
            return
        looked_at = time.monotonic()
        for name in _all_instances(client, tags):
            if name not in feeds:
                feed = feed_of(name)
                past = feed.start(lines)
                feeds[name] = feed
                names.append(name)
                show(name, past)

    feeds = {instance: feed_of(instance) for instance in names}
    try:
        follow(feeds, lines, show, lambda: time.sleep(interval), follow_added)
    except KeyboardInterrupt:  # the only way to end it, so the exit code is 0
        return


def _all_instances(client: Client, tags: tuple[str, ...]) -> list[str]:
    names = [one["name"] for one in client.call("GET", "instance", "fetchInstances", query={"tag": tags})]
    if not names:
        raise Failed(_("There is no instance to follow."))
    if len(names) > MAX_INSTANCES:
        raise Failed(
            _(
                "There are {count} instances. Name the ones to follow, {max_instances} at most.",
                count=len(names),
                max_instances=MAX_INSTANCES,
            )
        )
    return names


class DeliveryFeed:
    """Finds the changes of an instance's deliveries; returns each state of a delivery once.

    Delivery ids contain growing numbers, so a number above the newest known one is a new delivery. Pending
    deliveries are read again until they finish, the newest :data:`MAX_FOLLOWED` of them. The end of all
    others, which may be anywhere in a long backlog, is found by its time.

    Args:
        now: returns the gateway's time as of the last page, in seconds since the epoch.

    Attributes:
        is_incomplete: whether there may be pending deliveries whose attempts are not followed.
    """

    def __init__(
        self,
        fetch: FetchPage,
        matches: Callable[[DeliveryJson], bool] = lambda _: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.is_incomplete = False
        self._fetch = fetch
        self._matches = matches
        self._now = now
        self._newest = 0
        self._known: dict[int, _Status] = {}
        self._started = self._polled = 0.0

    def start(self, lines: int) -> list[DeliveryJson]:
        """Return the newest deliveries, oldest first. :meth:`poll` returns later changes."""
        found: list[DeliveryJson] = []
        matching: list[DeliveryJson] = []
        cursor, wanted = None, max(1, lines)
        while len(matching) < wanted and len(found) < MAX_SEARCHED:
            page = self._fetch(cursor, min(PAGE, wanted if cursor is None else PAGE), None)
            if cursor is None:
                # Whole seconds: what finished in the same second before the start may be shown, too.
                self._started = self._polled = float(int(self._now()))
            found += page["deliveries"]
            matching += filter(self._matches, page["deliveries"])
            cursor = page["cursor"]
            if cursor is None:  # a page that is only short may be one of a search that took long
                break
        # The delivery before the last one shown is unknown. If the last one is pending, so may that one be.
        self.is_incomplete = cursor is not None and bool(found) and found[-1]["state"] == "pending"
        self._newest = max(map(_number, found), default=0)
        self._remember(found, self._started)
        return matching[lines - 1 :: -1] if lines else []

    def poll(self) -> list[DeliveryJson]:
        """Return the deliveries that were attempted or finished since the last call, in order.

        Raises:
            Failed: a request failed. The next call returns what this one would have.
        """
        pending = [number for number, status in self._known.items() if status[0] == "pending"]
        oldest = min(pending, default=self._newest + 1)
        found: dict[int, DeliveryJson] = {}
        # The list is newest first: read until it reaches the oldest delivery that can have changed.
        cursor, limit = None, FIRST_PAGE
        while True:
            page = self._fetch(cursor, limit, None)
            if cursor is None:
                polled = self._now()
            wanted = {number: one for one in page["deliveries"] if (number := _number(one)) >= oldest}
            found |= wanted
            cursor, limit = page["cursor"], PAGE
            if cursor is None or len(wanted) < len(page["deliveries"]):
                break
        # Not what the pages below show: a number above it that they miss would never be asked for.
        newest = max(found, default=self._newest)
        since = max(self._started, self._polled - OVERLAP)
        finished: dict[int, DeliveryJson] = {}
        cursor = None
        while True:
            page = self._fetch(cursor, PAGE, since)
            ended = {_number(one): one for one in page["deliveries"] if _finished_since(one, since)}
            finished |= ended
            cursor = page["cursor"]
            # A gateway of another version may not know the parameter, and list all deliveries.
            if cursor is None or len(ended) < len(page["deliveries"]):
                break
        changed = []
        for number in sorted(found.keys() | finished.keys()):
            delivery = finished.get(number) or found[number]
            before = self._known.get(number)
            if before is None and number > self._newest:
                # A new delivery without an attempt has nothing to report yet.
                before = ("pending", 0, None)
            elif before is None and number not in finished:
                continue  # it finished before, or too many were pending to follow it
            if _status(delivery) != before:
                changed.append(delivery)
        self._newest, self._polled = newest, polled
        self._remember([*(found | finished).values()], polled - OVERLAP)
        return list(filter(self._matches, changed))

    def _remember(self, found: Sequence[DeliveryJson], since: float) -> None:
        by_number = sorted(((_number(one), one) for one in found), reverse=True)
        pending = [(number, one) for number, one in by_number if one["state"] == "pending"]
        # Each poll reads every page down to the oldest followed delivery: a receiver that is down for days
        # would make that millions.
        self.is_incomplete = self.is_incomplete or len(pending) > MAX_FOLLOWED
        # What just finished comes again with the next poll.
        again = [(number, one) for number, one in by_number if _finished_since(one, since - OVERLAP)]
        self._known = {number: _status(one) for number, one in (*pending[:MAX_FOLLOWED], *again)}


def follow(
    feeds: dict[str, DeliveryFeed],
    lines: int,
    show: Callable[[str, Iterable[DeliveryJson]], None],
    wait: Callable[[], None],
    follow_added: Callable[[], None] = lambda: None,
) -> None:
    """Show changes, forever, after so many past deliveries of each instance.

    Args:
        feeds: by instance; those of instances that are gone are taken out.
        wait: returns when the next poll is due.
        follow_added: adds the feeds of instances that were created meanwhile.

    Raises:
        Failed: the gateway refuses, also the last instance, or is unavailable at the first request.
    """
    # A wrong --server must fail at once; only a gateway that has answered before is worth waiting for.
    for instance, feed in feeds.items():
        show(instance, feed.start(lines))
    is_down = has_warned = False
    while True:
        if not has_warned and any(feed.is_incomplete for feed in feeds.values()):
            say(*INCOMPLETE, err=True)
            has_warned = True
        wait()
        with suppress(Failed):  # the polls below say why
            follow_added()
        for instance, feed in list(feeds.items()):
            try:
                changed = feed.poll()
            except ServerUnavailable as error:
                if not is_down:
                    say(*error.messages, _("Waiting until hookgw responds …"), err=True)
                is_down = True
                break  # the others would wait for the same gateway
            except Failed as error:
                if error.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND) or len(feeds) == 1:
                    raise
                say(*error.messages, err=True)  # deleted, or out of the key's reach: the others go on
                del feeds[instance]
                continue
            if is_down:
                say(_("hookgw responds again."), err=True)
            is_down = False
            show(instance, changed)


def text_line(delivery: DeliveryJson, instance: str | None = None) -> str:
    """Return a line about a delivery and its latest attempt; with the instance, if it is given."""
    last = delivery["lastAttempt"] or {}
    at = delivery["finishedAt"] or last.get("at") or delivery["acceptedAt"]
    parts = (
        datetime.fromtimestamp(parse_rfc3339(at)).astimezone().strftime("%H:%M:%S"),
        f"{delivery['state']:<9}",
        delivery["id"],
        instance,
        delivery["kind"],
        delivery["label"],
        last.get("status"),
        f"attempt {delivery['attempts']}" if delivery["attempts"] > 1 else None,
        _problem(delivery) or (f"{last['duration']:.0f} ms" if last else None),
    )
    return "  ".join(printable(part) for part in parts if part is not None)


_Status = tuple[str, int, str | None]


def _number(delivery: DeliveryJson) -> int:
    return parse_delivery_id(delivery["id"]) or 0


def _status(delivery: DeliveryJson) -> _Status:
    # An attempt changes the second, an end the first and the third. A resent delivery is pending again.
    return delivery["state"], delivery["attempts"], delivery["finishedAt"]


def _finished_since(delivery: DeliveryJson, since: float) -> bool:
    return delivery["finishedAt"] is not None and parse_rfc3339(delivery["finishedAt"]) >= since


def _problem(delivery: DeliveryJson) -> str | None:
    problem: str | None = delivery["reason"] or (delivery["lastAttempt"] or {}).get("error")
    return problem
