from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import decode_json
from hookgw.parsing.network_json import MOST_VALUES


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b' {"a": [1, 2.5, null, true, "\\u00fc"]}\n', {"a": [1, 2.5, None, True, "ü"]}),
        (b"18446744073709551616", 2**64),
        # What strict readers refuse.
        (rb'{"a\ud83d": "b\udc80c", "d": "\ud83d\ude00"}', {"a�": "b�c", "d": "😀"}),
        (b'["\xff", "a"]', ["�", "a"]),
        (b'[1e999, -1e999, NaN, Infinity, "a"]', [None, None, None, None, "a"]),
        (b"[1" + b"0" * 5000 + b', 1.5, "a"]', [None, 1.5, "a"]),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"[" + b"1," * 20_000 + b"1e999]", [*[1] * 20_000, None]),
    ],
)
def test_what_can_be_read_is_read(text: bytes, value: Any) -> None:
    assert decode_json(text) == value


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1,]", b"\xff", b"[" * 100_000, b'{"a": "\\ud83d"', b"[]" + b",[]" * MOST_VALUES]
)
def test_what_cannot_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(is|has) "):
        decode_json(text)


@given(st.binary(max_size=64) | st.text(max_size=64).map(lambda text: json.dumps([text]).encode()))
def test_whatever_is_read_can_be_written(text: bytes) -> None:
    try:
        found = decode_json(text)
    except ValueError:
        return
    msgspec.json.encode(found)
