"""The options ``--tls-…`` of ``hookgw webhook``: the field ``tls``, from files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from hookgw.cli.client import Client
from hookgw.cli.failure import Failed, ServerUnavailable
from hookgw.webhooks.tls import TLS_PARTS


def _read_pem(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Read a file, or standard input (``-``)."""
    if value is None:
        return None
    try:
        content = sys.stdin.buffer.read() if value == "-" else Path(value).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"cannot read {value}: {error.strerror}.") from error
    return content.decode("utf-8", "replace")


def _file(option: str, text: str) -> Any:
    return click.option(option, metavar="FILE", callback=_read_pem, help=text)


TLS_OPTIONS = (
    _file("--tls-ca", "PEM file: trust only these authorities for the receiver's certificate."),
    _file("--tls-certificate", "PEM file: present this certificate to the receiver."),
    _file("--tls-key", "PEM file: the key of that certificate; - reads it from standard input."),
    click.option(
        "--tls-server-name", metavar="NAME", help="Name in the receiver's certificate; '' removes it."
    ),
    click.option("--no-tls", is_flag=True, help="Remove all that the --tls options have set."),
)

_FIELDS = {part.form.name: part.json for part in TLS_PARTS if part.form}


def take_tls(
    client: Client, instance: str, label: str | None, fields: dict[str, Any]
) -> dict[str, str] | None:
    """Take the options out of ``fields``, and return the field ``tls`` to send; ``None`` for no change.

    The API replaces the field as a whole. So what is stored goes back with what is given, the key masked.

    Raises:
        click.UsageError: ``no_tls`` and another option are given.
    """
    removes = fields.pop("no_tls")
    given = {name: value for option, name in _FIELDS.items() if (value := fields.pop(option)) is not None}
    if removes and given:
        raise click.UsageError("Use --no-tls or the other --tls options, not both.")
    if removes:
        return {}
    if not given:
        return None
    try:
        stored = client.call("GET", "webhook", "find", instance, label) or {}
    except ServerUnavailable:
        raise
    except Failed:
        stored = {}  # the instance does not exist yet; any other reason comes again with the next call
    return {name: value for name, value in {**stored.get("tls", {}), **given}.items() if value}
