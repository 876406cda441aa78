"""Passes a request on to another server, as ``hookgw listen --forward-to`` does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple

import click
import httpx
import trio

from hookgw.delivery.http.client_tls import default_ssl_context
from hookgw.testing.received import Received

TIMEOUT = 30.0
"""Seconds for a whole exchange: longer than hookgw waits unless it is told to."""
MAX_ANSWER = 64 * 1024
"""Bytes of a response that are passed back; hookgw reads no more."""
_BODY_TIME = 2.0
"""Seconds for the body of a response: hookgw waits meanwhile, and sends the event again after its timeout."""

# RFC 9110, section 7.6.1: about one connection, not about the message. And what httpx sets itself.
_OWN = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("host", "content-length", "expect"),
    }
)
_PASSED_BACK = ("content-type", "retry-after", "location")


class Forwarded(NamedTuple):
    """The response of the other server.

    Attributes:
        status: 502 if there is no response.
        headers: only the headers that hookgw reads.
        body: its beginning.
        seconds: how long the exchange took.
        error: why there is no response; ``None`` if there is one.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    error: str | None


def read_target(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check the URL of an option, for click."""
    if value is not None:
        try:
            target_url(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


@asynccontextmanager
async def open_forwarder(url: str) -> AsyncIterator[Forwarder]:
    """Yield a forwarder to a URL, as for :class:`Forwarder`."""
    # Loading the machine's certificates takes 0.1 s: skip it for http.
    is_https = target_url(url).scheme == "https"
    async with httpx.AsyncClient(
        # Not through a proxy of the environment: the other server is nearly always on this machine.
        trust_env=False,
        verify=default_ssl_context() if is_https else False,
        timeout=TIMEOUT,
        # A server may close an idle connection just when a request comes, which looks as if it had begun the
        # work and died of it.
        limits=httpx.Limits(max_keepalive_connections=0),
    ) as client:
        yield Forwarder(url, client)


class Forwarder:
    """Passes requests on, with a client that the caller closes.

    Args:
        url: an http or https URL. With a path, every request goes to exactly this URL; without one, requests
            keep their own path and query.

    Raises:
        ValueError: the URL is not one.
    """

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = target_url(url)
        self._client = client

    async def forward(self, request: Received) -> Forwarded:
        extensions = {}
        if self._url.path == "/" and not self._url.query:
            target = _path_of(request.target)
            if target is None or request.method == "CONNECT":
                return Forwarded(HTTPStatus.BAD_REQUEST, {}, b"", 0.0, "this is a request to a proxy")
            # Not in the URL, which httpx would refuse or change. As bytes, because it may be no text.
            extensions["target"] = target.encode("latin-1")
        # A separate request, not client.request: that would add the client's headers.
        headers = [
            (name.encode(), value.encode("latin-1")) for name, value in request.headers if name not in _OWN
        ]
        message = httpx.Request(
            request.method, self._url, headers=headers, content=request.body, extensions=extensions
        )
        began = trio.current_time()
        error: str | None = f"no response within {TIMEOUT:g} s"
        # As a proxy says it: 504 if the server may have done the work, so that hookgw follows its schedule,
        # and 502 if it cannot have, so that hookgw waits for it.
        status: int = HTTPStatus.GATEWAY_TIMEOUT
        body, passed = b"", dict[str, str]()
        with trio.move_on_after(TIMEOUT) as scope:
            try:
                response = await self._client.send(message, stream=True)
                # From here on the status stands, whatever becomes of the body, as in hookgw.
                status, error = response.status_code, None
                scope.deadline = min(scope.deadline, trio.current_time() + _BODY_TIME)
                # As the receiver writes them again: a header may be no text.
                sent = {name.lower(): value.decode("latin-1") for name, value in response.headers.raw}
                passed = {name: sent[name.encode()] for name in _PASSED_BACK if name.encode() in sent}
                try:
                    # To the end: httpx's generators must not be left half-read under Trio.
                    async for part in response.aiter_raw():
                        body += part[: MAX_ANSWER - len(body)]
                finally:
                    await response.aclose()
            except httpx.HTTPError as problem:
                if error is not None:
                    error = str(problem) or type(problem).__name__
                if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout):
                    status = HTTPStatus.BAD_GATEWAY
        return Forwarded(status, passed, body, trio.current_time() - began, error)


def _path_of(target: str) -> str | None:
    """Return path and query of a request's target (RFC 9112, section 3.2); ``None`` if it has none."""
    if target.startswith("/"):
        return target
    scheme, _, rest = target.partition("://")
    if scheme.lower() not in ("http", "https"):
        return None  # OPTIONS *, or host and port for CONNECT
    return f"/{rest.partition('/')[2]}"


def target_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("this is not an http or https URL, for example http://127.0.0.1:3000/hook.")
    return url
