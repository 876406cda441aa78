"""Bodies that may contain a file: JSON with base64, or ``multipart/form-data``.

The file is at most one copy beside the body as it was received, which is how bodies are counted in memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import suppress
from typing import Any, NamedTuple

from quart import g, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from hookgw.api.request_body import MAX_VALUES, content_type, parse_in_turns, read_body
from hookgw.api.server.errors import JSON
from hookgw.api.server.exchange import EXCHANGE
from hookgw.models.errors import Invalid
from hookgw.parsing import decode_base64
from hookgw.parsing.fields import show_name
from hookgw.parsing.json_text import decode_strict

MULTIPART = "multipart/form-data"
MAX_PARTS = 50
"""The most parts of a multipart body."""
_LARGE = 64 * 1024
"""Bytes of a JSON string from which it is decoded as base64 apart from the other fields."""
_PIECE = 64 * 1024
"""Bytes of a body that are parsed in one step."""
_LONGEST_HEAD = 1024
"""Bytes of the head of a data: URL."""
_LARGEST_BUFFER = 2**20
"""Bytes of the headers of a part, or of what may be the end of its content."""
_OBJECTS = {"quoted", "options"}
"""Fields that forms have as JSON."""


class Upload(NamedTuple):
    """A body with the contents of its files.

    Attributes:
        body: the decoded JSON, or the fields of the form. Each file is a key of ``files`` in it.
        files: the contents.
    """

    body: Any
    files: dict[str, bytes]


async def read_upload(limit: int, file_field: str) -> Upload:
    """Read the body of the current request.

    Args:
        limit: the most bytes of the body.
        file_field: the field that gets the file of a form.

    Raises:
        Invalid: there is no body, or it is malformed.
        UnsupportedContentType, TooLarge, Unauthorized: see :func:`hookgw.api.request_body.read_body`.
    """
    kind = content_type(request.headers, JSON, MULTIPART)
    scope: Any = request.scope
    # Not in a variable: the steps drop the body before they put the file together.
    if kind == JSON:
        steps = _read_json(await read_body(request.headers, request.body, limit, scope[EXCHANGE]))
    else:
        boundary = parse_options_header(request.headers["content-type"])[1].get("boundary", "")
        if not boundary:
            raise Invalid("The content type multipart/form-data has no boundary.")
        steps = _read_form(
            await read_body(request.headers, request.body, limit, scope[EXCHANGE]),
            boundary.encode(),
            file_field,
        )
    holder: str | None = g.holder.principal.instance
    return await parse_in_turns(scope[EXCHANGE], holder or "", steps)


def _read_json(body: bytes) -> Generator[None, None, Upload]:
    """Decode JSON. Long base64 is decoded apart, because the strict decoder takes many passes over a text."""
    files: dict[str, bytes] = {}
    yield
    if (place := _find_base64(body)) is not None:
        start, end = place
        pieces = yield from _decode_in_steps(body, start, end)
        if pieces is not None:
            name = secrets.token_hex()
            body = body[:start] + name.encode() + body[end:]
            yield
            files[name] = b"".join(pieces)
    try:
        return Upload(decode_strict(body, MAX_VALUES), files)
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


def _find_base64(body: bytes) -> tuple[int, int] | None:
    """Return where the first long text between two quotes begins, after the head of a data: URL, and ends."""
    start = 0
    for _ in range(4 * MAX_VALUES if len(body) > _LARGE else 0):
        end = body.find(b'"', start)
        if end < 0:
            return None
        if end - start > _LARGE:
            # A quote after a backslash is no end of a string. Base64 has none, nor what is between strings.
            if start == 0 or body[start - 2 : start - 1] == b"\\":
                return None
            if body.startswith(b"data:", start):
                comma = body.find(b",", start, start + _LONGEST_HEAD)
                start = start if comma < 0 else comma + 1
            return start, end
        start = end + 1
    return None


def _decode_in_steps(body: bytes, start: int, end: int) -> Generator[None, None, list[bytes] | None]:
    """Decode base64 in a JSON string; return the pieces, or ``None`` if it is something else."""
    pieces, rest = [], b""
    while start < end:
        piece = rest + body[start : min(end, start + _PIECE)]
        start += _PIECE
        is_last = start >= end
        # PHP writes "/" as "\\/", and base64 may have line breaks. An escape may be cut in two.
        cut = b"\\" if piece.endswith(b"\\") else b""
        piece = piece.removesuffix(cut)
        if b"\\" in piece:
            piece = piece.replace(b"\\/", b"/").replace(b"\\r", b"").replace(b"\\n", b"")
        whole = len(piece) if is_last else len(piece) // 4 * 4
        piece, rest = piece[:whole], piece[whole:] + cut
        if not is_last and b"=" in piece:
            return None
        try:
            pieces.append(decode_base64(piece))
        except ValueError:
            return None
        yield
    return pieces if not rest else None


def _read_form(  # noqa: C901 -- one part after the other
    body: bytes, boundary: bytes, file_field: str
) -> Generator[None, None, Upload]:
    decoder = MultipartDecoder(boundary, max_form_memory_size=_LARGEST_BUFFER, max_parts=MAX_PARTS)
    fields: dict[str, Any] = {}
    file: File | None = None
    content: list[bytes] = []
    part: Field | File | None = None
    try:
        for start in range(0, len(body) + _PIECE, _PIECE):
            # The empty piece after the last one is the end.
            decoder.receive_data(body[start : start + _PIECE] or None)
            while not isinstance(event := decoder.next_event(), NeedData | Epilogue):
                if isinstance(event, Field | File):
                    part = event
                    if isinstance(event, File):
                        if file is not None:
                            raise Invalid("The form has more than one file.")
                        file = event
                    elif event.name in fields:
                        raise Invalid(f"The form has the field {show_name(event.name)} twice.")
                    else:
                        fields[event.name] = b""
                elif isinstance(event, Data) and isinstance(part, File):
                    content.append(event.data)
                elif isinstance(event, Data) and part is not None:
                    fields[part.name] += event.data
            yield
            if isinstance(event, Epilogue):
                break
        fields = {name: value.decode() for name, value in fields.items()}
    except (ValueError, HTTPException):
        raise Invalid("The body is not a form as multipart/form-data (RFC 7578) in UTF-8.") from None
    del body
    for name in _OBJECTS & fields.keys():
        with suppress(ValueError):  # anything else stays a text, which the parser refuses
            fields[name] = decode_strict(fields[name].encode(), MAX_VALUES)
    if file is None:
        return Upload(fields, {})
    name = secrets.token_hex()
    fields[file_field] = name
    mimetype = file.headers.get("content-type", "").partition(";")[0].strip()
    if mimetype and mimetype != "application/octet-stream":
        fields.setdefault("mimetype", mimetype)
    fields.setdefault("fileName", file.filename or "")
    return Upload(fields, {name: b"".join(content)})
