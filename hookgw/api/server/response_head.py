"""The head of a response. No I/O.

Each line is checked once more here: a line break in a value, of a plugin or a messaging network, would be a
response of its own for the client.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from typing import NamedTuple

from hookgw.api.server.errors import VERSION_HEADER

BODILESS = frozenset({204, 304})
"""Statuses of responses that have no body, and no headers about one (RFC 9110, section 8.6)."""
FIXED = b"%b: %b\r\nx-content-type-options: nosniff\r\n" % VERSION_HEADER
"""Lines of every response."""

_FIELDS = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++: ?[\t -~\x80-\xff]*+\r\n)*+")
_NO_STORE = b"cache-control: no-store\r\n"


class ResponseHead(NamedTuple):
    """The head of a response.

    Attributes:
        data: the bytes, to the end of the blank line.
        length: the announced bytes of the body; ``None`` if it is chunked, or ends with the connection.
        is_chunked: whether each part of the body is a chunk.
    """

    data: bytes
    length: int | None
    is_chunked: bool


def response_head(
    status: int, headers: Iterable[tuple[bytes, bytes]], fixed: bytes, *, is_http_1_1: bool, closes: bool
) -> ResponseHead:
    """Return the head of a response.

    Args:
        status: from 200.
        headers: of the application. ``connection`` and ``transfer-encoding`` are the server's, and left out.
        fixed: further lines.
        is_http_1_1: whether the client understands chunks.
        closes: whether the connection is closed after the response.

    Raises:
        ValueError: a name or a value has bytes that no header may have.
    """
    lines: list[bytes] = []
    length: int | None = 0 if status in BODILESS else None
    is_stored = False
    for given, value in headers:
        name = given.lower()
        if name == b"content-length":
            length = int(value)
        elif name == b"cache-control":
            is_stored = True
        elif name in (b"connection", b"transfer-encoding"):
            continue
        lines.append(b"%b: %b\r\n" % (name, value))
    fields = b"".join(lines)
    if not _FIELDS.fullmatch(fields) or fields.count(b"\n") != len(lines):
        raise ValueError("A header of the response has bytes that it must not have.")
    is_chunked = length is None and is_http_1_1
    return ResponseHead(
        # The reason phrase is empty, which RFC 9112, section 4 allows.
        b"HTTP/1.1 %d \r\n%b%b%b%b%bdate: %b\r\n\r\n"
        % (
            status,
            fields,
            fixed,
            b"" if is_stored else _NO_STORE,
            b"transfer-encoding: chunked\r\n" if is_chunked else b"",
            b"connection: close\r\n" if closes else b"",
            _date(int(time.time())),
        ),
        length,
        is_chunked,
    )


@lru_cache(maxsize=1)  # formatting a time costs more than the rest of a head
def _date(now: int) -> bytes:
    return formatdate(now, usegmt=True).encode()
