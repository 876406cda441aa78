"""The HTTP client for plugins: httpx's interface, with the address guard under every request."""

from __future__ import annotations

from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import trio

from hookgw._version import __version__
from hookgw.delivery.http.httpx_adapter import timeout_of
from hookgw.delivery.http.transport import LaneTransport

MAX_PLUGIN_REQUESTS = 100
"""Concurrent requests of all plugins together; further requests wait."""

MAX_PLUGIN_ANSWER = 2**20
"""Bytes of a (decoded) response body that are read."""

ENCODINGS = "gzip, deflate"
"""The encodings of response bodies that are accepted."""


class GuardedClient(httpx.AsyncClient):
    """A client whose connections pass the address guard, which is in its transport.

    Args:
        timeout: default seconds.
        headers: of every request, beside the usual ones.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, *, timeout: float, **headers: str) -> None:
        super().__init__(
            transport=transport,
            timeout=timeout,
            follow_redirects=False,
            # A proxy or .netrc of the environment would lead requests past the guard, or add credentials.
            trust_env=False,
            # Plugins or instances share a client, so a cookie that one got must not be sent for another.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers={"user-agent": f"hookgw/{__version__}", "accept-encoding": ENCODINGS, **headers},
        )


def guarded_client(make_transport: Callable[[], LaneTransport], *, timeout: float) -> httpx.AsyncClient:
    """Make a client for any number of tasks, behind the address guard. The caller owns and closes it.

    It follows no redirects unless a request asks for it; each redirect then passes the guard too. Beside
    httpx's own errors it raises ``httpx.ConnectError`` if the guard refuses, and
    ``httpx.RemoteProtocolError`` if a response exceeds :data:`MAX_PLUGIN_ANSWER` or is cut off.

    Args:
        make_transport: makes the connection for one request; the client closes it.
        timeout: default seconds for a whole request.
    """
    return GuardedClient(_GuardedTransport(make_transport), timeout=timeout, connection="close")


class _GuardedTransport(httpx.AsyncBaseTransport):
    # A connection per request, not a pool: on a reused connection a request may be sent twice, and plugins,
    # unlike receivers of deliveries, have no webhook-id that makes repeats harmless.
    def __init__(self, make_transport: Callable[[], LaneTransport]) -> None:
        self._make_transport = make_transport
        self._limiter = trio.CapacityLimiter(MAX_PLUGIN_REQUESTS)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        transport = self._make_transport()
        timeout = timeout_of(request, "pool")
        try:
            with trio.fail_after(timeout):
                # On behalf of the transport: one task of a plugin may make several requests at once.
                await self._limiter.acquire_on_behalf_of(transport)
        except trio.TooSlowError:
            raise httpx.PoolTimeout(
                f"{MAX_PLUGIN_REQUESTS} requests were in progress for {timeout:g} s.", request=request
            ) from None
        try:
            return await transport.handle_async_request(request)
        finally:
            transport.close_nowait()
            self._limiter.release_on_behalf_of(transport)
