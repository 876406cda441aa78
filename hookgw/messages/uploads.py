"""Bodies that may contain a file: JSON with base64, ``multipart/form-data``, or a form without a file.

The file is at most one copy beside the received body, as the memory for bodies assumes.
"""

from __future__ import annotations

import binascii
import re
import secrets
from collections.abc import Generator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from quart import g, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from hookgw.kernel.errors import Invalid, TooLarge
from hookgw.kernel.json_fields import show_name
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.units import Size
from hookgw.messages.requests import MAX_URL, NO_MEDIA, decode_base64
from hookgw.records.sentences import BODY_REFUSED
from hookgw.web.body import MAX_VALUES, content_type, parse_in_turns, read_body
from hookgw.web.forms import FIELD_REPEATED, FORM, read_form, typed
from hookgw.web.request_body import current_exchange
from hookgw.web.server.errors import JSON

MULTIPART = "multipart/form-data"
MAX_PARTS = 50
"""The most parts of a multipart body."""
_PIECE = 64 * 1024
"""Bytes of a body that are parsed in one step."""
_LONGEST_HEAD = 1024
"""Bytes of the head of a data: URL."""
_MOST_PLACES = 100
"""How many places of a JSON body are looked at for a file."""
_LARGEST_BUFFER = 2**20
"""Bytes of the headers of a part, or of what may be the end of its content."""
_NO_FORM = Sentence(
    "form.malformed_multipart", "The body is not a form as multipart/form-data (RFC 7578) in UTF-8."
)
_SPACES = b" \t\r\n"
_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
"""What may be the beginning of an escape at the end of a piece of JSON."""


class Upload(NamedTuple):
    """A body; the values of its files are in ``files``, by key."""

    body: Any
    files: dict[str, bytes]


async def read_upload(limit: int, rest_limit: int, file_field: str) -> Upload:
    """Read the body of the current request.

    Args:
        rest_limit: the most bytes of the body beside the file.
        file_field: the field with base64, which also gets the file of a form.

    Raises:
        Invalid: there is no body, or it is malformed.
        UnsupportedContentType, TooLarge, Unauthorized: see :func:`hookgw.web.request_body.read_body`.
    """
    kind = content_type(request.headers, JSON, MULTIPART, FORM)
    if kind == FORM:  # its file is a URL, or small
        return Upload(await read_form(rest_limit), {})
    # Not in a variable: the steps drop the body before they put the file together.
    if kind == JSON:
        steps = _read_json(
            await read_body(request.headers, request.body, limit, current_exchange()), rest_limit, file_field
        )
    else:
        boundary = parse_options_header(request.headers["content-type"])[1].get("boundary", "")
        if not boundary:
            raise Invalid.of("form.no_boundary", "The content type multipart/form-data has no boundary.")
        steps = _read_form(
            await read_body(request.headers, request.body, limit, current_exchange()),
            boundary.encode(),
            rest_limit,
            file_field,
        )
    holder: str | None = g.holder.counted_as
    return await parse_in_turns(current_exchange(), holder or "", steps)


def _read_json(body: bytes, rest_limit: int, file_field: str) -> Generator[None, None, Upload]:
    """Decode JSON. A file in base64 is decoded apart: the strict decoder takes many passes over a text."""
    files: dict[str, bytes] = {}
    yield
    if (place := _find_base64(body, file_field)) is not None:
        start, end = place
        pieces = yield from _decode_in_steps(body, start, end, file_field, is_json=True)
        name = secrets.token_hex()
        body = body[:start] + name.encode() + body[end:]
        yield
        files[name] = b"".join(pieces)
    _check_rest(len(body), rest_limit)
    try:
        return Upload(decode_strict(body, MAX_VALUES), files)
    except ValueError as error:
        raise Invalid(BODY_REFUSED(reason=error)) from None


def _check_rest(size: int, limit: int) -> None:
    # It is decoded in one step.
    if size > limit:
        raise TooLarge.of(
            "form.too_long_beside_file",
            "Beside its file, the body may have at most {limit}.",
            limit=Size(limit),
        )


def _find_base64(body: bytes, field: str) -> tuple[int, int] | None:
    """Return the start and end of the base64 in a file's field; ``None`` if there is no long text."""
    # A quote within a string follows a backslash, so this finds no text that only looks like a field.
    places = re.finditer(rb'"%b"[ \t\r\n]*:[ \t\r\n]*"' % field.encode(), body)
    for found in islice(places, _MOST_PLACES):
        start, end = found.end(), body.find(b'"', found.end())
        if end - start > MAX_URL:
            return _behind_head(body, start), end
    return None


def _behind_head(text: bytes, start: int = 0) -> int:
    """Return the start of the base64 in a text that may be a data: URL."""
    if not text.startswith(b"data:", start):
        return start
    return text.find(b",", start, start + _LONGEST_HEAD) + 1 or start


def _decode_in_steps(
    body: bytes, start: int, end: int, field: str, *, is_json: bool
) -> Generator[None, None, list[bytes]]:
    """Decode a part of a body as base64, and return the pieces; see :func:`decode_base64`.

    Args:
        body, start, end: the part.
        field: what messages call it.
        is_json: whether it may have the escapes of JSON: PHP writes ``/`` as ``\\/``, and .NET ``+`` as
            ``\\u002B``.

    Raises:
        Invalid: it is something else.
    """
    pieces: list[bytes] = []
    cut = rest = b""
    try:
        for at in range(start, end, _PIECE):
            piece = cut + body[at : min(end, at + _PIECE)]
            if is_json:
                escape = _CUT_ESCAPE.search(piece) if at + _PIECE < end else None
                cut = escape[0] if escape else b""
                piece = msgspec.json.decode(b'"%b"' % piece.removesuffix(cut), type=str).encode()
            text = rest + piece.translate(None, _SPACES)
            padding = text.find(b"=")
            whole = (len(text) if padding < 0 else padding) // 4 * 4
            rest = text[whole:]
            if len(rest) > 4:
                raise ValueError("something follows the padding")
            if whole:
                pieces.append(binascii.a2b_base64(text[:whole], strict_mode=True))
            yield
        if rest or not pieces:
            pieces.append(decode_base64(rest))
    except (ValueError, msgspec.DecodeError):
        raise Invalid(NO_MEDIA(where=field)) from None
    return pieces


def _read_form(  # noqa: C901 -- one part after the other
    body: bytes, boundary: bytes, rest_limit: int, file_field: str
) -> Generator[None, None, Upload]:
    decoder = MultipartDecoder(boundary, max_form_memory_size=_LARGEST_BUFFER, max_parts=MAX_PARTS)
    parts: dict[str, list[bytes]] = {}
    rest = 0
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
                            raise Invalid.of("form.several_files", "The form has more than one file.")
                        file = event
                    elif event.name in parts:
                        raise Invalid(FIELD_REPEATED(name=show_name(event.name)))
                    else:
                        parts[event.name] = []
                elif isinstance(event, Data) and isinstance(part, File):
                    content.append(event.data)
                elif isinstance(event, Data) and part is not None:
                    parts[part.name].append(event.data)
                    if part.name != file_field:
                        rest += len(event.data)
                        _check_rest(rest, rest_limit)
            yield
            if isinstance(event, Epilogue):
                break
    except (ValueError, HTTPException):
        raise Invalid(_NO_FORM) from None
    del body
    files: dict[str, bytes] = {}
    if len(text := b"".join(parts.pop(file_field, ()))) > MAX_URL:
        start, name = _behind_head(text), secrets.token_hex()
        pieces = yield from _decode_in_steps(text, start, len(text), file_field, is_json=False)
        text = text[:start] + name.encode()
        files[name] = b"".join(pieces)
    if text:
        parts[file_field] = [text]
    try:
        fields: dict[str, Any] = {name: b"".join(part).decode() for name, part in parts.items()}
    except ValueError:
        raise Invalid(_NO_FORM) from None
    fields = {name: text if name == file_field else typed(name, text) for name, text in fields.items()}
    if file is not None:
        fields[file_field] = name = secrets.token_hex()
        files[name] = b"".join(content)
        mimetype = file.headers.get("content-type", "").partition(";")[0].strip()
        if mimetype and mimetype != "application/octet-stream":
            fields.setdefault("mimetype", mimetype)
        fields.setdefault("fileName", file.filename or "")
    return Upload(fields, files)
