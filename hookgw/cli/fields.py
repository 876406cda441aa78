"""What options may hold: JSON, headers, moments. Each function is the ``callback`` of an option."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import msgspec

from hookgw.models.clock import parse_rfc3339, rfc3339
from hookgw.models.signing_keys import PUBLIC, SYMMETRIC, VerifyingKey, verifying_key
from hookgw.models.units import parse_duration

SHORTEST_INTERVAL = 0.1


def read_json(_ctx: click.Context, _param: click.Parameter, value: str | None) -> msgspec.Raw | None:
    """JSON as it is: in the argument, ``@`` and a file's name, or ``-`` for standard input.

    The bytes are checked and passed on untouched, so that the order of keys and the spelling of
    numbers survive.
    """
    if value is None:
        return None
    content = read_source(value)
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"this is not JSON: {error}") from error
    except RecursionError as error:
        raise click.BadParameter("this JSON is nested too deep.") from error
    return msgspec.Raw(content)


def read_source(value: str) -> bytes:
    """The bytes that ``-``, ``@file`` or the argument itself stand for."""
    if value == "-":
        return sys.stdin.buffer.read()
    if not value.startswith("@"):
        return value.encode(errors="surrogateescape")
    try:
        return Path(value[1:]).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"cannot read {value[1:]}: {error.strerror}.") from error


def read_headers(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Headers as they are written on the wire, ``NAME: VALUE``; ``None`` where there are none."""
    headers = {}
    for value in values:
        name, colon, content = value.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter("a header without a colon; write NAME: VALUE.")
        headers[name.strip()] = content.strip()
    return headers or None


def read_secrets(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[VerifyingKey, ...]:
    """Signing secrets, or public keys (``--public-key``), in the form of Standard Webhooks, as keys."""
    is_public = param.name == "public_keys"
    prefix, command = (PUBLIC, "public-key") if is_public else (SYMMETRIC, "secret")
    try:
        if all(value.startswith(prefix) for value in values):
            return tuple(map(verifying_key, values))
    except ValueError:
        pass
    what = "a public key" if is_public else "a secret"
    raise click.BadParameter(f"{what} is {prefix} and base64; `hookgw webhook {command} INSTANCE` prints it.")


def read_moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A time as RFC 3339, or how long ago (``10m``, ``2h``, ``3d``); given on as RFC 3339 in UTC."""
    if value is None:
        return None
    try:
        return rfc3339(_moment(value))
    except (ValueError, OverflowError, OSError) as error:
        raise click.BadParameter(
            f"{value!r} is no time; write 2026-11-20T12:00:00Z, or how long ago: 10m, 2h, 3d."
        ) from error


def read_interval(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """How long to wait between two looks (``500ms``, ``2s``), in seconds; at least 100 ms."""
    try:
        length = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error
    if length < SHORTEST_INTERVAL:
        raise click.BadParameter(f"it must be at least 100ms, not {length}.")
    return length


def _moment(value: str) -> float:
    try:
        return time.time() - parse_duration(value)
    except ValueError:
        return parse_rfc3339(value)
