"""The head of a response. No I/O.

Each line is checked once more here: a line break in a value, from a plugin or a messaging network, would
begin another response for the client.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from typing import NamedTuple

from hookgw.web.server.errors import VERSION_HEADER, phrase_of

BODILESS = frozenset({204, 304})
"""Statuses of responses that have no body, and no headers about one (RFC 9110, section 8.6)."""
FIXED = (VERSION_HEADER, (b"x-content-type-options", b"nosniff"))
"""Headers of every response."""
FIXED_OVER_TLS = (*FIXED, (b"strict-transport-security", b"max-age=31536000"))
"""Headers of every response over TLS."""

_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++: ?[\t -~\x80-\xff]*+\r\n)*+")
_OF_CONNECTION = (b"connection", b"transfer-encoding")
_FEW = 2
_NO_STORE = (b"cache-control", b"no-store")
_NO_STORE_LINE = b"%b: %b\r\n" % _NO_STORE


class ResponseHead(NamedTuple):
    """The head of a response.

    Attributes:
        length: the announced bytes of the body; ``None`` if it is chunked, or ends with the connection.
    """

    data: bytes
    length: int | None
    is_chunked: bool


def response_head(
    status: int, headers: Iterable[tuple[bytes, bytes]], fixed: bytes, *, is_http_1_1: bool, closes: bool
) -> ResponseHead:
    """Return the head of a response.

    Args:
        headers: of the application. The server sets ``connection`` and ``transfer-encoding``, so these are
            left out.

    Raises:
        ValueError: a name or a value has bytes that no header may have.
    """
    given = tuple(headers)
    # Many responses of a second differ in nothing but their bodies. Those with more headers may have secrets.
    render = _known_head if len(given) <= _FEW else _render_head
    return render(status, given, fixed, is_http_1_1, closes, int(time.time()))


def _render_head(
    status: int,
    headers: tuple[tuple[bytes, bytes], ...],
    fixed: bytes,
    is_http_1_1: bool,
    closes: bool,
    now: int,
) -> ResponseHead:
    lines: list[bytes] = []
    length: int | None = 0 if status in BODILESS else None
    is_stored = False
    for given, value in headers:
        name = given.lower()
        if name == b"content-length":
            length = int(value)
        elif name == b"cache-control":
            is_stored = True
        elif name in _OF_CONNECTION:
            continue
        lines.append(b"%b: %b\r\n" % (name, value))
    fields = b"".join(lines)
    _check(fields, len(lines))
    is_chunked = length is None and is_http_1_1
    return ResponseHead(
        # RFC 9112, section 4 allows an empty reason phrase. Some clients take that for a failure.
        b"HTTP/1.1 %d %b\r\n%b%b%b%b%bdate: %b\r\n\r\n"
        % (
            status,
            phrase_of(status).encode(),
            fields,
            fixed,
            b"" if is_stored else _NO_STORE_LINE,
            b"transfer-encoding: chunked\r\n" if is_chunked else b"",
            b"connection: close\r\n" if closes else b"",
            _date(now),
        ),
        length,
        is_chunked,
    )


_known_head = lru_cache(maxsize=256)(_render_head)


def response_fields(
    headers: Iterable[tuple[bytes, bytes]], fixed: Iterable[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response if another server writes its head; see :func:`response_head`."""
    fields = [(name.lower(), value) for name, value in headers if name.lower() not in _OF_CONNECTION]
    _check(lines_of(fields), len(fields))
    if not any(name == _NO_STORE[0] for name, _ in fields):
        fields.append(_NO_STORE)
    return [*fields, *fixed]


def lines_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % field for field in fields)


def _check(lines: bytes, count: int) -> None:
    if not _FIELDS.fullmatch(lines) or lines.count(b"\n") != count:
        raise ValueError("A header of the response has bytes that it must not have.")


@lru_cache(maxsize=1)  # formatting a time costs more than the rest of a head
def _date(now: int) -> bytes:
    return formatdate(now, usegmt=True).encode()
