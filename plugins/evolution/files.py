"""The files of messages to send: hookgw fetches a URL itself, by its address guard."""

from __future__ import annotations

from contextlib import aclosing

import httpx
import trio

from hookgw import Invalid

from .client import chunks_of

LARGEST_FILE = 64 * 2**20
"""Bytes of a file to send: Evolution API takes 136 MiB of JSON, and base64 takes a third more."""
FETCH_TIMEOUT = 15.0
"""Seconds for a file; Evolution API needs the rest of the 30 s of a call."""
_MOST_REDIRECTS = 5


async def fetch_file(http: httpx.AsyncClient, url: str, base_url: str) -> tuple[bytes, str]:
    """Return the content and the media type of the file at a URL.

    Evolution API would fetch it from any address in its own network, for everybody with the key of one
    instance.

    Args:
        http: reaches public addresses, and the servers that the operator lists.
        url: of the file.
        base_url: of Evolution API, from which nothing is fetched.

    Raises:
        Invalid: the file cannot be read, or is too large.
    """
    server = httpx.URL(base_url)
    try:
        with trio.fail_after(FETCH_TIMEOUT):
            for _ in range(_MOST_REDIRECTS + 1):
                target = httpx.URL(url)
                if (target.scheme, target.host, target.port) == (server.scheme, server.host, server.port):
                    raise Invalid("media: the URL leads to Evolution API itself.")
                async with http.stream("GET", target, timeout=FETCH_TIMEOUT) as response:
                    if response.has_redirect_location:
                        url = str(target.join(response.headers["location"]))
                        continue
                    if not response.is_success:
                        raise Invalid(f"media: the server of the URL answered with {response.status_code}.")
                    received = bytearray()
                    async with aclosing(chunks_of(response)) as chunks:
                        async for chunk in chunks:
                            received += chunk
                            if len(received) > LARGEST_FILE:
                                raise Invalid(f"media: the file has more than {LARGEST_FILE // 2**20} MiB.")
                    said = response.headers.get("content-type", "").partition(";")[0].strip()
                    return bytes(received), said
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Invalid(f"media: the URL cannot be read: {error or type(error).__name__}") from error
    except trio.TooSlowError:
        raise Invalid(f"media: the URL was not read within {FETCH_TIMEOUT:g} s.") from None
    raise Invalid(f"media: the URL redirects more than {_MOST_REDIRECTS} times.")
