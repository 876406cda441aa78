"""Measures long JSON texts, a few KiB at a time. No I/O.

Reading a long text in one step blocks the process. These functions look at a part of it, and pause: the
caller decides at each pause whether other work is next.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from hookgw.kernel.json_text import BRACKET_STEPS, NO_BRACKETS, count_values

_T = TypeVar("_T")

_SPACE = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*")
_BLANK_AT_ONCE = 64 * 1024
CHUNK = 16 * 1024
"""Bytes between two pauses. Even, so that a chunk of backslashes does not end within an escape."""
_NUMBER = re.compile(rb"[-+.0-9A-Za-z]*")
# What the next chunk may continue: a word, or a bracket that may be closed at once.
_UNFINISHED = re.compile(rb"[\[{A-Za-z]{1,8}\Z")
_ESCAPES_AS_A_VALUE = 100
# How msgspec's message about a text begins that has something after its first value, and how it names the
# place, counted from 1.
_ENDS = "JSON is malformed: trailing characters"
_PLACE = re.compile(r"\(byte ([0-9]+)\)")
_LONGEST_WORD = 8

check_syntax = msgspec.json.Decoder(msgspec.Raw).decode
"""Read a JSON text without making objects of it. Raises what a decoder of msgspec's raises."""


def finish(steps: Generator[object, None, _T]) -> _T:
    """Run a computation to its end without a pause, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def skip_blank(text: bytes, at: int) -> Generator[None, None, int]:
    """Return the position of the next character that is not white space."""
    while True:
        blank = _BLANK.match(text, at, at + _BLANK_AT_ONCE)
        end = blank.end() if blank else at
        if end - at < _BLANK_AT_ONCE:
            return end
        at = end
        yield


def end_of_first(window: bytes | memoryview) -> int | None:
    """Return the position after the first value in a text, if the text goes on behind it.

    Raises:
        msgspec.DecodeError: there is no whole value.
        RecursionError: it is nested too deeply.
    """
    try:
        check_syntax(window)
    except msgspec.DecodeError as error:
        found = _PLACE.search(str(error))
        if found and found.string.startswith(_ENDS):
            return int(found[1]) - 1
        raise
    return None


def end_of_value(view: memoryview, at: int, size: int, longest: int) -> int | None:
    """Return the position after a JSON value and the white space behind it; ``None`` if it is too long.

    Args:
        size: the bytes to look at first.
        longest: the most bytes of a value.

    Raises:
        ValueError: there is no value, or it is nested too deeply. The message completes "the body …".
    """
    while True:
        window = view[at : at + size]
        try:
            end = end_of_first(window)
        except msgspec.DecodeError as error:
            found = _PLACE.search(str(error))
            place = int(found[1]) - 1 if found else size
            # A number or a word that the window cuts is reported at its end.
            if at + size >= len(view) or place + _LONGEST_WORD < size:
                raise malformed(error, at) from None
        except RecursionError as error:
            raise malformed(error, at) from None
        else:
            if end is not None:
                return at + end if end <= longest else None
            # All of the window is one value, or the beginning of a longer number.
            if at + size >= len(view):
                return len(view)
        if size > longest:
            return None
        size = min(2 * size, longest + 1)


def malformed(error: Exception, at: int) -> ValueError:
    """Return the error for a text of which msgspec has seen the part from a position on."""
    if isinstance(error, RecursionError):
        return ValueError("is nested too deeply")
    reason = _PLACE.sub(lambda found: f"(byte {at + int(found[1])})", str(error))
    return ValueError(f"is not JSON: {reason}")


def measure(text: bytes, at: int) -> Generator[None, None, tuple[int, int]]:
    """Return the position after a value, and how many JSON values it has.

    It counts as :func:`hookgw.kernel.json_text.check_values` does. 100 escapes count as one value more, and
    64 digits in a row as ten: they take a decoder as long. It looks only at brackets and quotation marks: the
    decoder must check the JSON.

    Raises:
        ValueError: the text ends within the value.
    """
    if text[at : at + 1] not in (b"{", b"["):
        return (yield from _measure_scalar(text, at))
    depth, in_string, carried = 0, False, b""
    values, escapes = 1, 0
    while at < len(text):
        chunk = cut_at_escape(text, at)
        escapes += chunk.count(b"\\")
        plain = without_escapes(chunk)
        end = None
        parts = plain.split(b'"')
        steps = b"".join(parts[in_string::2]).translate(BRACKET_STEPS, NO_BRACKETS)
        closing = steps.count(b"\xff")
        if depth <= closing:  # it may end here
            depths = list(accumulate(memoryview(steps).cast("b"), initial=depth))
            if 0 in depths[1:]:
                end = _after_bracket(parts, in_string, depths.index(0, 1))
                parts = plain[:end].split(b'"')
        depth += len(steps) - 2 * closing
        structure = carried + b"0" * in_string + b"0".join(parts[in_string::2]).translate(None, _SPACE)
        unfinished = _UNFINISHED.search(structure) if end is None else None
        carried = unfinished[0] if unfinished else b""
        values += count_values(structure[: len(structure) - len(carried)]) - 1
        if end is not None:
            return at + end, values + escapes // _ESCAPES_AS_A_VALUE
        in_string ^= len(parts) % 2 == 0
        at += len(chunk)
        yield
    raise ValueError("is not JSON: Input data was truncated")


def _measure_scalar(text: bytes, at: int) -> Generator[None, None, tuple[int, int]]:
    escapes, is_string = 0, text[at : at + 1] == b'"'
    begin = at
    at += is_string
    while at < len(text):
        chunk = cut_at_escape(text, at)
        if is_string:
            end = without_escapes(chunk).find(b'"') + 1
        else:
            found: Any = _NUMBER.match(chunk)
            end = found.end() if found.end() < len(chunk) else 0
        if end or (not is_string and at + len(chunk) >= len(text)):
            end = at + end if end else len(text)
            digits = 0 if is_string else (end - begin) // 6
            return end, 1 + digits + escapes // _ESCAPES_AS_A_VALUE
        escapes += chunk.count(b"\\")
        at += len(chunk)
        yield
    raise ValueError("is not JSON: Input data was truncated")


def _after_bracket(parts: list[bytes], in_string: bool, count: int) -> int:
    """Return the position after the bracket of this number outside of strings."""
    at = 0
    for index, part in enumerate(parts):
        if index % 2 == in_string:
            brackets = len(part.translate(None, NO_BRACKETS))
            if count <= brackets:
                found = re.finditer(rb"[][{}]", part)
                return at + [bracket.end() for bracket in found][count - 1]
            count -= brackets
        at += len(part) + 1
    raise AssertionError("the bracket was counted before")


def cut_at_escape(text: bytes, at: int) -> bytes:
    """Return the next :data:`CHUNK` of a text, or one byte less if a backslash would be its end."""
    chunk = text[at : at + CHUNK]
    backslashes = len(chunk) - len(chunk.rstrip(b"\\"))
    return chunk[:-1] if backslashes % 2 and at + len(chunk) < len(text) else chunk


def without_escapes(chunk: bytes) -> bytes:
    """Return a part of a text, with two other characters for an escaped backslash or quotation mark."""
    return chunk.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in chunk else chunk
