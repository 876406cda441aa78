from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.parsing.json_text import MAX_DEPTH, decode_strict, has_more_items

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_texts_of_the_json_module_are_read(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert decode_strict(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b'{"a": NaN}', "is not JSON"),
        (b'{"a": -Infinity}', "is not JSON"),
        (b'{"a": 01}', "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": "\x01"}', "is not JSON"),
        (rb'{"a": "\q"}', "is not JSON"),
        (rb'{"a": "\ud83d"}', "surrogate pair"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        (b'{"\xc3\x28": 1}', "is not UTF-8"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a": 1, "a": 1}', "has the name 'a' twice"),
        (b'{"b": [{"a": {}, "a" : {}}]}', "has the name 'a' twice"),
        (rb'{"a": 1, "\u0061": 2}', "has the name 'a' twice"),
        (rb'{"a": 1, "a": "\u003a"}', "has the name 'a' twice"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000, "nested too deeply"),
    ],
    ids=repr,
)
def test_malformed_json_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_strict(text)


@pytest.mark.parametrize(
    "text", [b'{"a": ":::"}', rb'{"a": "\u003a", "b": "\u003A"}', b'[{"a": 1}, {"a": 1}]']
)
def test_colons_and_names_of_different_objects_are_not_duplicates(text: bytes) -> None:
    assert decode_strict(text) == json.loads(text)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_read_up_to_the_limit(opening: bytes, closing: bytes) -> None:
    def nested(depth: int) -> bytes:
        return opening * depth + b"[]" + closing * depth

    decode_strict(nested(MAX_DEPTH - 1))
    with pytest.raises(ValueError, match=f"at most {MAX_DEPTH} levels"):
        decode_strict(nested(MAX_DEPTH))


def test_many_objects_beside_each_other_are_not_deep() -> None:
    assert len(decode_strict(b"[" + b"{}," * 5000 + b"{}]")) == 5001


def test_an_integer_beyond_2_to_the_64_keeps_its_digits() -> None:
    assert decode_strict(b"[18446744073709551617, -18446744073709551617]") == [2**64 + 1, -(2**64) - 1]


@pytest.mark.parametrize(
    ("text", "has"),
    [
        (b"[" + b"1," * 99 + b"1]", True),
        (b" [\n" + b"{} , " * 99 + b"{}]", True),
        (b"[" + b"1," * 99 + b"oh no", True),
        (b"[[" + b"1," * 99 + b"1],2,3]", False),
        (b"[[" + b"1," * 99 + b"1],2,3,4]", True),
        (b"[" + b'"0123456789abcdef",' * 99 + b"1]", False),
        (b"[1,2,3,4]", False),
        (b"[" + b"," * 99, False),
        (b'{"a":"' + b"," * 99 + b'"}', False),
        (b"[" * 5000 + b"," * 5000, False),
    ],
)
def test_a_list_of_more_items_than_may_be_is_known_before_it_is_read(text: bytes, has: bool) -> None:
    assert has_more_items(text, 3) is has
