"""``hookgw webhook``: the registrations of an instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from hookgw.cli.client import Client, server_options
from hookgw.cli.failure import Failed
from hookgw.cli.fields import read_headers, read_json
from hookgw.cli.output import json_option, printable, show_fields, show_json, show_warnings

SHOWN = {
    "url": "URL",
    "label": "label",
    "state": "state",
    "stateReason": "because",
    "events": "events",
    "webhookByEvents": "kind in path",
    "webhookBase64": "base64",
    "headers": "headers",
    "signature": "signature",
    "ordering": "ordering",
    "concurrency": "concurrency",
    "timeout": "timeout",
    "retry": "retry",
    "plugins": "plugins",
    "createdAt": "created",
    "updatedAt": "changed",
}


@click.group()
def webhook() -> None:
    """Set, find, test and delete an instance's registrations."""


def label_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option ``--label``."""
    return click.option("--label", help="A further, named registration.  [default: default]")(command)


def _path(verb: str, instance: str, label: str | None) -> tuple[str, ...]:
    return ("webhook", verb, instance) if label is None else ("webhook", verb, instance, label)


@webhook.command("set")
@click.argument("instance")
@click.argument("url")
@label_option
@click.option(
    "--event", "events", multiple=True, metavar="KIND", help="Only this kind; repeatable.  [default: all]"
)
@click.option("--enabled/--disabled", default=True, help="Whether it hears anything.  [default: enabled]")
@click.option("--by-events/--no-by-events", default=None, help="Add the kind to the URL's path.")
@click.option("--base64/--no-base64", default=None, help="Ask connectors to put media into the event.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    callback=read_headers,
    help="Sent with every delivery; repeatable.",
)
@click.option("--secret", help="whsec_…, or whsk_… for v1a; at first one is generated.")
@click.option("--signature", type=click.Choice(["v1", "v1a"]), help="HMAC-SHA256, or ed25519; at first v1.")
@click.option(
    "--ordering", type=click.Choice(["url", "instance", "chat", "none"]), help="How much order is kept."
)
@click.option("--concurrency", type=click.IntRange(1), help="Deliveries in parallel, for chat and none.")
@click.option("--timeout", metavar="DURATION", help="Of a whole attempt, for example 10s.")
@click.option("--retry", metavar="JSON", callback=read_json, help="Retry rules of its own.")
@click.option("--plugins", metavar="JSON", callback=read_json, help="Options of plugins, by plugin name.")
@server_options
@json_option
def set_(
    client: Client,
    instance: str,
    url: str,
    label: str | None,
    by_events: bool | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Have INSTANCE's events posted to URL.

    What is not named keeps its stored value, except the kinds (without --event they are all) and --enabled.
    """
    change = {"url": url, "byEvents": by_events, **fields}
    given = {name: value for name, value in change.items() if value is not None}
    stored = client.call("POST", *_path("set", instance, label), content=msgspec.json.encode(given))
    _show(stored, as_json)


@webhook.command()
@click.argument("instance")
@label_option
@server_options
@json_option
def find(client: Client, instance: str, label: str | None, as_json: bool) -> None:
    """Show what is set; exit code 1 where nothing is."""
    stored = client.call("GET", *_path("find", instance, label))
    if stored is not None:
        _show(stored, as_json)
        return
    if as_json:
        show_json(None)
    raise Failed(f"Nothing is registered for {instance!r}{_named(label)}.")


@webhook.command()
@click.argument("instance")
@label_option
@server_options
def delete(client: Client, instance: str, label: str | None) -> None:
    """Delete it; what is pending becomes dead letters."""
    client.call("DELETE", *_path("delete", instance, label))
    click.echo(f"Deleted the registration of {instance!r}{_named(label)}.")


@webhook.command()
@click.argument("instance")
@label_option
@server_options
@json_option
def test(client: Client, instance: str, label: str | None, as_json: bool) -> None:
    """Send a test event now; exit code 0 if it was delivered."""
    attempt = client.call("POST", *_path("test", instance, label))
    if as_json:
        show_json(attempt)
    else:
        show_fields(attempt)
    if attempt["outcome"] != "delivered":
        raise Failed(attempt.get("error") or f"The outcome was {attempt['outcome']}.")


@webhook.command()
@click.argument("instance")
@label_option
@server_options
@json_option
def secret(client: Client, instance: str, label: str | None, as_json: bool) -> None:
    """Print what verifies the deliveries.

    That is the secret that signs them, or with v1a the public key.
    """
    _show_secret(client.call("GET", *_path("secret", instance, label)), as_json)


@webhook.command("public-key")
@click.argument("instance")
@label_option
@server_options
@json_option
def public_key(client: Client, instance: str, label: str | None, as_json: bool) -> None:
    """Print the public key that verifies v1a signatures."""
    _show_secret(client.call("GET", *_path("publicKey", instance, label)), as_json)


@webhook.command("rotate-secret")
@click.argument("instance")
@label_option
@click.option(
    "--grace", metavar="DURATION", help="How long the old one goes on signing beside it.  [default: 24h]"
)
@server_options
@json_option
def rotate_secret(client: Client, instance: str, label: str | None, grace: str | None, as_json: bool) -> None:
    """Make a new secret, and print what verifies it.

    That is the secret, or with v1a its public key. The old one goes on signing beside it for the grace.
    """
    body = {"grace": grace} if grace else {}
    _show_secret(client.call("POST", *_path("rotateSecret", instance, label), body=body), as_json)


@webhook.command()
@click.argument("instance")
@label_option
@server_options
def resume(client: Client, instance: str, label: str | None) -> None:
    """Try again now, where the lane waits or is paused."""
    client.call("POST", *_path("resume", instance, label))
    click.echo(f"The lane of {instance!r}{_named(label)} tries again now.")


def _show_secret(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        click.echo(answer.get("secret") or answer["publicKey"])


def _named(label: str | None) -> str:
    return f", label {label!r}" if label else ""


def _show(stored: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(stored)
        return
    show_fields({shown: _plain(stored.get(name)) for name, shown in SHOWN.items()})
    show_warnings(stored)


def _plain(value: Any) -> Any:
    """A table of options as text, without those that are not set; ``None`` where nothing is."""
    if not isinstance(value, dict):
        return value
    given = {name: inner for name, inner in value.items() if inner is not None}
    return ", ".join(f"{name}: {printable(inner)}" for name, inner in given.items()) or None
