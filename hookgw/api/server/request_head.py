"""Strict checks of a request's head, against request smuggling. No I/O.

If a proxy and a server disagree about where a request ends, one client's bytes can become another client's
request. So hookgw accepts only heads with one interpretation. Where RFC 9112 lets a server repair a head (a
bare line feed, a folded line, a repeated length), hookgw refuses it, as the RFC allows in each case.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CHUNKED = -1
"""The length of a chunked body."""
MAX_FIELDS = 128
"""Headers in a head, or among trailers. The parser behind this filter needs several microseconds for each,
and a head of 16 KiB has room for 4,000: every such request would hold up all others for 25 ms."""

_REQUEST_LINE = re.compile(rb"[A-Z][A-Z-]{0,31} /[!\"$-~]* HTTP/1\.([01])\r\n")
_OTHER_VERSION = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/(?!1\.[01]\r)\d(?:\.\d)?\r\n")
# Possessive quantifiers: a hostile head cannot make the match backtrack.
_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n)*+\r\n")
_FRAMING_FIELDS = re.compile(rb"\r\n(host|content-length|transfer-encoding|upgrade):([^\r]*)", re.IGNORECASE)
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r]*", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[-._~%!$&'()*+,;=0-9A-Za-z]*)(?::[0-9]{0,5})?")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_TLS_HANDSHAKE = 0x16

_BAD_LINE = (
    "The first line must be a method in capitals, a path that begins with a slash, and HTTP/1.1, with one "
    "space between them (RFC 9112, section 3)."
)
_BAD_FIELD = (
    "Each header must be a name, a colon without a space before it, and a value without control characters, "
    "on one line that ends with CR LF (RFC 9112, section 5)."
)
_TOO_MANY = f"A request may have at most {MAX_FIELDS} headers, and as many trailers."
_BAD_LENGTH = "The content-length must occur once and be a plain number (RFC 9112, section 6.3)."
_BAD_CODING = (
    "The only transfer-encoding is chunked: once, in HTTP/1.1, and without a content-length beside it "
    "(RFC 9112, section 6.1)."
)
_BAD_HOST = "There must be one host header, with a host and optionally a port (RFC 9112, section 3.2)."
_OTHER = "hookgw speaks only HTTP/1.1 and HTTP/1.0."
_WEBSOCKET = "hookgw does not speak WebSocket: send a plain HTTP request."
_TLS = "This is a TLS handshake, but the server speaks plain HTTP: use http:// instead of https://."


class Refused(Exception):
    """A request that hookgw does not accept.

    Args:
        status: of the response.
        message: a sentence that says what would be right.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head(NamedTuple):
    """A valid request head.

    Attributes:
        passed: the head for hypercorn: without an ``upgrade``, which a server may ignore (RFC 9110,
            section 7.8).
        length: the bytes of the body, or :data:`CHUNKED`.
    """

    passed: bytes
    length: int


def read_head(head: bytes) -> Head:
    """Check a head, from its first byte to the end of its blank line.

    Raises:
        Refused: the head breaks a rule: 505 for another version of HTTP, 431 for too many headers, 400 for
            everything else.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise Refused(505, _OTHER) if _OTHER_VERSION.match(head) else Refused(400, _BAD_LINE)
    if head.count(b"\n") - 2 > MAX_FIELDS:  # without the request line and the blank line
        raise Refused(431, _TOO_MANY)
    if not _FIELDS.fullmatch(head, line.end()):
        raise Refused(400, _BAD_FIELD)
    fields: dict[bytes, list[bytes]] = {}
    for name, value in _FRAMING_FIELDS.findall(head):
        fields.setdefault(name.lower(), []).append(value.strip(b" \t"))
    is_http_1_0 = line[1] == b"0"
    _check_host(fields.pop(b"host", []), is_http_1_0)
    passed = _without_upgrade(head, fields.pop(b"upgrade", []))
    return Head(passed, _length(fields, is_http_1_0))


def _check_host(hosts: list[bytes], is_http_1_0: bool) -> None:
    if is_http_1_0 and not hosts:
        return  # HTTP/1.0 has no host header
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise Refused(400, _BAD_HOST)


def _without_upgrade(head: bytes, upgrades: list[bytes]) -> bytes:
    if not upgrades:
        return head
    # hypercorn would answer a WebSocket handshake itself; one byte after it could end the whole server.
    if any(b"websocket" in upgrade.lower() for upgrade in upgrades):
        raise Refused(400, _WEBSOCKET)
    return _UPGRADE.sub(b"", head)


def _length(fields: dict[bytes, list[bytes]], is_http_1_0: bool) -> int:
    lengths = fields.get(b"content-length")
    codings = fields.get(b"transfer-encoding")
    if codings:
        # A length beside chunked is the classic smuggling request (RFC 9112, section 6.1).
        if lengths or is_http_1_0 or len(codings) != 1 or codings[0].lower() != b"chunked":
            raise Refused(400, _BAD_CODING)
        return CHUNKED
    if lengths is None:
        return 0
    if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Refused(400, _BAD_LENGTH)
    return int(lengths[0])


def check_begun(begun: bytes) -> None:
    """Check the beginning of an incomplete head, so that its sender gets an error response at once.

    Raises:
        Refused: it cannot become a valid head.
    """
    # A TLS client sends its handshake and waits; without this check it would wait for header_timeout.
    if not b"A" <= begun[:1] <= b"Z":
        raise Refused(400, _TLS if begun[0] == _TLS_HANDSHAKE else _BAD_LINE)
    if _BARE_LINE_FEED.search(begun):
        raise Refused(400, _BAD_FIELD)


def check_trailers(trailers: bytes) -> None:
    """Check the trailers of a chunked body, to the end of their blank line.

    Raises:
        Refused: the trailers break a rule.
    """
    if trailers.count(b"\n") - 1 > MAX_FIELDS:
        raise Refused(431, _TOO_MANY)
    if not _FIELDS.fullmatch(trailers):
        raise Refused(400, _BAD_FIELD)
