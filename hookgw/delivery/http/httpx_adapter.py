"""httpx's requests, responses and errors in terms of the transport's, and back. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from hookgw.delivery.http.errors import (
    AnswerFailed,
    DeliveryError,
    Phase,
    SendFailed,
    TimedOut,
)
from hookgw.delivery.http.response import Answer
from hookgw.models.target_url import Target, parse_target

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_OURS = (b"host", b"content-length", b"transfer-encoding")
_TIMEOUTS = {Phase.SEND: httpx.WriteTimeout, Phase.ANSWER: httpx.ReadTimeout}
_DECODED = (b"content-encoding", b"content-length", b"transfer-encoding")


def timeout_of(request: httpx.Request) -> float:
    """The longest of a request's timeouts in seconds; infinite where one of them is ``None``."""
    timeouts = request.extensions.get("timeout", {})
    waits = [timeouts.get(name) for name in ("connect", "read", "write")]
    return math.inf if None in waits else max(waits)


def target_of(request: httpx.Request) -> Target:
    """Where a request goes.

    Raises:
        httpx.UnsupportedProtocol: its URL is not one that :func:`parse_target` takes.
    """
    try:
        return parse_target(str(request.url))
    except ValueError as error:
        raise httpx.UnsupportedProtocol(str(error), request=request) from None


def head_of(request: httpx.Request, target: Target, content_length: int) -> bytes:
    """The head of a request with its own headers; the length is that of the body as it was read.

    Raises:
        httpx.LocalProtocolError: the method, or the name of a header, is no token, or the value of one has a
            line break or control character in it (RFC 9110, sections 5 and 9.1).
    """
    _check(request)
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target.path.encode("ascii"))]
    lines.append(b"host: " + target.host_header.encode("ascii"))
    lines += [name + b": " + value for name, value in request.headers.raw if name.lower() not in _OURS]
    lines.append(b"content-length: %d\r\n\r\n" % content_length)
    return b"\r\n".join(lines)


def _check(request: httpx.Request) -> None:
    method = request.method.encode("ascii", "replace")
    if not _TOKEN.fullmatch(method):
        raise httpx.LocalProtocolError(f"{request.method!r} is no method.", request=request)
    for name, value in request.headers.raw:
        shown = name.decode("ascii", "replace")
        if not _TOKEN.fullmatch(name):
            raise httpx.LocalProtocolError(f"{shown!r} is no name of a header.", request=request)
        if not _VALUE.fullmatch(value):
            raise httpx.LocalProtocolError(
                f"The value of the header {shown} has a line break or control character in it.",
                request=request,
            )


def response_of(answer: Answer, request: httpx.Request) -> httpx.Response:
    """The response that an answer is; what described its codings on the wire is left out."""
    return httpx.Response(
        answer.status,
        headers=[item for item in answer.headers if item[0] not in _DECODED],
        content=answer.body,
        request=request,
        extensions={"http_version": b"HTTP/1.1", "complete": answer.complete},
    )


@contextmanager
def httpx_errors(request: httpx.Request) -> Iterator[None]:
    """Raise a delivery error as the error that httpx's callers know, with it as the cause."""
    try:
        yield
    except DeliveryError as error:
        raise _httpx_class(error)(error.message, request=request) from error


def _httpx_class(error: DeliveryError) -> type[httpx.TransportError]:
    if isinstance(error, TimedOut):
        return _TIMEOUTS.get(error.phase, httpx.ConnectTimeout)
    if isinstance(error, AnswerFailed):
        return httpx.RemoteProtocolError
    return httpx.WriteError if isinstance(error, SendFailed) else httpx.ConnectError
