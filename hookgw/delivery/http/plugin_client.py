"""An HTTP client for plugins: httpx's face, with the address guard under every request."""

from __future__ import annotations

import math
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import trio

from hookgw._version import __version__
from hookgw.delivery.http.transport import LaneTransport

MAX_AT_ONCE = 100
"""Requests that may be under way at once; further ones wait for their turn."""

MAX_ANSWER = 2**20
"""Bytes of a (decoded) answer's body that are read."""

_HEADERS = {
    "user-agent": f"hookgw/{__version__}",
    "accept-encoding": "gzip, deflate",
    "connection": "close",
}


def guarded_client(connection: Callable[[], LaneTransport], *, patience: float) -> httpx.AsyncClient:
    """A client for any number of tasks, whose every connection passes the address guard.

    It follows no redirects, unless a request asks for it; then each of them passes the guard too. It reads
    no proxies or credentials from the environment and keeps no cookies, so that those who share it stay
    apart.

    Args:
        connection: makes the connection of one request, which is closed with it: on a connection that is
            used again, a request could be sent twice.
        patience: seconds that a whole request may take, unless it says otherwise.

    Returns:
        A client; the caller owns and closes it. Beside httpx's own errors it raises ``httpx.ConnectError``
        where the guard refuses, and ``httpx.RemoteProtocolError`` for an answer that is over
        :data:`MAX_ANSWER`, or cut off.
    """
    return httpx.AsyncClient(
        transport=_GuardedTransport(connection),
        timeout=patience,
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        headers=_HEADERS,
    )


class _GuardedTransport(httpx.AsyncBaseTransport):
    """Sends each request over a connection of its own. It owns nothing that outlives a request."""

    def __init__(self, connection: Callable[[], LaneTransport]) -> None:
        self._connection = connection
        self._turns = trio.CapacityLimiter(MAX_AT_ONCE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        connection = self._connection()
        await self._wait_for_turn(connection, request)
        try:
            response = await connection.handle_async_request(request)
        finally:
            connection.close_nowait()
            self._turns.release_on_behalf_of(connection)
        if not response.extensions["complete"]:
            raise httpx.RemoteProtocolError(
                f"The answer was over {MAX_ANSWER} bytes, cut off, or not there in time.", request=request
            )
        return response

    async def _wait_for_turn(self, connection: LaneTransport, request: httpx.Request) -> None:
        patience = request.extensions.get("timeout", {}).get("pool")
        try:
            with trio.fail_after(math.inf if patience is None else patience):
                await self._turns.acquire_on_behalf_of(connection)
        except trio.TooSlowError:
            raise httpx.PoolTimeout(
                f"{MAX_AT_ONCE} requests were under way for {patience:g} s.", request=request
            ) from None
