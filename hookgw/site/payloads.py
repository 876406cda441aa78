"""Cuts payloads for pages: at most 64 KiB of HTML each. No I/O.

Indenting and escaping make many bytes of few: a nested event of 198 KB was a page of 38 MB.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import escape

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_text import decode_strict

MOST = 64 * 1024
"""Bytes of HTML that a page shows of a payload."""
_PIECE = 256
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]++')


class Shown(NamedTuple):
    """The shown part of a payload, its beginning unless ``is_whole``."""

    text: str
    is_whole: bool


def html_size(text: str) -> int:
    """Return how many bytes of a page a text takes."""
    return len(escape(text).encode(errors="replace"))


def shown_text(text: str, most: int = MOST) -> Shown:
    pieces: list[str] = []
    size = 0
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        size += html_size(piece)
        if size > most:
            return Shown("".join(pieces), is_whole=False)
        pieces.append(piece)
    return Shown(text, is_whole=True)


def shown_json(data: bytes, most: int = MOST) -> Shown:
    """Return as much of a JSON text as a page shows, indented. It is not read beyond that."""
    text = data.decode(errors="replace")
    pieces: list[str] = []
    size = depth = 0
    is_opened = False  # whether the last symbol opened an array or an object, which may be empty
    for match in _TOKEN.finditer(text):
        symbol = match[0]
        if symbol in ("]", "}"):
            depth -= 1
            piece = symbol if is_opened else _new_line(depth) + symbol
            is_opened = False
        else:
            piece = _new_line(depth) + symbol if is_opened else symbol
            is_opened = symbol in ("[", "{")
            depth += is_opened
            if symbol == ",":
                piece += _new_line(depth)
            elif symbol == ":":
                piece += " "
        length = len(piece) if len(symbol) == 1 else html_size(piece)
        if size + length > most:
            pieces.append(shown_text(piece, most - size).text)
            return Shown("".join(pieces), is_whole=False)
        size += length
        pieces.append(piece)
    return Shown("".join(pieces), is_whole=True)


def shown_body(data: bytes) -> Shown:
    """Return as much of a body as a page shows: JSON is indented, anything else is left as it is."""
    is_json = data.lstrip()[:1] in (b"{", b"[")
    return shown_json(data) if is_json else shown_text(data.decode(errors="replace"))


def shown_curl(words: Sequence[str], body: bytes, file: str, most: int = MOST) -> Shown:
    """Return a command of curl with a body; a long body comes from a downloaded file."""
    # Only then quoted: that may make five bytes of one.
    # Raw: behind -d, a body that a plugin has made, and that begins with "@", would name a file to send.
    content = f"--data-raw {shlex.quote(body.decode(errors='replace'))}" if len(body) <= most else ""
    is_whole = bool(content) and html_size(content) <= most
    return Shown(" \\\n  ".join([*words, content if is_whole else f"--data-binary @{file}"]), is_whole)


def _new_line(depth: int) -> str:
    return "\n" + "  " * depth


def json_of(text: str, what: str) -> bytes:
    """Return JSON that a person has typed, without the space around it.

    Raises:
        Invalid: it is not JSON.
    """
    data = text.strip().encode("utf-8", "surrogatepass")
    try:
        decode_strict(data)
    except ValueError as error:
        raise Invalid.of("form.not_json", "{what} {reason}.", what=what, reason=error) from None
    return data
