"""What a request's head must look like, so that nobody in front of us can have read it otherwise. No I/O.

A proxy and a server that disagree about where a request ends can be made to serve one client's bytes as
another's request. So a head has one reading or none: what RFC 9112 lets a server mend (a bare line feed, a
folded line, a repeated length) is refused, as the RFC allows in each case.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CHUNKED = -1
"""The length of a body that comes in chunks."""

_REQUEST_LINE = re.compile(rb"[A-Z][A-Z-]{0,31} /[!\"$-~]* HTTP/1\.([01])\r\n")
_OTHER_VERSION = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/(?!1\.[01]\r)\d(?:\.\d)?\r\n")
_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n)*+\r\n")
_TELLING = re.compile(rb"\r\n(host|content-length|transfer-encoding|upgrade):([^\r]*)", re.IGNORECASE)
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
    "Each header must be a name, a colon right behind it, and a value without control characters, on one "
    "line that ends with CR LF (RFC 9112, section 5)."
)
_BAD_LENGTH = "The content-length must be there once, and be a plain number (RFC 9112, section 6.3)."
_BAD_CODING = (
    "The only transfer-encoding is chunked: once, in HTTP/1.1, and without a content-length beside it "
    "(RFC 9112, section 6.1)."
)
_BAD_HOST = "There must be one host header, with a host and perhaps a port (RFC 9112, section 3.2)."
_OTHER = "Only HTTP/1.1 and HTTP/1.0 are spoken here."
_WEBSOCKET = "hookgw does not speak WebSocket: send a plain HTTP request."
_TLS = "This is a TLS handshake, and plain HTTP is spoken here: use http:// in place of https://."


class Refused(Exception):
    """What came is no request that can be answered.

    Args:
        status: of the answer.
        message: a sentence that says what would be right.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head(NamedTuple):
    """A request's head that is right.

    Attributes:
        passed: the head as the server is to see it: without an ``upgrade``, which a server may ignore
            (RFC 9110, section 7.8).
        length: bytes of body behind it, or :data:`CHUNKED`.
    """

    passed: bytes
    length: int


def read_head(head: bytes) -> Head:
    """Check a head, from its first byte to the end of its blank line.

    Raises:
        Refused: it breaks a rule. 505 for another version of HTTP, 400 for everything else.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise Refused(505, _OTHER) if _OTHER_VERSION.match(head) else Refused(400, _BAD_LINE)
    if not _FIELDS.fullmatch(head, line.end()):
        raise Refused(400, _BAD_FIELD)
    telling: dict[bytes, list[bytes]] = {}
    for name, value in _TELLING.findall(head):
        telling.setdefault(name.lower(), []).append(value.strip(b" \t"))
    is_old = line[1] == b"0"
    _check_host(telling.pop(b"host", []), is_old)
    passed = _without_upgrade(head, telling.pop(b"upgrade", []))
    return Head(passed, _length(telling, is_old))


def _check_host(hosts: list[bytes], is_old: bool) -> None:
    if is_old and not hosts:
        return
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise Refused(400, _BAD_HOST)


def _without_upgrade(head: bytes, upgrades: list[bytes]) -> bytes:
    if not upgrades:
        return head
    if any(b"websocket" in upgrade.lower() for upgrade in upgrades):
        raise Refused(400, _WEBSOCKET)
    return _UPGRADE.sub(b"", head)


def _length(telling: dict[bytes, list[bytes]], is_old: bool) -> int:
    lengths = telling.get(b"content-length")
    codings = telling.get(b"transfer-encoding")
    if codings:
        if lengths or is_old or len(codings) != 1 or codings[0].lower() != b"chunked":
            raise Refused(400, _BAD_CODING)
        return CHUNKED
    if lengths is None:
        return 0
    if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Refused(400, _BAD_LENGTH)
    return int(lengths[0])


def check_begun(begun: bytes) -> None:
    """Check the beginning of a head that is not whole, so that its sender need not wait for the answer.

    Raises:
        Refused: it cannot become a head that is right.
    """
    if not b"A" <= begun[:1] <= b"Z":
        raise Refused(400, _TLS if begun[0] == _TLS_HANDSHAKE else _BAD_LINE)
    if _BARE_LINE_FEED.search(begun):
        raise Refused(400, _BAD_FIELD)


def check_trailers(trailers: bytes) -> None:
    """Check the lines behind a body in chunks, to the end of their blank line.

    Raises:
        Refused: they break a rule.
    """
    if not _FIELDS.fullmatch(trailers):
        raise Refused(400, _BAD_FIELD)
