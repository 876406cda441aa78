"""Strict reading of a request's head, against request smuggling. No I/O.

If a proxy and a server disagree about where a request ends, one client's bytes can become another client's
request. So hookgw accepts only heads with one interpretation. Where RFC 9112 lets a server repair a head (a
bare line feed, a folded line, a repeated length), hookgw refuses it, as the RFC allows in each case.

Two readers must agree on each head: the checks here, and llhttp (``httptools``), which takes it apart. llhttp
alone is not strict enough. For example, it accepts any number of ``host`` headers, a fragment in the target,
two spaces in the first line, and chunks in HTTP/1.0; and what it accepts changes between its versions.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools

from hookgw.kernel.sentences import Sentence

CHUNKED = -1
"""The length of a chunked body."""
MAX_FIELDS = 128
"""Headers in a head, or among trailers. A head of 16 KiB has room for 4,000, and the routes look at each."""

_REQUEST_LINE = re.compile(rb"([A-Z][A-Z-]{0,31}) (/[!\"$-~]*|(?i:https?)://[!\"$-~]++) HTTP/1\.([01])\r\n")
_OTHER_VERSION = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/(?!1\.[01]\r)\d(?:\.\d)?\r\n")
# Possessive quantifiers: a hostile head cannot make the match backtrack.
_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n)*+\r\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")
HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[-._~%!$&'()*+,;=0-9A-Za-z]*)(?::[0-9]{0,5})?")
_AUTHORITY = re.compile(rb"[^:]+://([^/?]*)")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_TLS_HANDSHAKE = b"\x16"
# Versions 1 and 2; of the latter, the reader has taken the first of its three line ends for a blank line.
_PROXY_PROTOCOL = (b"PROXY ", b"\r\n\0\r\nQUIT\n")
_ANY_LINE = b"GET / HTTP/1.1\r\n"

_BAD_LINE = Sentence(
    "http.request_line",
    "The first line must be a method in capitals, a path that begins with a slash (or an http URL), and "
    "HTTP/1.1, with one space between them (RFC 9112, section 3).",
)
_BAD_FIELD = Sentence(
    "http.header_line",
    "Each header must be a name, a colon without a space before it, and a value without control characters, "
    "on one line that ends with CR LF (RFC 9112, section 5).",
)
_TOO_MANY = Sentence(
    "http.too_many_headers",
    "A request may have at most {most} headers, and as many trailers.",
    most=MAX_FIELDS,
)
_BAD_LENGTH = Sentence(
    "http.content_length", "The content-length must occur once and be a plain number (RFC 9112, section 6.3)."
)
_BAD_CODING = Sentence(
    "http.transfer_encoding",
    "The only transfer-encoding is chunked: once, in HTTP/1.1, and without a content-length beside it "
    "(RFC 9112, section 6.1).",
)
_BAD_HOST = Sentence(
    "http.host", "There must be one host header, with a host and optionally a port (RFC 9112, section 3.2)."
)
_BAD_URL = Sentence(
    "http.url", "The URL in the first line must have a host, and no user (RFC 9110, section 4.2)."
)
_OTHER = Sentence("http.version", "hookgw speaks only HTTP/1.1 and HTTP/1.0.")
_WEBSOCKET = Sentence("http.websocket", "hookgw does not speak WebSocket: send a plain HTTP request.")
_TLS = Sentence(
    "http.tls_handshake",
    "This is a TLS handshake, but the server speaks plain HTTP: use http:// instead of https://.",
)
_PLAIN_HTTP = Sentence(
    "http.plain_on_tls", "This is plain HTTP, but the server speaks TLS: use https:// instead of http://."
)

_PROXY = Sentence(
    "http.proxy_protocol",
    "This is the PROXY protocol, which hookgw does not speak: switch it off in the proxy (send-proxy in "
    "HAProxy), and let it send x-forwarded-for.",
)


class Refused(Exception):
    """A request that hookgw does not accept.

    Args:
        message: a sentence that says what would be right.
    """

    def __init__(self, status: int, message: Sentence) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head(NamedTuple):
    """A valid request head.

    Attributes:
        raw_path, query: as sent, without the scheme and host of an absolute-form target.
        version: ``1.0`` or ``1.1``.
        fields: names in lower case and values, without ``upgrade``, which a server may ignore (RFC 9110,
            section 7.8). The host of an absolute-form target stands for that of the header (RFC 9112, section
            3.2.2).
        length: the bytes of the body, or :data:`CHUNKED`.
        is_last: whether the client sends no request after this one.
        awaits_continue: whether the client sends the body only after ``100 Continue``.
        notes: facts noted about the head; see :class:`~hookgw.web.server.client.Client`.
    """

    method: str
    path: str
    raw_path: bytes
    query: bytes
    version: str
    fields: tuple[tuple[bytes, bytes], ...]
    length: int
    is_last: bool
    awaits_continue: bool
    notes: dict[str, Any]


class _Fields:
    """The parts of a head as llhttp finds them; httptools sets the names of the methods."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.found.append((name.lower(), value.rstrip(b" \t")))


def read_head(head: bytes) -> Head:  # noqa: C901 -- reads once from top to bottom
    """Read a head, from its first byte to the end of its blank line.

    Raises:
        Refused: the head breaks a rule: 505 for another version of HTTP, 431 for too many headers, 400 for
            everything else.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise Refused(505, _OTHER) if _OTHER_VERSION.match(head) else Refused(400, _fault_of_line(head))
    fields = _read_fields(head, line.end())
    version = "1.0" if line[3] == b"0" else "1.1"
    hosts, lengths, codings, upgrades, connection, expect = [], [], [], [], b"", b""
    for name, value in fields:
        if name == b"host":
            hosts.append(value)
        elif name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings.append(value)
        elif name == b"upgrade":
            upgrades.append(value)
        elif name == b"connection":
            connection += value + b","
        elif name == b"expect":
            expect += value + b","
    # HTTP/1.0 has no host header, so it may be missing there.
    if (hosts or version == "1.1") and (len(hosts) != 1 or not HOST.fullmatch(hosts[0])):
        raise Refused(400, _BAD_HOST)
    if upgrades:
        if any(b"websocket" in upgrade.lower() for upgrade in upgrades):
            raise Refused(400, _WEBSOCKET)
        fields = [field for field in fields if field[0] != b"upgrade"]
    target = line[2]
    if not target.startswith(b"/"):
        host, target = _split_url(target)
        fields = [(b"host", host), *(field for field in fields if field[0] != b"host")]
    raw_path, _, query = target.partition(b"?")
    return Head(
        method=line[1].decode("ascii"),
        path=unquote(raw_path.decode("ascii")),
        raw_path=raw_path,
        query=query,
        version=version,
        fields=tuple(fields),
        length=_length(lengths, codings, version),
        is_last=version == "1.0" or _has(connection, b"close"),
        awaits_continue=version == "1.1" and _has(expect, b"100-continue"),
        notes={},
    )


def _split_url(url: bytes) -> tuple[bytes, bytes]:
    """Return the host of an http URL, with its port, and the target in origin-form."""
    authority = _AUTHORITY.match(url)
    if authority is None or authority[1][:1] in (b"", b":") or not HOST.fullmatch(authority[1]):
        raise Refused(400, _BAD_URL)
    target = url[authority.end() :]
    return authority[1], target if target.startswith(b"/") else b"/" + target


def _fault_of_line(begun: bytes) -> Sentence:
    if begun.startswith(_PROXY_PROTOCOL):
        return _PROXY
    return _TLS if begun.startswith(_TLS_HANDSHAKE) else _BAD_LINE


def told_without_tls(begun: bytes) -> Sentence | None:
    """Return what to tell a client that began so where TLS is spoken; ``None`` if it may speak TLS."""
    if begun.removeprefix(b"\r\n").startswith(_PROXY_PROTOCOL):
        return _PROXY
    return _PLAIN_HTTP if begun[:1].isalpha() else None  # OpenSSL knows five methods


def _read_fields(head: bytes, at: int) -> list[tuple[bytes, bytes]]:
    if head.count(b"\n") - 2 > MAX_FIELDS:  # without the request line and the blank line
        raise Refused(431, _TOO_MANY)
    if not _FIELDS.fullmatch(head, at):
        raise Refused(400, _BAD_FIELD)
    fields = _Fields()
    try:
        # llhttp knows few methods. The first line was read above, so llhttp gets another, with GET.
        httptools.HttpRequestParser(fields).feed_data(_ANY_LINE + head[at:])
    except httptools.HttpParserUpgrade:
        pass  # it has read all headers, and found an offer to upgrade
    except httptools.HttpParserError as error:
        # Each line is valid, so only the combination of headers can be at fault: lengths and codings.
        reason = _BAD_CODING if b"\ntransfer-encoding:" in head.lower() else _BAD_LENGTH
        raise Refused(400, reason) from error
    return fields.found


def _length(lengths: list[bytes], codings: list[bytes], version: str) -> int:
    if codings:
        # A length beside chunked is the classic smuggling request (RFC 9112, section 6.1).
        if lengths or version == "1.0" or len(codings) != 1 or codings[0].lower() != b"chunked":
            raise Refused(400, _BAD_CODING)
        return CHUNKED
    if not lengths:
        return 0
    if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Refused(400, _BAD_LENGTH)
    return int(lengths[0])


def _has(values: bytes, wanted: bytes) -> bool:
    """Return whether a comma-separated list has a value, in any case."""
    return bool(values) and any(value.strip() == wanted for value in values.lower().split(b","))


def check_begun(begun: bytes) -> None:
    """Check the beginning of an incomplete head, so that its sender gets an error response at once.

    Raises:
        Refused: it cannot become a valid head. The status is that of the whole head.
    """
    # A TLS client sends its handshake and waits; without this check it would wait for header_timeout.
    if not b"A" <= begun[:1] <= b"Z":
        raise Refused(400, _fault_of_line(begun))
    if _BARE_LINE_FEED.search(begun):
        raise Refused(505, _OTHER) if _OTHER_VERSION.match(begun) else Refused(400, _BAD_FIELD)


def check_trailers(trailers: bytes) -> None:
    """Check the trailers of a chunked body, to the end of their blank line; raise :class:`Refused`."""
    if trailers.count(b"\n") - 1 > MAX_FIELDS:
        raise Refused(431, _TOO_MANY)
    if not _FIELDS.fullmatch(trailers):
        raise Refused(400, _BAD_FIELD)
