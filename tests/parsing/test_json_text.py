import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.kernel import MAX_DEPTH, check_values, decode_strict, encode_strict

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
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),  # what PowerShell writes into files
        ('{"a": 1}'.encode("utf-16-le"), "is not UTF-8"),
        ('{"a": 1}'.encode("utf-16-be"), "is not UTF-8"),
        ('{"a": 1}'.encode("utf-32"), "is not UTF-8"),
        ("{“a”: 1}".encode(), 'Write " as the quotation mark, not “'),
        ('{"a": “x”}'.encode(), 'Write " as the quotation mark, not “'),
        (b"{'a': 1}", "Write \" as the quotation mark, not '"),
        (b"['a']", "Write \" as the quotation mark, not '"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a": 1, "a": 1}', "has the name 'a' twice"),
        (b'{"b": [{"a": {}, "a" : {}}]}', "has the name 'a' twice"),
        (rb'{"a": 1, "\u0061": 2}', "has the name 'a' twice"),
        (rb'{"a": 1, "a": "\u003a"}', "has the name 'a' twice"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b'{"a":' * 90_000 + b"1" + b"}" * 90_000, "nested too deeply"),
        (b"[" * 1_000_000, "too many JSON values"),
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
    "text",
    [
        b"[1, 2, 3]",
        b"[[], [ ], {}]",
        b"[[[[]]]]",
        b'{"a": {"b": {"c": {}}}}',
        b'["1,2", "[[,", "{}"]',
        rb'["\",,,,\\\"", ",", "\\"]',
        b"[true, false, null]",
        b'{"e": "1e5", "E": true, "": 1}',
        b"[]",
        b"1",
    ],
)
def test_values_are_counted_exactly_where_it_matters(text: bytes) -> None:
    text = text + b" " * 100  # a short text is not counted at all
    count = number_of_values(json.loads(text))
    check_values(text, 4)
    decode_strict(text, 4)
    if count > 1:
        with pytest.raises(ValueError, match=f"too many JSON values: at most {count - 1} are allowed"):
            check_values(text, count - 1)


def number_of_values(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of_values, inner))


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_the_count_of_values_is_that_of_the_json_module(
    value: object, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    exponents = text.count(b"e") + text.count(b"E")
    count = number_of_values(value)
    check_values(text, count + 9 * exponents)
    with pytest.raises(ValueError, match="too many"):
        check_values(text, count - 1)


def test_a_number_with_an_exponent_counts_as_ten() -> None:
    text = b"[1e5, 2E5, 3.5e-1, true]"
    check_values(text, 32)
    with pytest.raises(ValueError, match="too many JSON values"):
        check_values(text, 31)


@pytest.mark.parametrize("text", [b"[" + b"[]," * 100_000 + b"[]]", b"[" + b'"",' * 100_000 + b'""]'])
def test_texts_with_too_many_values_are_not_decoded(text: bytes) -> None:
    with pytest.raises(ValueError, match="at most 100,000 are allowed"):
        decode_strict(text)


def test_long_texts_of_strings_have_few_values() -> None:
    text = b'{"a": "' + b",[{e" * 100_000 + b'"}'
    assert len(decode_strict(text)["a"]) == 400_000


def test_numbers_that_msgspec_reads_slowly_are_read_exactly() -> None:
    texts = ["1.5e300", "1.7976931348623157e308", "5e-324", "2.2250738585072012e-308", "-1e-400", "1e22"]
    assert decode_strict(f"[{','.join(texts)}]".encode()) == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        # Longer texts than those above take other, faster ways to the same result.
        b'[{"a": 1, "a": 2}' + b', {"a": 1}' * 10_000 + b"]",
        rb'[{"a": 1, "\u0061": ":"}' + rb', {"a": "\u003a"}' * 10_000 + b"]",
        b'[{"a": 1, "a": ' + b"9" * 4000 + b"}" + b', {"a": 1}' * 10_000 + b"]",
    ],
)
def test_duplicate_names_in_large_texts(text: bytes) -> None:
    with pytest.raises(ValueError, match="has the same name twice in one object"):
        decode_strict(text)
    assert len(decode_strict(text.replace(b'"a": 1, ', b'"b": 1, '))) == 10_001


def test_depth_is_that_of_brackets_outside_of_strings() -> None:
    flat = {"a": "[" * 500, "b": [[]] * 300, "]": '"[{\\'}
    assert decode_strict(json.dumps(flat).encode()) == flat


@given(JSON_VALUES)
def test_what_is_encoded_is_read_as_the_same_value(value: object) -> None:
    assert decode_strict(encode_strict(value)) == value


ITSELF: list[object] = []
ITSELF.append(ITSELF)


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "is not JSON"),
        ([float("inf")], "is not JSON"),
        (b"x", "is not JSON"),
        ({1}, "is not JSON"),
        (object(), "is not JSON"),
        ({"a": [{1: 2}]}, "has a key that is not a string"),
        ({("a",): 2}, "is not JSON"),
        ("\ud800", "contains half of a surrogate pair"),
        (10**5000, "is not JSON"),
        (nested(MAX_DEPTH + 1), "is nested too deeply"),
        (nested(100_000), "is nested too deeply"),
        (ITSELF, "is not JSON"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_express_is_not_encoded(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode_strict(value)


def test_the_deepest_value_is_encoded() -> None:
    assert decode_strict(encode_strict(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
