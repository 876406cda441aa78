"""Strict JSON: RFC 8259, without texts that two readers understand differently. No I/O.

msgspec decodes it. This module refuses what msgspec accepts: duplicate names in an object (one reader would
use the first value, another one the last), and nesting so deep that some later reader fails.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import msgspec

# Objects and lists inside each other. Every CPython can decode this depth, from any depth of calls.
MAX_DEPTH = 200

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOO_DEEP = f"is nested too deeply: at most {MAX_DEPTH} levels are allowed"


def decode_strict(text: bytes) -> Any:
    """Decode a JSON text.

    Integers keep all of their digits, up to 4,300.

    Raises:
        ValueError: the text is not JSON or not UTF-8, or has a duplicate name in an object, a number that no
            double can hold, or more than :data:`MAX_DEPTH` levels. The message completes "the body …".
    """
    try:
        value = _decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except msgspec.ValidationError:
        raise ValueError("contains a number that is out of range") from None
    except msgspec.DecodeError as error:
        if not text.strip():
            raise ValueError("is empty: JSON is expected") from None
        reason = f"is not JSON: {error}"
        # msgspec's message does not say what is wrong, and JavaScript clients produce these by cutting a text
        # in the middle of an emoji.
        if _SURROGATE.search(text):
            reason += ". Half of a surrogate pair (\\ud800 to \\udfff) is not a character"
        raise ValueError(reason) from None
    # Counting is fast, and too few brackets cannot be too deep: the slow look is only for the others.
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and _is_deep(value):
        raise ValueError(_TOO_DEEP)
    # Encoded again, a value has as many colons as its text, unless a duplicate name was lost (or a colon was
    # written as \u003a). Only then is the slow, exact check necessary.
    if b"\\u003" in text or text.count(b":") != _encode(value).count(b":"):
        json.loads(text, object_pairs_hook=_unique, parse_int=len, parse_float=len)
    return value


def _is_deep(value: Any) -> bool:
    # Level by level, because a recursive walk would need the stack that the limit protects.
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in inner if type(child) is dict or type(child) is list]
        if not level:
            return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"has the name {name[:64]!r} twice in one object")
        found[name] = value
    return found


# Average bytes per comma below which splitting a list is costly: its items are then smaller than the objects
# that Python makes of them.
_DENSE = 16


def has_more_items(text: bytes, most: int) -> bool:
    """Return whether a JSON text is a list of more than ``most`` tiny items, which must not be split.

    Millions of tiny items take a hundred times the memory of the text and block the event loop meanwhile.
    Only texts with many commas are examined, and only up to the first item too many.

    Returns:
        ``False`` also for texts that are not dense or are malformed: splitting them reports the mistake.
    """
    commas = text.count(b",")
    if commas <= _DENSE * most or commas * _DENSE <= len(text):
        return False
    try:
        _at_most(most).decode(text)
    except msgspec.ValidationError as error:
        return "of at most length" in str(error)
    except (msgspec.DecodeError, RecursionError):
        pass
    return False


@lru_cache(maxsize=1)
def _at_most(items: int) -> msgspec.json.Decoder[Any]:
    # msgspec checks a list's maximum length only after decoding all of it. An array-like struct with that
    # many optional fields stops at the first item too many.
    one = (msgspec.Raw | msgspec.UnsetType, msgspec.UNSET)
    fields = [(f"item_{number}", *one) for number in range(items)]
    row = msgspec.defstruct("Row", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(row)
