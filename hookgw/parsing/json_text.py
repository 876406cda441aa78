"""JSON as hookgw takes it from others: RFC 8259, with nothing that two readers take differently. No I/O.

msgspec reads it. What msgspec lets pass is refused here: a name that is there twice in an object (one
reader would see the first value, another the last), and nesting that some later reader cannot follow.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import msgspec

MAX_DEPTH = 200
"""How deeply objects and lists may be nested. Every CPython reads that, from whatever depth of calls."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode_strict(text: bytes) -> Any:
    """The value of a JSON text.

    Integers keep all of their digits, up to 4,300 of them.

    Raises:
        ValueError: it is no JSON, is not UTF-8, has a name twice in one object, a number that no double
            can hold, or more than :data:`MAX_DEPTH` levels. The message completes "the body …".
    """
    try:
        value = _decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except msgspec.ValidationError:
        raise ValueError("has a number in it that is out of range") from None
    except msgspec.DecodeError as error:
        raise ValueError(_malformed(text, error)) from None
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and _is_deep(value):
        raise ValueError(_TOO_DEEP)
    if b"\\u003" in text or text.count(b":") != _encode(value).count(b":"):
        _refuse_twins(text)
    return value


_TOO_DEEP = f"is nested too deeply: at most {MAX_DEPTH} levels are read"


def _malformed(text: bytes, error: msgspec.DecodeError) -> str:
    if not text.strip():
        return "is empty: JSON is expected"
    if _SURROGATE.search(text):
        return f"is not JSON: {error}. Half of a surrogate pair (\\ud800 to \\udfff) stands for no character"
    return f"is not JSON: {error}"


def _is_deep(value: Any) -> bool:
    """Whether more than MAX_DEPTH objects and lists are inside each other, seen level by level."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in inner if type(child) is dict or type(child) is list]
        if not level:
            return False
    return True


def _refuse_twins(text: bytes) -> None:
    """Look for a name that is twice in an object.

    Written again from what was read, a text has as many colons as before, unless a twin was lost (or a
    colon was spelled ``\\u003a``). So this slow, exact look is taken only where that count is off.
    """
    json.loads(text, object_pairs_hook=_unique, parse_int=len, parse_float=len)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"has the name {name[:64]!r} twice in one object")
        found[name] = value
    return found


_DENSE = 16
"""Bytes between two commas, below which a list may have so many items that to take it apart is costly."""


def has_more_items(text: bytes, most: int) -> bool:
    """Whether a JSON text is a list of so many tiny items that it must not even be taken apart.

    Millions of them take a hundred times the memory of the text, and hold up everybody meanwhile. Only texts
    with so many commas that this can be are read for it, no further than to the first item too many.

    Returns:
        whether there are more than ``most``; false also for what is not worth the look, or is malformed.
    """
    commas = text.count(b",")
    if commas <= _DENSE * most or commas * _DENSE <= len(text):
        return False
    try:
        _at_most(most).decode(text)
    except msgspec.ValidationError as error:
        return "of at most length" in str(error)
    except (msgspec.DecodeError, RecursionError):
        pass  # whoever takes it apart says what is wrong
    return False


@lru_cache(maxsize=1)
def _at_most(items: int) -> msgspec.json.Decoder[Any]:
    """Reads so many items, and stops at the next one. (A row of fields has such a bound, a list has none.)"""
    one = (msgspec.Raw | msgspec.UnsetType, msgspec.UNSET)
    fields = [(f"item_{number}", *one) for number in range(items)]
    row = msgspec.defstruct("Row", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(row)
