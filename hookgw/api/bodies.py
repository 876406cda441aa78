"""Reading request bodies: JSON alone, chunk by chunk, with the limit counted while reading."""

from __future__ import annotations

from typing import Any

import msgspec
import trio
from quart import Response, request

from hookgw.api.errors import JSON, BodyTooSlow
from hookgw.errors import Invalid, TooLarge, UnsupportedContentType
from hookgw.jsontext import decode_strict
from hookgw.units import Size

LINES = "application/x-ndjson"
PATIENCE = 60.0
"""How long a client may take to send a body, in seconds."""

_NO_BODY = "The body is empty: JSON is expected."


def json_response(value: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, content_type=JSON)


def content_type(*accepted: str) -> str:
    """Which of the accepted content types the body has.

    Raises:
        Invalid: there is no body.
        UnsupportedContentType: it has another one, or none, or a charset other than UTF-8. (None is refused
            too: the clients that hookgw is made for name it, and those that forget are told at once.)
    """
    given = request.headers.get("content-type", "")
    name, _, parameters = given.partition(";")
    name = name.strip().lower()
    if name in accepted and _is_utf8(parameters):
        return name
    if not given and not has_body():
        raise Invalid(_NO_BODY)
    wanted = " or ".join(accepted)
    raise UnsupportedContentType(f"The content type must be {wanted} in UTF-8, not {given[:100]!r}.")


def _is_utf8(parameters: str) -> bool:
    for parameter in parameters.lower().split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"') in ("utf-8", "utf8")
    return True


def has_body() -> bool:
    """Whether the request's head says that a body follows."""
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


async def read_body(limit: int) -> bytes:
    """The whole body, of at most ``limit`` bytes.

    Raises:
        TooLarge: it is longer; the rest of it was not read.
        BodyTooSlow: it did not arrive within :data:`PATIENCE`.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    with trio.move_on_after(PATIENCE):
        return await _gather(limit, length)
    raise BodyTooSlow(f"The body did not arrive within {PATIENCE:.0f} seconds.")


async def _gather(limit: int, length: int | None) -> bytes:
    """Read up to the announced length, so as not to wait once more for the end; else to the end."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.body:
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if size == length:
            break
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body may have at most {Size(limit)}.")


async def read_json(limit: int) -> Any:
    """The JSON value in the body.

    Raises:
        Invalid: there is no body, or it is no JSON (see :func:`hookgw.jsontext.decode_strict`).
        UnsupportedContentType, TooLarge, BodyTooSlow: see above.
    """
    content_type(JSON)
    try:
        return decode_strict(await read_body(limit))
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


async def read_optional_json(limit: int) -> Any:
    """As :func:`read_json`; ``None`` where there is no body."""
    return await read_json(limit) if has_body() else None
