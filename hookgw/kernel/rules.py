"""Rules for URLs, secrets and headers, and for their masks that clients send back. No I/O."""

from __future__ import annotations

import re
from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import MASKED, NOT_STRING, as_object, as_text, check_count, kind_of, show_name
from hookgw.kernel.masking import MASK, is_masked, without_user
from hookgw.kernel.schema_parts import Schema
from hookgw.kernel.schemes import HTTP_PORTS, PULL_URL, scheme_of
from hookgw.kernel.sentences import Sentence, sentence_of
from hookgw.kernel.signing_keys import Secret, check_secret_form
from hookgw.kernel.target_url import parse_destination, parse_target

# Receivers commonly refuse a request head of more than 8 KiB; hookgw's own headers need a part of it.
MAX_HEADERS = 32
_TOO_MANY = Sentence.declared(
    "headers.too_many", "{where} has {count:,} headers; at most {most} are allowed."
)
# Of all names and values together.
MAX_BYTES = 4096

# RFC 9110, section 5.6.2: a token. Section 5.5: visible ASCII, spaces and tabs inside, which is what it
# recommends to senders; no line break can end the header and start another one.
NAME_PATTERN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
VALUE_PATTERN = r"(?:[!-~](?:[ \t!-~]*[!-~])?)?"

_TOKEN = re.compile(NAME_PATTERN, re.ASCII)
_VALUE = re.compile(VALUE_PATTERN, re.ASCII)
# RFC 9110, section 7.6.1. A registration that sets them could smuggle a second request to the receiver.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"}
    | {"te", "trailer", "transfer-encoding", "upgrade"}
)
# "expect" asks the receiver for a 100 before the body, which hookgw does not wait for.
_OWN = frozenset({"host", "content-length", "expect"})
_OF_DELIVERY = frozenset({"x-event-type", "x-instance-name", "x-attempt", "x-edited-from"})
"""Headers that say which delivery it is. Plugins may change them."""


def check_custom_headers(value: Any, where: str) -> dict[str, str]:
    """Check the headers of a registration, by :func:`check_headers`: none may be a delivery's own."""
    return check_headers(value, where, _OF_DELIVERY)


def check_headers(value: Any, where: str, reserved: frozenset[str] = frozenset()) -> dict[str, str]:
    """Check headers that a registration or a plugin adds to a request (RFC 9110, section 5).

    Args:
        reserved: further names to refuse, in lower case. Some names are always refused.

    Raises:
        Invalid: a name or value cannot be sent, a name is reserved, or the headers are too many or too long.
    """
    headers = as_object(value, where)
    check_count(headers, MAX_HEADERS, where, _TOO_MANY)
    problems: list[Sentence] = []
    names = [name.lower() for name in headers]
    for name, text in headers.items():
        low, place = name.lower(), f"{where}.{show_name(name)}"
        if not _TOKEN.fullmatch(name):
            form = "use letters, digits, '-' and '_'"
            problems.append(
                Sentence(
                    "headers.name_invalid",
                    "{where}: {name!r} is not a header name: {form}.",
                    where=where,
                    name=show_name(name),
                    form=form,
                )
            )
        elif low in reserved or low in _OWN or low in HOP_BY_HOP or low.startswith("webhook-"):
            problems.append(
                Sentence("headers.reserved", "{where} cannot be set: hookgw writes it itself.", where=place)
            )
        elif not isinstance(text, str):
            problems.append(NOT_STRING(where=place, kind=kind_of(text)))
        elif not _VALUE.fullmatch(text):
            problems.append(
                Sentence(
                    "headers.value_invalid",
                    "{where} must be visible ASCII with spaces or tabs only inside, and no line breaks.",
                    where=place,
                )
            )
    twins = {name for name in names if names.count(name) > 1}
    problems += [
        Sentence(
            "headers.repeated",
            "{where}: {name} appears twice, in different capitals.",
            where=where,
            name=name,
        )
        for name in sorted(twins)
    ]
    if problems:
        raise Invalid(*problems)
    size = sum(len(name) + len(text) for name, text in headers.items())
    if size > MAX_BYTES:
        raise Invalid.of(
            "headers.too_long",
            "{where} has {bytes:,} bytes of names and values; at most {most:,} are allowed.",
            where=where,
            bytes=size,
            most=MAX_BYTES,
        )
    return headers


def unmask_url(given: str, stored: str | None) -> str:
    """Replace a masked user and password with the stored ones. Raise ``Invalid`` if another URL is stored."""
    if not is_masked(given):
        return given
    # Only for the same URL: otherwise a caller that may set a registration, but not read its password, could
    # send the stored password to another host.
    if stored is None or without_user(stored) != without_user(given):
        raise Invalid.of(
            "url.masked",
            "{where}: user and password are masked, but no such URL is stored: send them in full.",
            where="url",
        )
    return stored


def unmask_headers(given: dict[str, str], stored: dict[str, str]) -> dict[str, str]:
    """Replace masked header values with the stored ones. Raise ``Invalid`` if one is not stored."""
    known = {name.lower(): value for name, value in stored.items()}
    missing = [name for name, value in given.items() if value == MASK and name.lower() not in known]
    if missing:
        raise Invalid(*(MASKED(where=f"headers.{name}") for name in missing))
    return {name: known[name.lower()] if value == MASK else value for name, value in given.items()}


def check_destination(value: Any, where: str) -> str:
    """Check the URL of an enabled registration: of HTTP, of a scheme that a plugin may bring, or ``pull:``.

    Only the plugins know whether one does; see ``check_registration`` of the hooks.
    """
    url = as_text(value, where)
    try:
        target = parse_destination(url)
    except ValueError as error:
        raise Invalid(sentence_of(error).at(f"{where}: ")) from None
    # As pasted behind the https:// of a field. Not a rule of the parser: what is stored must stay readable.
    if target.host in HTTP_PORTS and target.path.startswith("//"):
        raise Invalid.of(
            "url.twice",
            "{where}: The URL begins with http:// or https:// twice. Remove one of them.",
            where=where,
        )
    if scheme_of(url) == "pull" and url != PULL_URL:
        raise Invalid.of(
            "url.pull_reserved",
            "{where}: The scheme pull is reserved: {pull_url} alone is for a receiver that fetches.",
            where=where,
            pull_url=PULL_URL,
        )
    return url


def check_url(value: Any, where: str) -> str:
    """Check a URL of HTTP that deliveries can go to."""
    url = as_text(value, where)
    try:
        parse_target(url)
    except ValueError as error:
        raise Invalid(sentence_of(error).at(f"{where}: ")) from None
    return url


def check_secret(value: Any, where: str) -> Secret:
    """Check a signing secret in a form of Standard Webhooks: ``whsec_…``, or ``whsk_…`` for ed25519."""
    text = as_text(value, where)
    try:
        check_secret_form(text)
    except ValueError as error:
        raise Invalid.of("secret.form", "{where} {reason}", where=where, reason=error) from None
    return Secret(text)


HEADERS: Schema = {
    "type": "object",
    "maxProperties": MAX_HEADERS,
    "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
    "additionalProperties": {"type": "string", "pattern": f"^{VALUE_PATTERN}$"},
    "description": "Headers: their values by name.",
}
