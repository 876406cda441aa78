"""JSON of messaging networks: read as far as it can be read, in a time that is limited. No I/O.

What people write reaches networks, and networks' servers write it into JSON of their own: with half of a
surrogate pair where a text was cut, or with numbers that no double holds. One such value must not keep back
what is beside it. And a server that somebody else chose may answer with anything.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hookgw.models import json_decoding
from hookgw.parsing.json_text import check_values

MOST_VALUES = 1_000_000
"""JSON values of a text: more would block the process for too long."""
_LONGEST_INTEGER = 400
_INFINITY = float("inf")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_json(text: bytes) -> Any:
    """Decode JSON that a network sends: a request, or the response of its server.

    It takes what strict readers refuse, because one odd value in one message must not cost the others: bytes
    that are not UTF-8 and halves of surrogate pairs become U+FFFD, and ``null`` stands for numbers that no
    double holds. Time and memory are limited, unlike those of a JSON library.

    Args:
        text: the JSON.

    Raises:
        ValueError: the text is not JSON even so, is nested too deeply, or has more than 1,000,000 values.
    """
    check_values(text, MOST_VALUES)
    if len(text) < json_decoding.LARGE:
        return _decode(text)
    with json_decoding.no_collection():
        return _decode(text)


def _decode(text: bytes) -> Any:
    try:
        return json_decoding.decode_json(text)
    except (ValueError, RecursionError):
        pass
    try:
        found = json.loads(
            text.decode("utf-8", "replace"), parse_constant=_none, parse_int=_int, parse_float=_float
        )
        return _without_surrogates(found)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None


def _none(_: str) -> None:
    return None


def _int(digits: str) -> int | None:
    # Python reads and writes longer ones in quadratic time, and refuses the longest.
    return int(digits) if len(digits) <= _LONGEST_INTEGER else None


def _float(digits: str) -> float | None:
    found = float(digits)
    return found if -_INFINITY < found < _INFINITY else None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("�", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value
