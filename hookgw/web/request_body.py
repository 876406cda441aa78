"""The current request in Quart: its exchange, its JSON body and its response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from quart import Response, g, request
from quart_trio.wrappers import TrioRequest
from quart_trio.wrappers.request import TrioBody

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.long_json import finish
from hookgw.records.sentences import BODY_REFUSED
from hookgw.web.body import (
    MAX_VALUES,
    check_key_again,
    content_type,
    has_body,
    in_one_part,
    parse_in_turns,
    read_body,
    without_mark,
)
from hookgw.web.server.client import REQUEST
from hookgw.web.server.errors import JSON
from hookgw.web.server.exchange import RequestResponse

_T = TypeVar("_T")

# Bytes of a body that is decoded at once.
_SHORT = 4096


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
    _value: Any = UNSET

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        scope: Any = self.scope
        self.body.exchange = scope[REQUEST]

    async def get_json(self, force: bool = False, silent: bool = False, cache: bool = True) -> Any:
        """Return the value in the body, for a plugin, as Quart does; what hookgw's own calls refuse gets 400.

        Quart raises what is no HTTP error for bytes that are not UTF-8, and for lists that are nested deeply.
        """
        if cache and self._value is not UNSET:
            return self._value
        if not (force or self.is_json):
            return None
        body: Any = await self.get_data(cache=cache)
        try:
            value = await _parsed(body, lambda value: value)
        except Invalid:
            if silent:
                return None
            raise
        if cache:
            self._value = value
        return value


async def kept_body() -> AsyncIterator[bytes]:
    """Yield the parts of the current request's body. At the end, the exchange has it as ``whole_body``."""
    parts = []
    async for chunk in request.body:
        parts.append(chunk)
        yield chunk
    current_exchange().whole_body = b"".join(parts)


async def read_json(limit: int) -> Any:
    return await read_parsed(limit, lambda value: value)


async def read_parsed(
    limit: int, parse: Callable[[Any], _T], *, keeps: bool = False, max_values: int = MAX_VALUES
) -> _T:
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
    return await _parsed(await read_body(request.headers, chunks, limit, exchange), parse, max_values)


async def _parsed(body: bytes, parse: Callable[[Any], _T], max_values: int = MAX_VALUES) -> _T:
    """Decode a body, and parse it, in turns with other long work; raise ``Invalid`` if it is not JSON."""
    body = without_mark(body)

    def steps() -> Generator[None, None, _T]:
        yield
        try:
            value = decode_strict(body, max_values)
        except ValueError as error:
            raise Invalid(BODY_REFUSED(reason=error)) from None
        yield
        return parse(value)

    if len(body) <= _SHORT:
        return finish(steps())
    holder = g.get("holder")  # open routes of plugins have none
    counted_as = "" if holder is None else holder.counted_as or ""
    return await parse_in_turns(current_exchange(), counted_as, steps())


async def read_optional_json(limit: int) -> Any:
    """Read a body that may be left out, which means an empty object; see :func:`read_json`."""
    exchange = current_exchange()
    # Whether there is anything in chunks, only the first one tells.
    if request.headers.get("transfer-encoding") is not None and exchange.whole_body is None:
        await read_body(request.headers, kept_body(), limit, exchange)
    is_there = has_body(request.headers) and exchange.whole_body != b""
    return await read_json(limit) if is_there else {}
