"""Reading request bodies: JSON alone, chunk by chunk, with the limit counted while reading."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, Protocol

import msgspec
from quart import Response, request

from hookgw.api.server.errors import JSON
from hookgw.models.errors import Invalid, TooLarge, UnsupportedContentType
from hookgw.models.units import Size
from hookgw.parsing.json_text import decode_strict

LINES = "application/x-ndjson"
_NO_BODY = "The body is empty: JSON is expected."


class Headers(Protocol):
    """A request's headers, as werkzeug has them, and as a route has them that does without."""

    def get(self, name: str, /) -> str | None:
        """The first header of that name, in any case; ``None`` where there is none."""


def json_response(value: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, content_type=JSON)


def content_type(headers: Headers, *accepted: str) -> str:
    """Which of the accepted content types the body has.

    Raises:
        Invalid: there is no body.
        UnsupportedContentType: it has another one, or none, or a charset other than UTF-8. (None is refused
            too: the clients that hookgw is made for name it, and those that forget are told at once.)
    """
    given = headers.get("content-type") or ""
    name, _, parameters = given.partition(";")
    name = name.strip().lower()
    if name in accepted and _is_utf8(parameters):
        return name
    if not given and not has_body(headers):
        raise Invalid(_NO_BODY)
    wanted = " or ".join(accepted)
    raise UnsupportedContentType(f"The content type must be {wanted} in UTF-8, not {given[:100]!r}.")


def _is_utf8(parameters: str) -> bool:
    for parameter in parameters.lower().split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"') in ("utf-8", "utf8")
    return True


def has_body(headers: Headers) -> bool:
    """Whether the request's head says that a body follows."""
    return headers.get("transfer-encoding") is not None or headers.get("content-length") not in (None, "0")


async def read_body(headers: Headers, chunks: AsyncIterable[bytes], limit: int) -> bytes:
    """The whole body, of at most ``limit`` bytes. How long it may take is counted on its connection.

    Args:
        headers: the request's.
        chunks: the parts of the body as they arrive. They are asked for up to the announced length.
        limit: of the length.

    Raises:
        TooLarge: it is longer; the rest of it was not read.
    """
    length = _announced_length(headers)
    if length is not None and length > limit:
        raise _too_large(limit)
    return await _gather(chunks, limit, length)


def _announced_length(headers: Headers) -> int | None:
    """What the head says; the server has checked it. ``None`` where the body comes in chunks."""
    length = headers.get("content-length")
    is_known = length is not None and headers.get("transfer-encoding") is None
    return int(length) if is_known and length and length.isdecimal() else None


async def _gather(chunks: AsyncIterable[bytes], limit: int, length: int | None) -> bytes:
    """Read up to the announced length, so as not to wait once more for the end; else to the end."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        parts.append(chunk)
        if size == length:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body may have at most {Size(limit)}.")


async def read_json(limit: int) -> Any:
    """The JSON value in the body.

    Raises:
        Invalid: there is no body, or it is no JSON (see :func:`hookgw.parsing.json_text.decode_strict`).
        UnsupportedContentType, TooLarge: see above.
    """
    content_type(request.headers, JSON)
    try:
        return decode_strict(await read_body(request.headers, request.body, limit))
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


async def read_optional_json(limit: int) -> Any:
    """As :func:`read_json`; ``None`` where there is no body."""
    return await read_json(limit) if has_body(request.headers) else None
