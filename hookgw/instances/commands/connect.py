"""``hookgw instance connect``: connect one instance, or those that are closed, one after the other."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from hookgw.command.client import Client, call_options
from hookgw.command.failure import Failed
from hookgw.command.names import instance_argument, tag_option
from hookgw.command.output import say, show_drawing, show_fields, show_json, wants_json
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext
from hookgw.records.connectors import ConnectionState

F = TypeVar("F", bound=Callable[..., Any])

LOOK_EVERY = 2.0
"""Seconds between two looks whether a code was scanned."""
SCAN_WITHIN = 90.0
"""Seconds that a person has for one account, before the next one's code is shown."""


def choice_options(command: F) -> F:
    state = click.option(
        "--state",
        type=click.Choice([state.value for state in ConnectionState]),
        help="Only instances whose connection has this state.",
    )
    search = click.option(
        "--search",
        metavar="TEXT",
        help="Only if name, number, profile, connector, reason or a tag has TEXT.",
    )
    return state(tag_option()(search(command)))


def choose(
    client: Client, state: str | None, tags: tuple[str, ...], search: str | None
) -> list[dict[str, Any]]:
    """Return the listed instances that the options name."""
    query = {"tag": tags, "search": search}
    found: list[dict[str, Any]] = client.call("GET", "instance", "fetchInstances", query=query)
    return [one for one in found if state in (None, one["connectionStatus"])]


def number_of(one: dict[str, Any]) -> str | None:
    """Return the number of a listed instance's account, as far as it is known."""
    number: str | None = one.get("number") or one.get("ownerJid")
    return number and number.partition("@")[0].partition(":")[0]


@click.command()
@instance_argument("names", nargs=-1)
@choice_options
@call_options
def connect(
    client: Client,
    names: tuple[str, ...],
    state: str | None,
    tags: tuple[str, ...],
    search: str | None,
) -> None:
    """Start the connections of instances.

    Prints the state, and the code to scan or to type, if the network wants one. With several instances, or
    with --state, --tag or --search, the next code follows once the one before it is scanned, or after 90
    seconds; Ctrl-C goes on with the next.

    \b
        hookgw instance connect loja1
        hookgw instance connect --state close
    """
    by_choice = state is not None or search is not None or bool(tags)
    if names and by_choice:
        raise click.UsageError(_("Name instances, or choose them with --state, --tag or --search, not both."))
    if not names and not by_choice:
        raise click.UsageError(_("Name an instance, or choose some with --state, --tag or --search."))
    if by_choice:
        listed = choose(client, state, tags, search)
        # Without a connector, there is nothing to start.
        names = tuple(one["name"] for one in listed if one["connector"] is not None)
    if len(names) == 1 and not by_choice:
        found = client.call("GET", "instance", "connect", names[0])
        show_json(found) if wants_json() else _show(found)
        return
    if not names:
        say(_("No instance with a connector matches."), err=True)
    results = _connect_all(client, names)
    if wants_json():
        show_json(results)
    if failed := sum("error" in one for one in results):
        raise Failed(
            _(
                "{things} of {count} could not be connected.",
                things=ngettext("{n} instance", "{n} instances", failed),
                count=len(names),
            )
        )


def _connect_all(client: Client, names: tuple[str, ...]) -> list[dict[str, Any]]:
    results = []
    for number, name in enumerate(names, 1):
        if not wants_json():
            say(
                "" if number > 1 else None,
                _("{name} ({number} of {count})", name=name, number=str(number), count=len(names)),
            )
        try:
            found = client.call("GET", "instance", "connect", name)
            if not wants_json():
                _show(found)
                found = _wait_for_scan(client, name, found)
        except Failed as error:
            found = {"instance": {"instanceName": name}, "error": [*error.messages]}
            say(*(f"{name}: {message}" for message in error.messages), err=True)
        results.append(found)
    return results


def _wait_for_scan(client: Client, name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Wait until a shown code was scanned; show the next one when the network replaces it."""
    until = time.monotonic() + SCAN_WITHIN
    code = found.get("code")
    if not code or not shows_codes():
        return found
    try:
        while time.monotonic() < until:
            time.sleep(LOOK_EVERY)
            shown = client.call("GET", "instance", "connectionState", name)
            if shown["instance"]["state"] == ConnectionState.OPEN.value:
                say(_("Connected."))
                return {**found, **shown}
            found = client.call("GET", "instance", "connect", name)
            if found.get("code") not in (None, code):
                code = found["code"]
                _show(found)
    except KeyboardInterrupt:
        say(_("Skipped."))
        return found
    say(_("Nobody scanned the code within {scan_within} s.", scan_within=f"{SCAN_WITHIN:.0f}"))
    return found


def shows_codes() -> bool:
    """Return whether somebody can scan what is printed."""
    return sys.stdout is not None and sys.stdout.isatty()


def _show(found: dict[str, Any]) -> None:
    show_fields(
        {
            "state": found["instance"]["state"],
            "reason": found["instance"].get("reason"),
            "pairing code": found.get("pairingCode"),
            "QR code (text)": found.get("code"),
            "ingest URL": found.get("ingestUrl"),
        }
    )
    if found.get("code") and shows_codes():
        show_drawing(qr_blocks(found["code"]))


def qr_blocks(code: str) -> str:
    """Return a QR code as lines of blocks, for dark and light terminals: scanners read both."""
    import segno  # most commands show no code

    written = io.StringIO()
    segno.make(code, micro=False).terminal(written, border=2, compact=True)
    return written.getvalue().rstrip("\n")
