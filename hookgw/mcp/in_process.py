"""Requests to an ASGI application of this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx


async def ask(
    app: Callable[[Any, Any, Any], Awaitable[None]],
    method: str,
    headers: list[tuple[bytes, bytes]],
    content: bytes,
    **scope: Any,
) -> httpx.Response:
    """Send a request with these values in its scope, and return the whole response."""

    async def with_scope(given: Any, receive: Any, send: Any) -> None:
        await app({**given, **scope}, receive, send)

    request = httpx.Request(method, "http://localhost", headers=headers, content=content)
    response = await httpx.ASGITransport(with_scope).handle_async_request(request)
    await response.aread()
    return response
