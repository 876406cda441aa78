"""Parses the values of options: JSON, headers, keys, times. Each ``read_…`` function is a click callback."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime
from pathlib import Path

import click
import msgspec

from hookgw.command.target import read_secret_line
from hookgw.kernel.json_text import why_refused
from hookgw.kernel.language import gettext as _
from hookgw.kernel.signing_keys import PUBLIC, SYMMETRIC, VerifyingKey, verifying_key
from hookgw.kernel.times import parse_rfc3339, rfc3339
from hookgw.kernel.units import parse_duration

MIN_INTERVAL = 0.1
PAGE = click.IntRange(1, 1000)
"""The type of ``--limit``: how many items a page of the API can have."""


def read_json(_ctx: click.Context, _param: click.Parameter, value: str | None) -> msgspec.Raw | None:
    """Read JSON from the argument, from a file (``@name``), or from standard input (``-``)."""
    if value is None:
        return None
    try:
        if value == "-":
            content = sys.stdin.buffer.read()
        elif value.startswith("@"):
            content = Path(value[1:]).read_bytes()
        else:
            # An argument may contain bytes that are not UTF-8; the JSON check reports them.
            content = value.encode(errors="surrogateescape")
        msgspec.json.decode(content)
    except OSError as error:
        raise click.BadParameter(
            _("cannot read {file}: {reason}.", file=value.removeprefix("@"), reason=error.strerror)
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = why_refused(content, error)
        reason = (
            reason.removeprefix("is not JSON: ") if reason.startswith("is not JSON: ") else f"it {reason}"
        )
        raise click.BadParameter(_("this is not JSON: {error}.", error=reason)) from error
    except RecursionError as error:
        raise click.BadParameter(_("this JSON is nested too deeply.")) from error
    # The checked bytes themselves are sent: decoding would change the spelling of numbers (1e2, integers
    # beyond 2**53) that the receiver is to get unchanged.
    return msgspec.Raw(content)


def read_headers(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Read headers in the form ``NAME: VALUE``. Return ``None`` if there are none."""
    headers: dict[str, str] = {}
    for value in values:
        name, colon, content = value.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(_("this is not a header. Write NAME: VALUE."))
        if name.strip() in headers:
            raise click.BadParameter(_("{option} is given twice; it takes one value.", option=name.strip()))
        headers[name.strip()] = content.strip()
    # `None` leaves the stored headers as they are; an empty object would delete them.
    return headers or None


def read_keys(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[VerifyingKey, ...]:
    """Read signing secrets (``whsec_…``), or with ``--public-key`` public keys (``whpk_…``)."""
    is_public = param.name == "public_keys"
    if not values and str(param.envvar) in os.environ:
        # The command that should have printed it failed: nothing would be verified.
        values = ("",)
    # A line of standard input, so that the secret is in no list of processes.
    values = tuple(read_secret_line("Key") if value == "-" else value for value in values)
    prefix, command = (PUBLIC, "public-key") if is_public else (SYMMETRIC, "secret")
    try:
        if all(value.startswith(prefix) for value in values):
            return tuple(map(verifying_key, values))
    except ValueError:
        pass
    # The value itself is not repeated: a mistyped secret is still a secret.
    kind = "a public key" if is_public else "a secret"
    raise click.BadParameter(
        _(
            "{kind} has the form {prefix}… in base64. `hookgw webhook {command} INSTANCE` prints it.",
            kind=kind,
            prefix=prefix,
            command=command,
        )
    )


def read_secret(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Read a secret; ``-`` stands for a line of standard input, so that it is in no list of processes."""
    if value != "-":
        return value
    line = read_secret_line(str(param.name).capitalize())
    if not line:  # an empty one would stand for "none" or "make one"
        raise click.BadParameter(_("standard input has no line for {name}.", name=param.name))
    return line


class Ago(float):
    """So many seconds before now. ``server_options`` makes a time of it, by the gateway's clock."""


def read_time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | Ago | None:
    """Read a time as :func:`read_moment` does, or a duration before now (``10m``, ``2h``, ``3d``)."""
    if value is None:
        return None
    try:
        try:
            ago = Ago(parse_duration(value))
        except ValueError:
            return _in_utc(value)
        rfc3339(time.time() - ago)  # raises if there is no such year
    except (ValueError, OverflowError, OSError) as error:
        raise click.BadParameter(
            _(
                "{value!r} is not a time. Write 2026-11-20T12:00:00Z, or a duration before now: 10m, 2h, 3d.",
                value=value,
            )
        ) from error
    return ago


def read_moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Read an RFC 3339 time; without an offset, it is in the local zone. Return RFC 3339 in UTC."""
    try:
        return None if value is None else _in_utc(value)
    except (ValueError, OverflowError, OSError) as error:
        raise click.BadParameter(
            _("{value!r} is not a time. Write 2026-12-31T00:00:00Z.", value=value)
        ) from error


def _in_utc(text: str) -> str:
    seconds = parse_rfc3339(text)
    # The API takes a time without an offset to be in UTC. People mean the zone of the times in tables.
    moment = datetime.fromisoformat(text.upper())
    return rfc3339(moment.timestamp() if moment.tzinfo is None else seconds)


def read_interval(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """Read a polling interval (``500ms``, ``2s``) in seconds, at least 100 ms."""
    try:
        length = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error
    if length < MIN_INTERVAL:
        raise click.BadParameter(_("the interval must be at least 100ms, not {length}.", length=length))
    return length
