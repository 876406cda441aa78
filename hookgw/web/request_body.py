"""Request bodies: JSON only, read in chunks, with the limit enforced while reading."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec
import trio
from quart import Response, g, request
from quart_trio.wrappers import TrioRequest
from quart_trio.wrappers.request import TrioBody

from hookgw.core.long_work import run_in_slices
from hookgw.kernel.errors import Invalid, TooLarge, UnsupportedContentType
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.long_json import finish
from hookgw.kernel.units import Size
from hookgw.records.sentences import BODY_REFUSED, BODY_TOO_LONG
from hookgw.web.content_encoding import GzipDecoder, ListedHeaders, is_gzip
from hookgw.web.server.client import REQUEST
from hookgw.web.server.errors import JSON
from hookgw.web.server.exchange import RequestResponse

T = TypeVar("T")

NDJSON = "application/x-ndjson"
# No request but an emit needs more. Reading the fields of a registration takes longer than decoding them.
MAX_VALUES = 20_000
# Bytes of a body that is decoded at once.
_SHORT = 4096


class Headers(ListedHeaders, Protocol):
    def get(self, name: str, /) -> str | None: ...


def current_exchange() -> RequestResponse:
    scope: Any = request.scope
    exchange: RequestResponse = scope[REQUEST]
    return exchange


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, content_type=JSON)


async def reserve(size: int) -> None:
    """Wait for memory for the response to the current request; see :meth:`RequestResponse.reserve`."""
    await current_exchange().reserve(size)


async def network_response(answer: Any) -> Response:
    """Return a JSON response with what a network has answered. Memory for a list is reserved before."""
    body = msgspec.json.encode(answer)
    await reserve(len(body))  # the network decides how long it is, within the limit of its answers
    return Response(body, content_type=JSON)


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
        if body is not None:  # as long as it was announced
            check_key_again(exchange)
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
                await trio.lowlevel.checkpoint()
    if decoder is not None:
        decoder.finish()
    check_key_again(exchange)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def parse_in_turns(exchange: RequestResponse, instance: str, steps: Generator[None, None, T]) -> T:
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


class CheckedBody(TrioBody):
    """Quart's body, also for plugins. At its end, the caller's key is checked again.

    All ways to read it raise the error of :func:`check_key_again`.
    """

    exchange: RequestResponse

    async def __anext__(self) -> bytes:
        self.exchange.want_body()
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            check_key_again(self.exchange)
            raise

    def __await__(self) -> Generator[Any, None, Any]:
        self.exchange.want_body()
        body = yield from super().__await__()
        check_key_again(self.exchange)
        return body


class CheckedRequest(TrioRequest):
    body_class = CheckedBody
    body: CheckedBody

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        scope: Any = self.scope
        self.body.exchange = scope[REQUEST]


async def kept_body() -> AsyncIterator[bytes]:
    """Yield the parts of the current request's body. At the end, the exchange has it as ``whole_body``."""
    parts = []
    async for chunk in request.body:
        parts.append(chunk)
        yield chunk
    current_exchange().whole_body = b"".join(parts)


async def in_one_part(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(BODY_TOO_LONG(limit=Size(limit)))


async def read_json(limit: int) -> Any:
    return await read_parsed(limit, lambda value: value)


async def read_parsed(
    limit: int, parse: Callable[[Any], T], *, keeps: bool = False, max_values: int = MAX_VALUES
) -> T:
    """Decode the JSON value in the current request's body, and return the result of ``parse``.

    Both take long for a large body, and so take their turns with other long work.

    Args:
        limit: the most bytes.
        parse: takes the value; raises ``Invalid``.
        keeps: whether the exchange has the body as ``whole_body`` afterwards, so that it can be forwarded.
        max_values: the most values in the body.

    Raises:
        Invalid: there is no body, or it is not JSON (see :func:`hookgw.kernel.json_text.decode_strict`).
        UnsupportedContentType, TooLarge, Unauthorized: see :func:`content_type` and :func:`read_body`.
    """
    content_type(request.headers, JSON)
    exchange = current_exchange()
    if exchange.whole_body is not None:
        chunks = in_one_part(exchange.whole_body)
    else:
        chunks = kept_body() if keeps else request.body
    body = await read_body(request.headers, chunks, limit, exchange)

    def steps() -> Generator[None, None, T]:
        yield
        try:
            value = decode_strict(body, max_values)
        except ValueError as error:
            raise Invalid(BODY_REFUSED(reason=error)) from None
        yield
        return parse(value)

    if len(body) <= _SHORT:
        return finish(steps())
    holder: str | None = g.holder.counted_as
    return await parse_in_turns(exchange, holder or "", steps())


async def read_optional_json(limit: int) -> Any:
    """Read a body that may be left out, which means an empty object; see :func:`read_json`."""
    return await read_json(limit) if has_body(request.headers) else {}
