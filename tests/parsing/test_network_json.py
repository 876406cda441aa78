import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookgw import EventLeftOut, NetworkEvents, decode_json
from hookgw.kernel import long_json, network_json
from tests.public.kernel import MOST_VALUES, PART, LeftOut, finish, measure, mend, read_network_json

EVENTS = ("/rooms/*/events/#", "/result/#")


@contextmanager
def parts_of(size: int) -> Iterator[None]:
    """Read in parts of so many bytes, so that short texts have many."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((long_json, "CHUNK"), (network_json, "CHUNK"), (network_json, "PART")):
            patch.setattr(module, name, size)
        yield


def plain(value: Any) -> Any:
    """Return a decoded value with lists in place of the events."""
    if isinstance(value, NetworkEvents):
        return [plain(event) for event in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def read(text: bytes, *events: str) -> tuple[Any, list[LeftOut], int]:
    """Return what was read, what was left out, and how often it paused."""
    left_out: list[LeftOut] = []
    steps, pauses = read_network_json(text, events, left_out.append), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return plain(end.value), left_out, pauses
        pauses += 1


def reference(text: bytes) -> Any:
    """Read JSON as a network's should be read, in one step and slowly."""

    def number(digits: str) -> Any:
        found = float(digits)
        return None if abs(found) == float("inf") else found

    def integer(digits: str) -> Any:
        return int(digits) if len(digits) <= 400 else None

    def sound(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub("[\ud800-\udfff]", "\ufffd", value)
        if isinstance(value, list):
            return [sound(item) for item in value]
        if isinstance(value, dict):
            return {sound(name): sound(item) for name, item in value.items()}
        return value

    lenient = text.decode("utf-8", "replace")
    return sound(json.loads(lenient, parse_constant=lambda _: None, parse_int=integer, parse_float=number))


ESCAPES = st.sampled_from(
    [
        *(r"\ud83d", r"\uDE00", r"\uD83D\uDE00", r"\udBff\udfff", r"\ud83d\ud83d", r"\ude00\ud83d"),
        *(r"\\", r"\\\\", r"\"", r"\n", r"\/", r"\u00e9", r"\u005c", r"\\ud800", r"\\\ud800", r"\\\\ud83d"),
        *("a", "NaN", "-Infinity", "ud83d", "é", "😀", "{", "[", "]", "}", ",", ":", " "),
    ]
)
STRINGS = st.lists(ESCAPES, max_size=12).map(lambda parts: f'"{"".join(parts)}"')
ODD_JSON = st.recursive(
    STRINGS
    | st.sampled_from(["0", "-1.5", "1e5", "1e999", "NaN", "-Infinity", "true", "null", "1" + "0" * 4999])
    | st.integers().map(str),
    lambda inner: (
        st.lists(inner, max_size=5).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(STRINGS, inner), max_size=5).map(
            lambda members: "{" + " ,".join(f"{name}: {item}" for name, item in members) + "}"
        )
    ),
    max_leaves=20,
).map(str.encode)


class TestMend:
    @given(ODD_JSON | st.binary(max_size=40))
    def test_it_reads_as_the_reference_does(self, text: bytes) -> None:
        try:
            expected = reference(text)
        except ValueError:
            return
        mended = mend(text)
        mended.decode()
        assert reference(mended) == expected
        msgspec.json.decode(mended, type=msgspec.Raw)

    @given(
        st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
    )
    def test_a_valid_text_stays_as_it_is(self, value: Any) -> None:
        for text in (json.dumps(value).encode(), msgspec.json.encode(value)):
            assert mend(text) == text

    @pytest.mark.parametrize(
        ("text", "mended"),
        [
            (rb'"\ud800"', rb'"\ufffd"'),
            (rb'"\uDFFF"', rb'"\ufffd"'),
            (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
            (rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"'),
            (rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
            (rb'"\ud83d\ud83d\ude00\ude00"', rb'"\ufffd\ud83d\ude00\ufffd"'),
            (rb'"\\ud800"', rb'"\\ud800"'),
            (rb'"\\\ud800"', rb'"\\\ufffd"'),
            (rb'"\ud83d\\ude00"', rb'"\ufffd\\ude00"'),
            (b'"\xed\xa0\x80"', '"\ufffd\ufffd\ufffd"'.encode()),
            (b'"\xff"', '"\ufffd"'.encode()),
            (rb'["NaN", NaN, -Infinity, "\"Infinity"]', rb'["NaN", null, null, "\"Infinity"]'),
        ],
    )
    def test_known_texts(self, text: bytes, mended: bytes) -> None:
        assert mend(text) == mended

    @pytest.mark.parametrize("shift", range(16))
    @pytest.mark.parametrize("piece", [rb"\ud83d\ude00", rb"\\", rb"\\\ud83d", rb"\ude00\ud83d", rb"\""])
    def test_where_a_chunk_ends_makes_no_difference(self, piece: bytes, shift: int) -> None:
        text = b'["' + b"x" * shift + piece * 5000 + b'", NaN, "NaN"]'
        assert reference(mend(text)) == reference(text)
        msgspec.json.decode(mend(text))

    @given(ODD_JSON, st.sampled_from([48, 50]))
    def test_nor_does_it_in_short_texts(self, text: bytes, size: int) -> None:
        with parts_of(size):
            assert reference(mend(text)) == reference(text)


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
        (b"[" + b"1," * 19_000 + b"1e999]", [*[1] * 19_000, None]),
        (b"[" + b"1," * 19_000 + rb'"\ud83d", NaN]', [*[1] * 19_000, "�", None]),
        (b"[" + b"1," * 19_000 + b'"\xff"]', [*[1] * 19_000, "�"]),
        (b"[1" + b"0" * 5000 + b"," + b"1," * 19_000 + b"1]", [None, *[1] * 19_001]),
    ],
)
def test_what_can_be_read_is_read(text: bytes, value: Any) -> None:
    assert decode_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[1,]", b"\xff", b"[" * 100_000, b'{"a": "\\ud83d"', b"[]" + b",[]" * MOST_VALUES),
        *(
            b'"' + b"x" * PART,
            b"[" + b"1," * PART,
            b"1" * PART + b"x",
            b" " * 99_999,
        ),
        *(b'{"a": ' + b"[1] " * PART, b'["' + b"\\" * PART + b'"', b'["\\u12"' + b" " * PART + b"]"),
        *(r'["\ud83d"]'.encode(encoding) for encoding in ("utf-8-sig", "utf-16-le", "utf-16", "utf-32-be")),
    ],
)
def test_what_cannot_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(is|has) "):
        decode_json(text)
    for events in (EVENTS, ("/#",), ("",)):
        with pytest.raises(ValueError, match=r"^(is|has) "):
            read(text, *events)


@given(st.binary(max_size=64) | st.text(max_size=64).map(lambda text: json.dumps([text]).encode()))
def test_whatever_is_read_can_be_written(text: bytes) -> None:
    try:
        found = decode_json(text)
    except ValueError:
        return
    msgspec.json.encode(found)


class TestEvents:
    @given(ODD_JSON)
    @example(b'[1, "a" , [2] ,{"a": [3]}, "\\"]" , 4 ]')
    def test_parts_make_no_difference(self, text: bytes) -> None:
        expected = reference(text)
        body = b'{"result": [%b, %b], "rooms": {"a": {"events": %b}, "b": 1}, "x": %b}' % ((text,) * 4)
        whole = {"result": [expected] * 2, "rooms": {"a": {"events": expected}, "b": 1}, "x": expected}
        for size in (48, 64, PART):
            with parts_of(size):
                found, left_out, _ = read(body, *EVENTS)
            assert (found, left_out) == (whole, [])

    def test_no_part_ends_with_a_comma(self) -> None:
        with pytest.raises(ValueError, match="is not JSON"):
            read(b"[" + b"1," * PART + b"]", "/#")

    def test_many_events_are_read_in_many_steps(self) -> None:
        events = [{"id": number, "content": {"body": "hello"}} for number in range(20_000)]
        text = json.dumps({"rooms": {"a": {"events": events, "next": "x"}}}).encode()
        found, left_out, pauses = read(text, *EVENTS)
        assert found == {"rooms": {"a": {"events": events, "next": "x"}}}
        assert left_out == []
        assert pauses >= len(text) // PART

    def test_their_texts_are_small_lists(self) -> None:
        events = [{"id": number} for number in range(10_000)]
        steps = read_network_json(json.dumps(events, separators=(",", ":")).encode(), ("/#",))
        texts = list(finish(steps).texts())
        assert [event for text in texts for event in json.loads(text)] == events
        assert max(map(len, texts)) <= PART + 2
        assert len(texts) < 50

    @pytest.mark.parametrize("size", [MOST_VALUES, MOST_VALUES + 1])
    def test_an_event_has_a_limit_and_the_others_stay(self, size: int) -> None:
        # A list has one value more than items.
        large = b"[" + b",".join([b'"a,[{1e5"'] * (size - 1)) + b"]"
        text = b'{"ok": true, "result": [1, %b, {"a": 2}], "more": [3]}' % large
        found, left_out, pauses = read(text, *EVENTS)
        is_left_out = size > MOST_VALUES
        middle = [] if is_left_out else [json.loads(large)]
        assert found == {"ok": True, "result": [1, *middle, {"a": 2}], "more": [3]}
        assert [one.text for one in left_out] == [large] * is_left_out
        assert pauses > len(large) // PART

    def test_an_event_that_is_the_whole_text_has_it_too(self) -> None:
        large = b"[" + b"[]," * MOST_VALUES + b"1]"
        left_out: list[LeftOut] = []
        with pytest.raises(EventLeftOut):
            finish(read_network_json(large, ("",), left_out.append))
        assert [one.text for one in left_out] == [large]
        fits = b"[" + b"[]," * (MOST_VALUES - 2) + b"1]"
        assert finish(read_network_json(fits, ("",))) == json.loads(fits)

    def test_what_is_beside_events_has_the_same_limit(self) -> None:
        text = b'{"result": [1], "x": [%b[]], "y": 2}' % (b"[]," * MOST_VALUES)
        found, left_out, _ = read(text, *EVENTS)
        assert found == {"result": [1], "y": 2}
        assert len(left_out) == 1
        text = b'{"result": [1], "x": [%b1]}' % (b"[%b1]," % (b"1," * 15_000) * 20)
        found, left_out, _ = read(text, *EVENTS)
        assert (found, len(left_out)) == ({"result": [1]}, 1)
        text = b'{"rooms": {%b"z": 1}}' % b"".join(b'"%d": [%b1],' % (n, b"1," * 15_000) for n in range(40))
        with pytest.raises(ValueError, match="beside its events"):
            read(text, *EVENTS)

    @pytest.mark.parametrize("levels", [300, 30_000])
    def test_one_that_is_nested_too_deeply_is_left_out(
        self, levels: int, request: pytest.FixtureRequest
    ) -> None:
        # Hypothesis raises the limit.
        usual = sys.getrecursionlimit()
        request.addfinalizer(lambda: sys.setrecursionlimit(usual))
        sys.setrecursionlimit(1000)
        deep = b"[" * levels + b"]" * levels
        found, left_out, _ = read(
            b'{"result": [1, %b, %b, 2], "x": "y"}' % (deep, b"[" * 400 + b"]" * 400), *EVENTS
        )
        assert found == {"result": [1, 2], "x": "y"}
        assert len(left_out) == 2
        short = b'{"result": [1, %b, "\\ud83d"], "x": "y"}' % (b"[" * 3000 + b"]" * 3000)
        found, left_out, _ = read(short, *EVENTS)
        assert found == {"result": [1, "\ufffd"], "x": "y"}
        assert len(left_out) == 1
        with pytest.raises(EventLeftOut):
            read(b"[" * 3000 + b"]" * 3000, "")

    def test_an_account_may_be_in_very_many_rooms(self) -> None:
        room = {
            "timeline": {"events": [{"id": 1}], "next": "x"},
            "state": {},
            "unread": {"count": 0, "of": 0},
        }
        whole = {"rooms": {"join": {f"!{number}:example.org": room for number in range(20_000)}}}
        found, left_out, _ = read(json.dumps(whole).encode(), "/rooms/*/*/timeline/events/#")
        assert found == whole
        assert left_out == []

    def test_very_many_places_are_refused(self) -> None:
        text = b'{"rooms": {%b"z": 1}}' % b"".join(b'"%d": {},' % number for number in range(510_000))
        with pytest.raises(ValueError, match="has too many items"):
            read(text, *EVENTS)


def values_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(values_of, value.values()))
    return 1 + sum(map(values_of, value)) if isinstance(value, list) else 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab\\"[]{},: \n\u20ac', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text('a\\",]', max_size=5), inner, max_size=6)
    ),
)


class TestMeasure:
    @given(JSON, st.sampled_from([16, 64, PART]), st.sampled_from([None, 1]))
    def test_it_finds_the_end_and_counts_the_values(self, value: Any, chunk: int, indent: int | None) -> None:
        text = json.dumps(value, indent=indent, ensure_ascii=False).encode()
        with parts_of(chunk):
            found = finish(measure(b"  " + text + b" , [1, 2]", 2))
        assert found == (2 + len(text), values_of(value) + text.count(b"\\") // 100)

    def test_what_decoders_read_slowly_counts_more(self) -> None:
        for text, values in (
            (b"[1e5, true, false, null, -1E-5]", 24),
            (b"[" + b"1" * 128 + b"]", 20),
            (b'["' + b"\\n" * 1000 + b'"]', 12),
        ):
            assert finish(measure(text, 0)) == (len(text), values)
