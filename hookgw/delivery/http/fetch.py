"""Reads the files at URLs that tenants gave, behind the address guard and up to a limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import cast

import httpx
import trio

from hookgw.delivery.http.answer_memory import HeldAnswer, MemoryFull
from hookgw.delivery.http.response import decode_in_steps
from hookgw.kernel.errors import Invalid, NetworkRefused
from hookgw.kernel.units import Size
from hookgw.records.connectors import FetchedFile

MAX_REDIRECTS = 3
"""How many redirects are followed. Each is a separate request, which passes the guard."""
FETCH_TIMEOUT = 20.0
"""Seconds for a file with all its redirects, of the 30 that a call of a connector may take."""
COPIES = 2
"""How often a file counts: it is in memory as received, and again in the request that sends it on."""
_RETRY_AFTER = 5.0

LIMIT = "hookgw_limit"
"""The extension of a request that limits the bytes of a streamed response, before decoding."""
HELD = "hookgw_held"
"""The extension of a request that counts these bytes, :data:`COPIES` times."""


class TooManyBytes(httpx.RemoteProtocolError):
    """A streamed response exceeds its limit."""


async def fetch_file(client: httpx.AsyncClient, url: str, *, limit: int, held: HeldAnswer) -> FetchedFile:
    """Return the file at a URL that a tenant gave.

    Args:
        limit: the most bytes that are read, after decoding.
        held: counts the file; the caller hands it over, or releases it.

    Raises:
        Invalid: the file cannot be read, or is too large. The message is a sentence.
        NetworkRefused: the memory for answers is full (503).
    """
    try:
        with trio.fail_after(FETCH_TIMEOUT):
            request = client.build_request(
                "GET", url, timeout=FETCH_TIMEOUT, extensions={LIMIT: limit, HELD: held}
            )
            for _ in range(MAX_REDIRECTS + 1):
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    if response.next_request is None:
                        return await _read(response, limit, held)
                    request = response.next_request
                finally:
                    await response.aclose()
    except TooManyBytes:
        raise _too_large(limit) from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, MemoryFull) as error:
        if held.failure is not None:
            full = HTTPStatus.SERVICE_UNAVAILABLE
            raise NetworkRefused(str(held.failure), status=full, retry_after=_RETRY_AFTER) from None
        raise Invalid.of(
            "media.url_unreadable", "The URL cannot be read: {error}", error=error or type(error).__name__
        ) from error
    except trio.TooSlowError:
        raise Invalid.of(
            "media.url_slow", "The URL was not read within {seconds:g} s.", seconds=FETCH_TIMEOUT
        ) from None
    raise Invalid.of("media.url_redirects", "The URL redirects more than {most} times.", most=MAX_REDIRECTS)


async def _read(response: httpx.Response, limit: int, held: HeldAnswer) -> FetchedFile:
    if not response.is_success:
        raise Invalid.of(
            "media.url_status",
            "The server of the URL answered with {status}.",
            status=response.status_code,
        )
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > limit:
        raise _too_large(limit)
    # A response of httpx's MockTransport was read when it was made.
    content = response.content if response.is_stream_consumed else await _receive(response, limit, held)
    if len(content) > limit:
        raise _too_large(limit)
    mimetype = response.headers.get("content-type", "").partition(";")[0].strip()
    return FetchedFile(content, mimetype=mimetype)


async def _receive(response: httpx.Response, limit: int, held: HeldAnswer) -> bytes | bytearray:
    """Return the decoded body; if it exceeds the limit, one byte more than the limit."""
    received = bytearray()
    # Not decoded piece by piece: one of 64 KiB may become 64 MiB. It was asked for without an encoding.
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as chunks:
        async for chunk in chunks:
            received += chunk
            if len(received) > limit:
                raise _too_large(limit)
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        return received
    content, is_whole = await decode_in_steps(
        bytes(received), coding, limit + 1, lambda size: held.take(COPIES * size)
    )
    if not is_whole and len(content) <= limit:
        raise Invalid.of(
            "media.url_compressed", "The file at the URL is compressed in a way that cannot be undone."
        )
    return content


def _too_large(limit: int) -> Invalid:
    return Invalid.of(
        "media.url_too_long",
        "The file at the URL has more than {limit}, the maximum. Send a smaller file.",
        limit=Size(limit),
    )
