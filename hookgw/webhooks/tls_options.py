"""The options ``--tls-…`` of ``hookgw webhook``: the field ``tls``, from files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from hookgw.command.client import Client
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.webhooks.tls import TLS_PARTS


def _read_pem(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        content = sys.stdin.buffer.read() if value == "-" else Path(value).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"cannot read {value}: {error.strerror}.") from error
    if not content.strip():  # sent, it would remove what is stored
        raise click.BadParameter(f"{'standard input' if value == '-' else value} is empty.")
    return content.decode("utf-8", "replace")


_PARTS = {part.form.name: part for part in TLS_PARTS if part.form}

TLS_OPTIONS = (
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            metavar=part.option.metavar,
            type=click.Path() if part.option.metavar == "FILE" else None,
            callback=_read_pem if part.option.metavar == "FILE" else None,
            help=part.option.help,
        )
        for name, part in _PARTS.items()
        if part.option
    ),
    click.option("--no-tls", is_flag=True, help="Remove all that the --tls options have set."),
)


def take_tls(
    client: Client, instance: str, label: str | None, fields: dict[str, Any]
) -> dict[str, str] | None:
    """Take the options out of ``fields``, and return the field ``tls`` to send; ``None`` for no change.

    The API replaces the field as a whole. So the stored parts go back with the given ones, the key masked.
    """
    removes = fields.pop("no_tls")
    given = {part.json: value for name, part in _PARTS.items() if (value := fields.pop(name)) is not None}
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
