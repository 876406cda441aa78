"""The headers that a registration sends with every delivery: their rules. No I/O."""

from __future__ import annotations

import re
from typing import Any

from hookgw.models.errors import Invalid
from hookgw.models.masking import MASK, is_masked, without_user
from hookgw.parsing.fields import as_object, kind_of, show_name

MAX_HEADERS = 32
MAX_BYTES = 4096
"""Of all names and values together."""

NAME_PATTERN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
VALUE_PATTERN = r"(?:[!-~](?:[ \t!-~]*[!-~])?)?"

_TOKEN = re.compile(NAME_PATTERN, re.ASCII)
_VALUE = re.compile(VALUE_PATTERN, re.ASCII)
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OWN = frozenset({"host", "content-length"})


def check_headers(value: Any, where: str) -> dict[str, str]:
    """A registration's headers: names are tokens, values field values (RFC 9110, section 5).

    Values are held to visible ASCII, spaces and tabs, which is what that section recommends to senders.

    Raises:
        Invalid: with everything that is wrong with any of them.
    """
    headers = as_object(value, where)
    problems = [problem for name, text in headers.items() for problem in _problems(name, text, where)]
    names = [name.lower() for name in headers]
    twins = {name for name in names if names.count(name) > 1} if len(names) <= MAX_HEADERS else set()
    problems += [f"{where}: {name} is there twice, in different capitals." for name in sorted(twins)]
    if len(headers) > MAX_HEADERS:
        problems = [f"{where} has {len(headers):,} headers; at most {MAX_HEADERS} are taken."]
    if problems:
        raise Invalid(*problems)
    size = sum(len(name) + len(text) for name, text in headers.items())
    if size > MAX_BYTES:
        raise Invalid(f"{where} has {size:,} bytes of names and values; at most {MAX_BYTES:,} are taken.")
    return headers


def _problems(name: str, value: Any, where: str) -> list[str]:
    place = f"{where}.{show_name(name)}"
    if not _TOKEN.fullmatch(name):
        return [f"{where}: {show_name(name)!r} is no header name: use letters, digits, '-' and '_'."]
    low = name.lower()
    if low in _OWN or low in _HOP_BY_HOP or low.startswith("webhook-"):
        return [f"{place} cannot be set: hookgw writes it itself."]
    if not isinstance(value, str):
        return [f"{place} must be a string, not {kind_of(value)}."]
    if not _VALUE.fullmatch(value):
        return [f"{place} must be visible ASCII with spaces or tabs only inside, and no line breaks."]
    return []


def unmask_url(given: str, stored: str | None, where: str = "url") -> str:
    """The URL with its masked user and password put back to the stored ones.

    Raises:
        Invalid: they are masked, and the stored URL is another, or there is none.
    """
    if not is_masked(given):
        return given
    if stored is None or without_user(stored) != without_user(given):
        raise Invalid(
            f"{where}: its user and password are masked, and no such URL is stored: write them out."
        )
    return stored


def unmask_headers(given: dict[str, str], stored: dict[str, str], where: str = "headers") -> dict[str, str]:
    """The headers with every masked value put back to the stored one.

    So a client may read a registration, change it, and send all of it back.

    Raises:
        Invalid: a header is masked that is not stored.
    """
    known = {name.lower(): value for name, value in stored.items()}
    missing = [name for name, value in given.items() if value == MASK and name.lower() not in known]
    if missing:
        raise Invalid(
            *(f"{where}.{name} is masked, and no value of it is stored: send one." for name in missing)
        )
    return {name: known[name.lower()] if value == MASK else value for name, value in given.items()}
