"""Payloads are cut before they become large pages."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.site import MOST, html_size, shown_json, shown_text

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=5), inner, max_size=5)
    ),
)


@given(values, st.booleans())
def test_a_short_payload_is_indented_as_a_whole(value: object, is_spaced: bool) -> None:
    data = json.dumps(value).encode() if is_spaced else msgspec.json.encode(value)
    shown = shown_json(data)
    assert shown.is_whole
    assert shown.text == msgspec.json.format(data).decode()


@given(values, st.integers(0, 200))
def test_of_a_long_payload_the_beginning_is_shown(value: object, most: int) -> None:
    data = msgspec.json.encode(value)
    whole = msgspec.json.format(data).decode()
    shown = shown_json(data, most)
    assert whole.startswith(shown.text)
    assert html_size(shown.text) <= most or shown.is_whole
    assert shown.is_whole == (html_size(whole) <= most)


@given(st.text(alphabet='<&"a\n\x01é😀', max_size=2000), st.integers(0, 3000))
def test_of_a_long_text_the_beginning_is_shown(text: str, most: int) -> None:
    shown = shown_text(text, most)
    assert text.startswith(shown.text)
    assert html_size(shown.text) <= most
    assert shown.is_whole == (html_size(text) <= most)
    assert shown.is_whole or html_size(shown.text) > most - 256 * 5


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 400 + b"[]" + b",[]" * 60_000 + b"]" * 400,
        b'"' + b"<" * 198_000 + b'"',
        b'["' + b'\\"' * 99_000 + b'"]',
        b"[" + b"0," * 99_000 + b"0]",
        b'{"' + "😀".encode() * 49_000 + b'":1}',
    ],
    ids=["nested", "escaped", "quotes", "values", "key"],
)
def test_no_payload_of_198_kb_is_a_large_page(data: bytes) -> None:
    shown = shown_json(data)
    assert not shown.is_whole
    assert MOST - 2048 < html_size(shown.text) <= MOST
