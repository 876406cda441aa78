"""Reads the host of a URL in any spelling, and returns its plain form. No I/O.

The rules are those that browsers follow (WHATWG URL Standard, section 3.5, "Host parsing"), so that an
address guard and a person see the same host: percent-encoded, full-width and circled characters, and IPv4
addresses written as one number, in hexadecimal or in octal, all become the plain form.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import unquote

import idna

from hookgw.kernel.sentences import Sentence

# Underscores are not in RFC 1123 host names, but Docker and Kubernetes give services such names.
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# RFC 1035, section 2.3.4: 255 bytes on the wire are 253 characters.
_MAX_NAME = 253


# Many registrations share a host, and each lane parses its URL when it starts working.
@lru_cache(maxsize=1024)
def parse_host(text: str) -> str:
    """Return the host of a URL in its plain form.

    Args:
        text: the part of the URL between user information and port; an IPv6 address in brackets.

    Returns:
        A name in lower-case ASCII (a trailing dot is kept: it makes a name absolute), or an IP address in its
        plain form, without brackets.

    Raises:
        ValueError: the text is not a host; the message is a sentence.
    """
    if text.startswith("["):
        inner = text.removeprefix("[").removesuffix("]")
        # A zone (fe80::1%eth0) names an interface of this machine, which a URL must not choose. Browsers
        # refuse zones too.
        if "%" in inner:
            raise ValueError(
                Sentence("host.zone", "{host!r} has a zone: use an address without one.", host=text)
            )
        try:
            return str(ipaddress.IPv6Address(inner if text.endswith("]") else text))
        except ValueError:
            raise ValueError(
                Sentence("host.not_ipv6", "{host!r} is not an IPv6 address.", host=text)
            ) from None
    try:
        host = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(
            Sentence(
                "host.not_utf8", "{host!r} is not a host name: its percent-encoding is not UTF-8.", host=text
            )
        ) from None
    if not host.isascii():
        # IDNA 2008 with the mapping of UTS 46. The standard library has IDNA 2003, which turns ß into ss and
        # would connect to another host than a browser does.
        try:
            mapped = idna.uts46_remap(host, std3_rules=False)
            host = mapped if mapped.isascii() else idna.encode(mapped).decode("ascii")
        except idna.IDNAError as error:
            raise ValueError(
                Sentence("host.not_idna", "{host!r} is not a host name: {reason}.", host=text, reason=error)
            ) from None
    host = host.lower()
    labels = host.removesuffix(".").split(".")
    # The last label decides (WHATWG, "ends in a number checker"): "1.2.3.0x4" must not reach the resolver as
    # a name, because getaddrinfo would read it as an address that the guard has not seen.
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return _parse_ipv4(labels)
        except ValueError:
            raise ValueError(
                Sentence("host.not_ipv4", "{host!r} ends in a number but is not an IPv4 address.", host=text)
            ) from None
    if len(host) > _MAX_NAME + host.endswith(".") or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(
            Sentence(
                "host.form",
                "{host!r} is not a host name: use labels of 1 to 63 letters, digits and hyphens, with dots.",
                host=text,
            )
        )
    return host


def _parse_ipv4(labels: list[str]) -> str:
    numbers = []
    for label in labels:
        # int() is quadratic in the number of digits, and refuses more than 4,300 of them.
        if not _NUMBER.fullmatch(label) or len(label) > 64:
            raise ValueError(label)
        if label.startswith("0x"):
            numbers.append(int(label[2:] or "0", 16))
        else:
            numbers.append(int(label, 8 if len(label) > 1 and label.startswith("0") else 10))
    *first, last = numbers
    # As inet_aton has it: the last number fills all remaining bytes, so 127.1 is 127.0.0.1.
    if len(labels) > 4 or any(number > 255 for number in first) or last >= 256 ** (5 - len(labels)):
        raise ValueError(labels)
    value = last + sum(number << (24 - 8 * place) for place, number in enumerate(first))
    return str(ipaddress.IPv4Address(value))
