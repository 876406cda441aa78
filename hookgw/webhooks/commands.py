"""``hookgw webhook``: the registrations of an instance."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from hookgw.command.client import Client, call_options, server_options, table_call_options
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.field_options import Decorator, Special, add_options, body_of, options_of
from hookgw.command.fields import read_headers, read_json, read_secret
from hookgw.command.group import CommandGroup
from hookgw.command.job import follow_aloud
from hookgw.command.names import complete_kinds, instance_argument, kinds_option, label_option, tag_option
from hookgw.command.near_names import near_names
from hookgw.command.output import (
    Column,
    ask_on_terminal,
    say,
    show_fields,
    show_json,
    show_next_page,
    show_result,
    show_table,
    show_warnings,
    shown_as_json,
    wants_json,
    yes_option,
)
from hookgw.command.selection import page_options, time_options
from hookgw.command.words import printable, told
from hookgw.kernel.language import N_, ngettext, translated
from hookgw.kernel.language import gettext as _
from hookgw.webhooks.fields import FIELDS, GRACE
from hookgw.webhooks.filter_options import read_conditions, show_condition
from hookgw.webhooks.tls_options import TLS_OPTIONS, take_tls

SHOWN = {
    "url": "URL",
    "label": "label",
    "state": "state",
    "stateReason": "reason",
    **{one.json: one.heading for one in FIELDS if one.shows and one.name not in ("url", "enabled")},
    "createdAt": "created",
    "updatedAt": N_("updated"),
}
"""The headings, by the field of a registration."""
LISTED = {
    "instance": Column("instance", least=10),
    "label": Column("label", least=8),
    "state": Column("state", least=None),
    "events": Column("kinds", least=16, drop=1, wraps=True),
    "url": Column("URL", least=20),
}
"""The columns of a list, by the field of a registration."""
FEW_KINDS = 3
"""Kinds that a line names; of more it has the number."""
_SPECIAL: Special = {
    "headers": (("--header", "headers"), {"multiple": True, "callback": read_headers}),
    "secret": (("--secret",), {"callback": read_secret}),
    "filter": (("--filter",), {"multiple": True, "callback": read_conditions}),
}

of_registration = add_options((instance_argument(), label_option))
"""Adds the instance and the label of a registration."""


@click.group(cls=CommandGroup)
def webhook() -> None:
    """Set, change, list, test and delete registrations."""


def field_options(*, defaults: bool) -> Decorator:
    """Add the options that ``set`` and ``update`` share; ``defaults`` are those of a new registration."""
    options = options_of(FIELDS, _SPECIAL, defaults=defaults)
    no_filter = click.option("--no-filter", is_flag=True, help="Remove the conditions.")
    place = [*options].index("filter") + 1
    return add_options([*[*options.values()][:place], no_filter, *[*options.values()][place:], *TLS_OPTIONS])


@webhook.command("set")
@instance_argument()
@click.argument("url")
@label_option
@kinds_option("events", "Only this kind; repeatable.  [default: all]")
@click.option("--enabled/--disabled", default=True, help="Whether it gets events.  [default: enabled]")
@field_options(defaults=True)
@call_options
def set_(client: Client, instance: str, url: str, label: str | None, **fields: Any) -> None:
    """Register URL for INSTANCE's events.

    If the registration exists, options that you leave out keep their stored values. Exceptions: without
    --kind it gets all kinds, and without --disabled it is enabled. `webhook update` keeps those, too.
    """
    former = None
    if not wants_json():
        try:
            former = client.call("GET", "webhook", "find", instance, label)
        except ServerUnavailable:
            raise
        except Failed:
            pass  # the instance does not exist yet; any other reason comes again with the next call
    tls = take_tls(client, instance, label, fields)
    given = _given(url=url, tls=tls, **fields)
    stored = client.call("POST", "webhook", "set", instance, label, content=msgspec.json.encode(given))
    if former is not None:
        _show_replaced(former, stored)
    _show(stored)


@webhook.command()
@of_registration
@click.option("--url", help="Send deliveries there.")
@kinds_option("events", "Only this kind; repeatable.")
@click.option("--all-kinds", is_flag=True, help="Every kind of event.")
@click.option("--enabled/--disabled", default=None, help="Whether it gets events.")
@field_options(defaults=False)
@call_options
def update(
    client: Client,
    instance: str,
    label: str | None,
    events: tuple[str, ...],
    all_kinds: bool,
    **fields: Any,
) -> None:
    """Change the given options of a registration, and nothing else."""
    if events and all_kinds:
        raise click.UsageError(_("Use --kind or --all-kinds, not both."))
    kinds = list(events) if events or all_kinds else None
    tls = take_tls(client, instance, label, fields)
    given = _given(events=kinds, tls=tls, **fields)
    if not given:
        raise click.UsageError(_("Name at least one option to change, for example --url URL."))
    _change(client, instance, label, given)


@webhook.command()
@of_registration
@click.option("--backfill", is_flag=True, help="First send what it has missed since it was disabled.")
@call_options
def enable(client: Client, instance: str, label: str | None, backfill: bool) -> None:
    """Let a registration get events again.

    With --backfill, it first gets what it has missed, in order, before anything newer.
    """
    given = {"enabled": True, "backfill": True} if backfill else {"enabled": True}
    content = msgspec.json.encode(given)
    stored = client.call("PATCH", "webhook", "set", instance, label, content=content)
    _show(stored)
    if wants_json():
        return
    missed = stored.get("missed")
    if missed is not None and missed["count"]:
        found = ngettext("{n} event", "{n} events", missed["count"])
        events = (
            _("{events} since {since}", events=found, since=missed["since"])
            if missed["complete"]
            else _("{events} or more since {since}", events=found, since=missed["since"])
        )
        if not backfill:
            say(
                _(
                    "It has missed {events}. To send that now: hookgw webhook backfill {instance}{text} "
                    "--since {missed}",
                    events=events,
                    instance=instance,
                    text=f" --label {label}" if label else "",
                    missed=missed["since"],
                )
            )
        elif "job" not in stored:
            say(_("What it has missed ({events}) is sent first.", events=events))
    if backfill and "job" in stored:
        done = follow_aloud(client, stored["job"], "Backfilled")["done"]
        say(_("Backfilled {things}.", things=ngettext("{n} event", "{n} events", done)))


@webhook.command()
@of_registration
@call_options
def disable(client: Client, instance: str, label: str | None) -> None:
    """Stop sending events to a registration.

    Its pending deliveries become dead letters, which can be replayed.
    """
    _change(client, instance, label, {"enabled": False})


def _given(*, no_filter: bool, **fields: Any) -> dict[str, Any]:
    """Return the fields to send. The API reads a missing field as "keep the stored value"."""
    if no_filter:
        if fields["filter"] is not None:
            raise click.UsageError(_("Use --filter or --no-filter, not both."))
        fields["filter"] = []
    return body_of(FIELDS, fields)


def _change(client: Client, instance: str, label: str | None, given: dict[str, Any]) -> None:
    content = msgspec.json.encode(given)
    _show(client.call("PATCH", "webhook", "set", instance, label, content=content))


@webhook.command("list")
@instance_argument(required=False)
@tag_option("Without INSTANCE: only of instances that carry this tag; repeatable, all must match.")
@page_options("Registrations per page, without INSTANCE.")
@table_call_options
def list_(
    client: Client,
    instance: str | None,
    tags: tuple[str, ...],
    limit: int | None,
    cursor: str | None,
) -> None:
    """List the registrations of INSTANCE.

    Without INSTANCE, list those of all instances that the key reaches, or of those with the tags. A key that
    reaches everything also gets those of the configuration.
    """
    query = {"limit": limit, "cursor": cursor, "tag": tags}
    if instance is not None and tags:
        raise click.UsageError(
            _("--tag is for the list of all instances. Leave it out if you name an instance.")
        )
    if instance is not None and limit is not None:
        raise click.UsageError(
            _("--limit is for the list of all instances. Leave it out if you name an instance.")
        )
    page = client.page("registrations", "webhook", "list", instance, query=query)
    if shown_as_json(page):
        return
    show_table(
        tuple(LISTED.values()),
        (
            [one[name] if name != "events" else _kinds(one) for name in LISTED]
            for one in page["registrations"]
        ),
    )
    show_next_page(page)


@webhook.command()
@of_registration
@call_options
def find(client: Client, instance: str, label: str | None) -> None:
    """Show a registration; exit code 1 if there is none."""
    stored = client.call("GET", "webhook", "find", instance, label)
    if stored is not None:
        _show(stored)
        return
    # Also with exit code 1, standard output must be JSON.
    if wants_json():
        show_json(None)
    none = _("No URL is registered for {instance!r}{label_suffix}.", **_named(instance, label))
    raise Failed(none, *near_names(client.call, click.get_current_context()))


@webhook.command()
@of_registration
@yes_option
@server_options
def delete(client: Client, instance: str, label: str | None, yes: bool) -> None:
    """Delete a registration.

    On a terminal, it asks first. Its pending deliveries become dead letters. If that takes long, the command
    shows the progress.
    """
    ask_on_terminal(
        _(
            "Delete the registration of {instance!r}{label_suffix}? Its pending deliveries become dead "
            "letters.",
            **_named(instance, label),
        ),
        is_sure=yes,
    )
    deleted = client.call("DELETE", "webhook", "delete", instance, label)
    if "job" in deleted:
        follow_aloud(client, deleted["job"], "Dead letters")
    say(_("Deleted the registration of {instance!r}{label_suffix}.", **_named(instance, label)))


@webhook.command()
@of_registration
@click.option(
    "--kind",
    shell_complete=complete_kinds,
    help="The kind of the event.  [default: the first that the registration wants]",
)
@click.option(
    "--data",
    metavar="JSON",
    callback=read_json,
    help="Its data: JSON, @FILE, or - for standard input.  [default: the example of the kind]",
)
@call_options
def test(
    client: Client,
    instance: str,
    label: str | None,
    kind: str | None,
    data: msgspec.Raw | None,
) -> None:
    """Send a test event; exit code 0 if it is delivered.

    The event is sent at once, outside the lane.
    """
    body = {name: value for name, value in (("event", kind), ("data", data)) if value is not None}
    content = msgspec.json.encode(body) if body else None
    show_attempt(client.call("POST", "webhook", "test", instance, label, content=content))


def show_attempt(attempt: dict[str, Any]) -> None:
    """Show an attempt outside a lane.

    Raises:
        Failed: it was not delivered.
    """
    if not shown_as_json(attempt):
        show_fields(
            {
                "outcome": attempt["outcome"],
                "status": attempt["status"],
                "duration": f"{attempt['duration']:g} ms",
                "error": attempt["error"],
                "response": attempt["answer"] or None,
            }
        )
    if attempt["outcome"] != "delivered":
        raise Failed(
            told(attempt["error"] or "")
            or _("The event was not delivered (outcome: {outcome}).", outcome=translated(attempt["outcome"]))
        )


@webhook.command()
@of_registration
@call_options
def secret(client: Client, instance: str, label: str | None) -> None:
    """Print the secret that verifies deliveries.

    With v1a signatures, print the public key instead.
    """
    _show_secret(client.call("GET", "webhook", "secret", instance, label))


@webhook.command("public-key")
@of_registration
@call_options
def public_key(client: Client, instance: str, label: str | None) -> None:
    """Print the public key that verifies v1a signatures."""
    _show_secret(client.call("GET", "webhook", "publicKey", instance, label))


@webhook.command("rotate-secret")
@of_registration
@add_options(options_of((GRACE,), {}).values())
@call_options
def rotate_secret(client: Client, instance: str, label: str | None, grace: str | None) -> None:
    """Generate a new signing secret and print it.

    With v1a signatures, print its public key instead. During the grace period, deliveries are signed with
    both the old and the new secret, so that the receiver can change without a gap.
    """
    response = client.call("POST", "webhook", "rotateSecret", instance, label, body={"grace": grace})
    _show_secret(response)


@webhook.command()
@of_registration
@server_options
def pause(client: Client, instance: str, label: str | None) -> None:
    """Let deliveries wait, in order, until you resume.

    New events wait, too. A restart does not end the pause, and a pause does not make deliveries too old.
    """
    client.call("POST", "webhook", "pause", instance, label)
    say(_("Deliveries of {instance!r}{label_suffix} wait until you resume.", **_named(instance, label)))


@webhook.command()
@of_registration
@server_options
def resume(client: Client, instance: str, label: str | None) -> None:
    """End a pause, and retry waiting deliveries now."""
    client.call("POST", "webhook", "resume", instance, label)
    say(_("Deliveries of {instance!r}{label_suffix} are sent now.", **_named(instance, label)))


@webhook.command()
@of_registration
@time_options(
    "Events accepted since a time, or since 10m, 2h, 3d ago. Required, except with --cancel.",
    "Only events accepted until then.  [default: now]",
)
@kinds_option("events", "Only events of this kind; repeatable.")
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    callback=read_conditions,
    metavar="CONDITION",
    help="Only events that meet this condition, as of `webhook update`; repeatable.",
)
@click.option("--dead", is_flag=True, help="Send its dead letters of that time again, too.")
@click.option("--dry-run", is_flag=True, help="Only say how many events that would be.")
@click.option("--cancel", is_flag=True, help="End the backfill that is under way.")
@call_options
def backfill(
    client: Client,
    instance: str,
    label: str | None,
    since: str | None,
    until: str | None,
    events: tuple[str, ...],
    conditions: list[Any] | None,
    dead: bool,
    dry_run: bool,
    cancel: bool,
) -> None:
    """Send a webhook what it has missed, before newer events.

    \b
        hookgw webhook backfill loja1 --since 2h --dry-run
        hookgw webhook backfill loja1 --label crm --since 3d --until 1d

    They come in their original order, behind what is pending now. Ctrl-C ends the command, not the backfill.
    """
    if cancel:
        if since or until or events or conditions or dead or dry_run:
            raise click.UsageError(_("With --cancel, the options that select events have no meaning."))
        ended = client.call("DELETE", "webhook", "backfill", instance, label)
        things = ngettext("{n} event", "{n} events", ended["backfilled"])
        show_result(ended, _("Ended. {things} had been backfilled.", things=things))
        return
    if since is None:
        raise click.UsageError(_("Say since when, for example --since 2h."))
    chosen = {"until": until, "events": list(events), "filter": conditions, "dead": dead, "dryRun": dry_run}
    body = {"since": since} | {name: value for name, value in chosen.items() if value}
    found = client.call("POST", "webhook", "backfill", instance, label, body=body)
    if not dry_run and "job" in found:
        found = {"backfilled": follow_aloud(client, found["job"], "Backfilled")["done"]}
    if wants_json():
        show_json(found)
    elif "backfilled" in found:
        say(_("Backfilled {things}.", things=ngettext("{n} event", "{n} events", found["backfilled"])))
    elif found["count"]:
        say(_("{things} would be sent:", things=ngettext("{n} event", "{n} events", found["count"])))
        show_fields({name: f"{found[name]['id']}, {found[name]['time']}" for name in ("first", "last")})
    else:
        say(_("It has missed nothing."))


def _show_secret(response: dict[str, Any]) -> None:
    # Nothing else on the line: scripts write $(hookgw webhook secret loja1).
    show_result(response, response.get("secret") or response["publicKey"])


def _named(instance: str, label: str | None) -> dict[str, str]:
    """Return the values of a sentence about a registration."""
    return {"instance": instance, "label_suffix": f", label {label!r}" if label else ""}


def _show_replaced(former: dict[str, Any], stored: dict[str, Any]) -> None:
    """Print a line for each field that a ``set`` always replaces, if it changed."""
    pairs = {
        "URL": (former["url"], stored["url"]),
        "state": (former["state"], stored["state"]),
    }
    if former["events"] != stored["events"]:
        pairs["events"] = (_kinds(former), _kinds(stored))
    for name, (old, new) in pairs.items():
        if old != new:
            say(
                _(
                    "Replaced the {name}: {url} -> {printable2}",
                    name=name,
                    url=printable(old),
                    printable2=printable(new),
                )
            )


def _kinds(registration: dict[str, Any]) -> str:
    kinds = registration["events"]
    return printable(kinds) if len(kinds) <= FEW_KINDS else f"{len(kinds)} kinds"


def _show(stored: dict[str, Any]) -> None:
    if shown_as_json(stored):
        return
    fields = {}
    for name, heading in SHOWN.items():
        value = stored.get(name)
        if isinstance(value, dict):  # headers, retry rules and plugin options; empty ones are left out
            pairs = ((key, inner) for key, inner in value.items() if inner is not None)
            if name == "tls":  # not the certificates themselves, which have many lines
                pairs = ((key, "PEM" if "-----BEGIN" in inner else inner) for key, inner in value.items())
            value = ", ".join(f"{key}: {printable(inner)}" for key, inner in pairs) or None
        if name == "filter":
            value = "; ".join(map(show_condition, value or ())) or None
        fields[heading] = value
    show_fields(fields)
    show_warnings(stored)
