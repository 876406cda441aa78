"""The body of a request: read in chunks, with the limit enforced while reading. It knows nothing of Quart."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterable, AsyncIterator, Generator
from functools import lru_cache
from typing import TypeVar

from hookgw.concurrency.light import let_others_go_on
from hookgw.core.long_work import run_in_slices
from hookgw.kernel.errors import Invalid, TooLarge, UnsupportedContentType
from hookgw.kernel.units import Size
from hookgw.records.sentences import BODY_TOO_LONG
from hookgw.web.content_encoding import GzipDecoder, Headers, is_gzip
from hookgw.web.server.exchange import RequestResponse

_T = TypeVar("_T")

NDJSON = "application/x-ndjson"
# No request but an emit needs more. Reading the fields of a registration takes longer than decoding them.
MAX_VALUES = 20_000


def content_type(headers: Headers, *accepted: str) -> str:
    """Return the content type of the body, one of the accepted ones.

    Raises:
        Invalid: there is no body.
        UnsupportedContentType: the content type is another one or missing, or the charset is not UTF-8.
    """
    given = headers.get("content-type") or ""
    name, charset = _name_and_charset(given)
    if name in accepted and charset in ("utf-8", "utf8"):
        return name
    if not given and not has_body(headers):
        raise Invalid.of("body.empty", "The body is empty; send JSON.")
    # A missing content type is refused too: clients send one, and a client that forgets it learns so at once.
    wanted = " or ".join(accepted)
    raise UnsupportedContentType.of(
        "body.content_type",
        "The content type must be {wanted} in UTF-8, not {given!r}.",
        wanted=wanted,
        given=given[:100],
    )


@lru_cache(maxsize=64)  # a producer sends the same one with each event
def _name_and_charset(given: str) -> tuple[str, str]:
    name, *parameters = given.lower().split(";")
    charset = "utf-8"
    for parameter in reversed(parameters):  # the first charset counts
        key, _, value = parameter.partition("=")
        if key.strip() == "charset":
            charset = value.strip().strip('"')
    return name.strip(), charset


def has_body(headers: Headers) -> bool:
    return headers.get("transfer-encoding") is not None or headers.get("content-length") not in (None, "0")


async def read_body(  # noqa: C901 -- reads once from top to bottom
    headers: Headers, chunks: AsyncIterable[bytes] | None, limit: int, exchange: RequestResponse
) -> bytes:
    """Read the whole body. The connection's timeouts limit the time.

    Args:
        chunks: the parts of the body as they arrive; ``None`` on a fast path, which has no other receiver.
        limit: the most bytes, both as received and decoded.
        exchange: counts the decoded bytes.

    Raises:
        TooLarge: the body is larger; the rest of it was not read.
        UnsupportedContentEncoding: the body is encoded, but not with gzip.
        Invalid: the body does not match its content encoding.
        Unauthorized: the caller's key was revoked while the body arrived.
    """
    decoder = None
    if headers.get("content-encoding") is not None and is_gzip(headers):
        decoder = GzipDecoder()
    if exchange.announced is not None and exchange.announced > limit:
        raise _too_large(limit)
    if chunks is None:
        # Nearly every body of an emit has arrived together with its head.
        body = exchange.body_nowait() if decoder is None else None
        if body is not None:  # as long as it was announced; and nothing has waited for it
            return body
        chunks = exchange.chunks()
    parts: list[bytes] = []
    size = decoded = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        if decoder is None:
            parts.append(chunk)
        else:
            for piece in decoder.feed(chunk):
                decoded += len(piece)
                if decoded > limit:  # a bomb: no more of it is decoded
                    raise _too_large(limit)
                parts.append(piece)
                await exchange.grow(len(piece))
                await let_others_go_on()
    if decoder is not None:
        decoder.finish()
    check_key_again(exchange)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def without_mark(body: bytes) -> bytes:
    """Return a JSON text without the byte order mark that programs on Windows write before it."""
    return body.removeprefix(codecs.BOM_UTF8)


async def parse_in_turns(exchange: RequestResponse, instance: str, steps: Generator[None, None, _T]) -> _T:
    """Return the result of parsing a long body, which takes the instance's turns with other long work.

    Raises:
        Unauthorized: the caller's key was revoked meanwhile.
    """
    parsed = await run_in_slices(instance, steps)
    check_key_again(exchange)
    return parsed


def check_key_again(exchange: RequestResponse) -> None:
    """Check after a wait that the request's key is still valid; raise ``Unauthorized`` otherwise."""
    # Names are reused. A client may hold its body back until its instance is deleted and another tenant has
    # created one of the same name: the request must not reach that one.
    check = exchange.check_key
    if check is not None:
        check()


async def in_one_part(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(BODY_TOO_LONG(limit=Size(limit)))
