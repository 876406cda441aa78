"""Names and values in forms, ``application/x-www-form-urlencoded``, and in queries. No I/O."""

from __future__ import annotations

from collections.abc import Generator
from urllib.parse import unquote_to_bytes

_PIECE = 64 * 1024
"""Bytes that are decoded in one step."""
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def decode_form(body: bytes, encoding: str = "utf-8") -> Generator[None, None, list[tuple[str, str]]]:
    """Return the names and values of a form, in their order; a name may be there more than once.

    Raises:
        UnicodeDecodeError: it is not in this encoding.
    """
    fields = []
    for part in body.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            decoded_name = yield from _decode_text(name, encoding)
            fields.append((decoded_name, (yield from _decode_text(value, encoding))))
        yield
    return fields


def _decode_text(text: bytes, encoding: str) -> Generator[None, None, str]:
    """Return a name or a value, decoded in steps: a long one must not hold up others."""
    pieces, cut = [], b""
    for at in range(0, len(text), _PIECE):
        piece = cut + text[at : at + _PIECE]
        # An escape at the end may go on in the next piece.
        escape = piece.rfind(b"%", -2) if at + _PIECE < len(text) else -1
        piece, cut = (piece, b"") if escape < 0 else (piece[:escape], piece[escape:])
        pieces.append(unquote_to_bytes(piece.replace(b"+", b" ")))
        yield
    return b"".join(pieces).decode(encoding)


def truth_of(text: str) -> bool | None:
    """Return what a text means that stands for true or false; ``None`` if it is neither.

    Clients in Python write ``True``, and those in PHP ``1``.
    """
    return _TRUTH.get(text.lower())
