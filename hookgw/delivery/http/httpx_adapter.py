"""Convert httpx's requests, responses and errors to the transport's, and back. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from hookgw.delivery.http.errors import DeliveryError, Phase, ResponseFailed, SendFailed, TimedOut
from hookgw.delivery.http.response import Response
from hookgw.kernel.rules import NAME_PATTERN
from hookgw.kernel.target_url import Target, parse_target

_TOKEN = re.compile(NAME_PATTERN.encode())
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_FRAMING = (b"host", b"content-length", b"transfer-encoding")
_ENCODING = (b"content-encoding", b"content-length", b"transfer-encoding")
_TIMEOUTS = {Phase.SEND: httpx.WriteTimeout, Phase.RESPONSE: httpx.ReadTimeout}


def longest_timeout(request: httpx.Request) -> float:
    """Return the longest of a request's timeouts, in seconds; infinite if one is ``None``."""
    return max(timeout_of(request, name) for name in ("connect", "read", "write"))


def timeout_of(request: httpx.Request, name: str) -> float:
    """Return one of a request's timeouts, in seconds; infinite if it is ``None``."""
    found: float | None = request.extensions.get("timeout", {}).get(name)
    return math.inf if found is None else found


def request_target(request: httpx.Request) -> Target:
    """Return the target of a request.

    Raises:
        httpx.UnsupportedProtocol: :func:`parse_target` does not accept its URL.
    """
    try:
        return parse_target(str(request.url))
    except ValueError as error:
        raise httpx.UnsupportedProtocol(str(error), request=request) from None


def render_head(request: httpx.Request, target: Target, content_length: int) -> bytes:
    """Render the head of a request with its headers; ``content_length`` is that of the body as read.

    Raises:
        httpx.LocalProtocolError: the method or a header name is not a token, or a header value contains a
            line break or control character (RFC 9110, sections 5 and 9.1).
    """
    # httpx leaves these checks to its own transport. A plugin may pass on what a tenant wrote: with a line
    # break in it, the tenant could add headers, or a whole request, behind the address guard.
    method = request.method.encode("ascii", "replace")
    if not _TOKEN.fullmatch(method):
        raise httpx.LocalProtocolError(f"{request.method!r} is not a valid method.", request=request)
    for name, value in request.headers.raw:
        shown = name.decode("ascii", "replace")
        if not _TOKEN.fullmatch(name):
            raise httpx.LocalProtocolError(f"{shown!r} is not a valid header name.", request=request)
        if not _VALUE.fullmatch(value):
            raise httpx.LocalProtocolError(
                f"The value of the header {shown} contains a line break or control character.",
                request=request,
            )
    lines = [b"%b %b HTTP/1.1" % (method, target.path.encode("ascii"))]
    lines.append(b"host: " + target.host_header.encode("ascii"))
    # A second length or a transfer-encoding beside ours would allow request smuggling (RFC 9112, section
    # 11.2).
    lines += [name + b": " + value for name, value in request.headers.raw if name.lower() not in _FRAMING]
    lines.append(b"content-length: %d\r\n\r\n" % content_length)
    return b"\r\n".join(lines)


def to_httpx(response: Response, request: httpx.Request) -> httpx.Response:
    return httpx.Response(
        response.status,
        # The body is decoded already; with its content-encoding httpx would decode it a second time.
        headers=[item for item in response.headers if item[0] not in _ENCODING],
        content=response.body,
        request=request,
        extensions={"http_version": b"HTTP/1.1"},
    )


@contextmanager
def httpx_errors(request: httpx.Request) -> Iterator[None]:
    """Raise the httpx counterpart of a delivery error, with the original as its cause."""
    try:
        yield
    except DeliveryError as error:
        kind: type[httpx.TransportError] = httpx.ConnectError
        if isinstance(error, TimedOut):
            kind = _TIMEOUTS.get(error.phase, httpx.ConnectTimeout)
        elif isinstance(error, ResponseFailed):
            kind = httpx.RemoteProtocolError
        elif isinstance(error, SendFailed):
            kind = httpx.WriteError
        raise kind(error.message, request=request) from error
