"""The host of a URL, in any spelling, as the one name or address that it means. No I/O.

The rules are those that browsers follow (WHATWG URL Standard, section 3.5, "Host parsing"), so that
an address guard and a person see the same host: percent-encoded, full-width and circled characters,
and IPv4 addresses written as one number, in hexadecimal or in octal, all become the plain form.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import unquote

import idna

_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME = 253


@lru_cache(maxsize=1024)
def parse_host(text: str) -> str:
    """The host that the authority of a URL names.

    Many URLs share a host, and each lane that begins to work reads its URL: so the last hosts are remembered.

    Args:
        text: what stands between user information and port; an IPv6 address in brackets.

    Returns:
        A name in lower-case ASCII (a trailing dot is kept: it makes a name absolute), or an IP address
        in its plain form, without brackets.

    Raises:
        ValueError: it is no host; the message is a sentence.
    """
    if text.startswith("["):
        return _parse_ipv6(text)
    host = _to_ascii(_unquote(text), shown=text)
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _parse_ipv4(labels, shown=text)
    if len(host) > _MAX_NAME + host.endswith(".") or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(
            f"{text!r} is no host name: labels of 1 to 63 letters, digits and hyphens, with dots."
        )
    return host


def _parse_ipv6(text: str) -> str:
    inner = text.removeprefix("[").removesuffix("]")
    if "%" in inner:
        raise ValueError(f"{text!r} has a zone: an address without one is needed.")
    try:
        return str(ipaddress.IPv6Address(inner if text.endswith("]") else text))
    except ValueError:
        raise ValueError(f"{text!r} is no IPv6 address.") from None


def _unquote(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"{text!r} is no host name: its percent-encoding is not UTF-8.") from None


def _to_ascii(text: str, *, shown: str) -> str:
    """IDNA 2008 with the mapping of UTS 46; what is ASCII already is only put in lower case."""
    if text.isascii():
        return text.lower()
    try:
        mapped = idna.uts46_remap(text, std3_rules=False)
        return mapped if mapped.isascii() else idna.encode(mapped).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError(f"{shown!r} is no host name: {error}.") from None


def _parse_ipv4(labels: list[str], *, shown: str) -> str:
    """Up to four numbers, the last of which fills the bytes that are left (as ``inet_aton`` has it)."""
    try:
        *first, last = map(_parse_number, labels)
        if len(labels) > 4 or any(number > 255 for number in first) or last >= 256 ** (5 - len(labels)):
            raise ValueError(shown)
    except ValueError:
        raise ValueError(f"{shown!r} ends in a number but is no IPv4 address.") from None
    value = last + sum(number << (24 - 8 * place) for place, number in enumerate(first))
    return str(ipaddress.IPv4Address(value))


def _parse_number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > 64:
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)
