"""Strict JSON: RFC 8259, without texts that two readers may understand differently. No I/O.

msgspec decodes it. This module refuses what msgspec accepts: duplicate names in an object (one reader would
use the first value, another one the last), nesting so deep that some later reader fails, and so many values
that decoding them would block other requests.

Every check is a few passes of C code over the text, so that its time is limited, whatever a client sends.
"""

from __future__ import annotations

import gc
import json
import re
from decimal import Decimal
from itertools import accumulate
from typing import Any

import msgspec

from hookgw.kernel.json_decoding import LARGE, decode_json, no_collection

# Objects and lists inside each other. Every CPython can decode this depth, from any depth of calls.
MAX_DEPTH = 200
MAX_VALUES = 100_000
"""The default of ``events.max_values``. It also applies to the bodies of all other requests."""

_encode = msgspec.json.Encoder().encode
_PLACE = re.compile(r"\(byte ([0-9]+)\)$")
_OTHER_MARKS = "'“”„‟«»‘’"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOO_DEEP = f"is nested too deeply: at most {MAX_DEPTH} levels are allowed"
# Python reads a number with an exponent ten times slower than other values, and long integers in quadratic
# time: 64 of up to 4,300 digits in a row take as long.
_SLOW_WEIGHT = 10
# In texts of at most this many bytes, the slow search for the name of a duplicate is allowed.
_SEARCHED = 64 * 1024
BRACKET_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Translates an opening bracket into 1 and a closing one into -1: their running total is the depth."""
NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_ZERO_DIGITS = bytes(ord("0") if byte in b"123456789" else byte for byte in range(256))
# Python writes integers in quadratic time. From about 500 digits, names are counted without writing them.
# Every 16th character shows so many digits in a row, at a twentieth of the cost.
_SAMPLE = 16
_LONG_INTEGER = b"0" * (500 // _SAMPLE)
_SLOW_DIGITS = b"0" * 64
_LONG_TEXT = 4 * 1024


def is_same_json(one: bytes, other: bytes) -> bool:
    """Return whether two JSON texts that passed :func:`decode_strict` have the same value.

    The order of names, whitespace, escapes and the spelling of a number (``1.0``, ``1``) make no difference.
    """
    return one == other or _meaning(one) == _meaning(other)


def _meaning(text: bytes) -> Any:
    # A tuple for each number: to Python, 1 and True are equal.
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(digits: str) -> tuple[Decimal]:
    return (Decimal(digits),)


def decode_strict(text: bytes, max_values: int = MAX_VALUES) -> Any:
    """Decode a JSON text of at most so many values; see :func:`check_values`.

    Integers keep all of their digits, up to 4,300.

    Raises:
        ValueError: the text is not JSON or not UTF-8, or has a duplicate name in an object, a number that no
            double can hold, more than :data:`MAX_DEPTH` levels, or too many values. The message completes
            "the body …".
    """
    if len(text) >= LARGE and gc.isenabled():
        with no_collection():
            return decode_strict(text, max_values)
    structure = check_values(text, max_values)
    try:
        value = decode_json(text)
    except msgspec.ValidationError:
        raise ValueError("contains a number that is out of range") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(why_refused(text, error)) from None
    if is_deep(structure, max_values):
        raise ValueError(_TOO_DEEP)
    if len(text) > _LONG_TEXT and _LONG_INTEGER in text[::_SAMPLE].translate(_ZERO_DIGITS):
        has_all_names = _count_names(value) == _count_colons(text, max_values)
    else:
        # Encoded again, a value has as many colons as its text, unless a duplicate name was lost (or a colon
        # was written as \u003a). A text without spaces is usually the same again, which is faster to see.
        encoded = _encode(value)
        if encoded == text:
            return value
        if b"\\u003" in text:
            has_all_names = _count_colons(encoded, max_values) == _count_colons(text, max_values)
        else:
            has_all_names = encoded.count(b":") == text.count(b":")
    if not has_all_names:
        raise ValueError(_duplicate(text))
    return value


def why_refused(text: bytes, error: Exception) -> str:
    """Return what is wrong with a text that msgspec has refused. It completes "the body …"."""
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    # Of either kind: msgspec 0.23 has changed it. It takes UTF-16, which PowerShell writes, for bad JSON.
    if "utf-8" in str(error).lower() or b"\0" in text[:4] or text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is not UTF-8"
    if not text.strip():
        return "is empty: JSON is expected"
    # msgspec's message does not say what is wrong, and JavaScript clients produce halves by cutting a text in
    # the middle of an emoji, word processors the other quotation marks.
    reason = f"is not JSON: {error}"
    if _SURROGATE.search(text):
        reason += ". Half of a surrogate pair (\\ud800 to \\udfff) is not a character"
    at = int(place[1]) if (place := _PLACE.search(str(error))) else len(text)
    mark = text[at : at + 3].decode(errors="ignore")[:1]
    if mark and mark in _OTHER_MARKS:
        reason += f'. Write " as the quotation mark, not {mark}'
    return reason


def encode_strict(value: Any) -> bytes:
    """Encode a value as a JSON text that :func:`decode_strict` accepts.

    Raises:
        ValueError: JSON cannot express the value: it contains NaN, bytes or another object, a key that is not
            a string, itself, or more than :data:`MAX_DEPTH` levels. The message completes "the example …".
    """
    # The standard library's encoder: msgspec turns NaN into null, and bytes, dates and records into strings.
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except UnicodeEncodeError:
        raise ValueError("contains half of a surrogate pair, which is not a character") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    decode_strict(text)
    if not _has_text_keys(value):
        raise ValueError("has a key that is not a string")
    return text


def _has_text_keys(value: Any) -> bool:
    # Recursion is safe here: the depth was checked.
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_has_text_keys, value.values()))
    return not isinstance(value, (list, tuple)) or all(map(_has_text_keys, value))


def check_values(text: bytes, most: int) -> bytes:
    """Check that a JSON text has at most so many values.

    A number with an exponent counts as ten, and so do 64 digits in a row.

    Returns:
        The text, or of a long one its structure: in both, brackets outside of strings are nested alike.

    Raises:
        ValueError: it has more. The message completes "the body …".
    """
    # The shortest value that counts as ten is "1e1,": most texts are too short for too many values, and so
    # are nearly all others without their strings. A pass over strings takes longer than to decode them.
    fewest = most * 4 // _SLOW_WEIGHT
    if len(text) <= _LONG_TEXT and len(text) <= fewest:
        return text
    structure = _structure(text, most)
    if structure is None or (len(structure) > fewest and count_values(structure) > most):
        raise ValueError(f"has too many JSON values: at most {most:,} are allowed")
    return structure


def count_values(structure: bytes) -> int:
    """Return how many values a text has; a number with an exponent and 64 digits in a row count as ten.

    The ``structure`` has another value instead of each string, and no white space.
    """
    words = structure.count(b"true") + structure.count(b"false")
    slow = structure.count(b"e") + structure.count(b"E") - words
    slow += structure.translate(_ZERO_DIGITS).count(_SLOW_DIGITS)
    return _count(structure) + slow * (_SLOW_WEIGHT - 1)


def _count(text: bytes) -> int:
    # Each value is the first one, or follows a comma or the bracket of a list or object that is not empty.
    return (
        1 + text.count(b",") + (text.count(b"[") - text.count(b"[]")) + (text.count(b"{") - text.count(b"{}"))
    )


def _structure(text: bytes, most: int) -> bytes | None:
    """Return a JSON text with ``0`` instead of each string and without white space.

    ``None`` if there are so many strings that the text has more than ``most`` values.
    """
    if b"\\" in text:
        # Escapes occur only in strings. Pairs of backslashes go first, so that a backslash that remains
        # before a quote escapes it.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A value has two quotes if it is a string, and two more for its name.
    quotes = 4 * most + 4
    if len(text) > quotes and text.count(b'"') > quotes:
        return None
    return b"0".join(text.split(b'"')[::2]).translate(None, b" \t\r\n")


def is_deep(text: bytes, max_values: int) -> bool:
    """Return whether a JSON text of at most so many values has more than :data:`MAX_DEPTH` levels."""
    # Counting is fast, and too few brackets cannot be too deep: the exact look is only for the others.
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return False
    structure = _structure(text, max_values) or b""
    steps = memoryview(structure.translate(BRACKET_STEPS, NO_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0) > MAX_DEPTH


def _count_colons(text: bytes, max_values: int) -> int:
    """Return the number of colons outside of strings, which is that of names."""
    structure = _structure(text, max_values)
    return -1 if structure is None else structure.count(b":")


def _count_names(value: Any) -> int:
    names, nodes = 0, [value]
    for node in nodes:  # the list grows meanwhile
        if type(node) is dict:
            names += len(node)
            nodes.extend(node.values())
        elif type(node) is list:
            nodes.extend(node)
    return names


def _duplicate(text: bytes) -> str:
    """Say that a text has a duplicate name, and which one if finding it is quick."""
    if len(text) <= _SEARCHED:
        try:
            json.loads(text, object_pairs_hook=_unique, parse_int=len, parse_float=len)
        except ValueError as error:
            return str(error)
    return "has the same name twice in one object"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"has the name {name[:64]!r} twice in one object")
        found[name] = value
    return found
