"""Fields of JSON that a network wrote: each has the type that its reader expects, whatever was there."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.connectors import (
    LATEST_TIME,
    NetworkEvents,
    any_number,
    as_written,
    degrees,
    each,
    filled,
    found_at,
    items,
    mapping,
    number,
    one_line,
    raw_at,
    raw_items,
    seconds,
    strings,
    text,
    texts,
)
from hookgw.testing import FakeSession

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(ANYTHING)
def test_whatever_it_is_has_the_type_that_is_read(value: Any) -> None:
    assert isinstance(mapping(value), dict)
    assert all(isinstance(item, dict) for item in [*items(value), *each(value)])
    assert all(isinstance(item, str) for item in [*strings(value), text(value), one_line(value)])
    assert 0 <= (number(value) or 0) <= 2**53
    assert 0 <= seconds(value) <= LATEST_TIME
    found = degrees(value, 90)
    assert found is None or -90 <= found <= 90
    found_at(value, "a", "b")


def test_objects_and_lists() -> None:
    assert items([{"a": 1}, 2, {"b": 3}]) == [{"a": 1}, {"b": 3}]
    # The caller pauses at each, also at what is no object.
    assert list(each([{"a": 1}, 2])) == [{"a": 1}, {}]
    assert strings(["a", 1, "b"]) == ["a", "b"]
    assert found_at({"a": {"b": 1}}, "a", "b") == 1
    assert found_at({"a": []}, "a", "b") is None


async def test_events_of_a_network_are_read_like_a_list() -> None:
    found = await FakeSession().decode_json(b'[{"a": 1}, 2]', events=("/#",))
    assert isinstance(found, NetworkEvents)
    assert list(each(found)) == [{"a": 1}, {}]


def test_texts() -> None:
    # Half of a pair of surrogates cannot be stored.
    assert text("a\ud83d") == "a?"
    assert text("\U0001f600é") == "\U0001f600é"
    assert one_line(" a\n b ") == "a b"
    assert texts({"a": "x", "b": "", "c": 1}) == {"a": "x"}
    assert filled(a="x", b="", c=0, d=None, e=False, f=2) == {"a": "x", "f": 2}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((5, 5), ("5", 5), (0, 0), (2**53, 2**53), ("9" * 15, int("9" * 15))),
        *((-1, None), (2**53 + 1, None), (True, None), (5.0, None), ("5.0", None), ("٣", None), ("", None)),
        ("1" * 17, None),
    ],
)
def test_numbers(value: Any, expected: int | None) -> None:
    assert number(value) == expected


_TIMES = st.integers(1, 4_000_000_000)


@given(_TIMES)
def test_a_time_is_the_same_in_all_forms(time: int) -> None:
    halves = {"low": time - 2**32 if time >= 2**31 else time, "high": 0, "unsigned": True}
    milliseconds = time * 1000
    high, low = divmod(milliseconds, 2**32)
    for form in (time, str(time), float(time), halves):
        assert seconds(form) == time
    if milliseconds > 100_000_000_000:
        for form in (milliseconds, str(milliseconds), {"low": low, "high": high, "unsigned": False}):
            assert seconds(form) == time


@given(_TIMES, st.integers(-720, 840))
def test_a_date_with_its_offset_is_a_time(time: int, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    assert seconds(datetime.fromtimestamp(time, zone).isoformat()) == time
    assert seconds(f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S}.123456789Z") == time
    assert seconds(f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S.000}") == 0  # of which place?


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, "", "x", "1e5", "٣", "1" * 30, [], {}, {"low": 1}, {"low": True, "high": 0}, -5),
        *({"low": 1, "high": "0"}, {"low": 0, "high": 2**40}, "0001-01-01T00:00:00Z", "9999-99-99T00:00:00Z"),
    ],
)
def test_what_is_no_time_is_zero(value: Any) -> None:
    assert seconds(value) == 0


def test_numbers_of_javascript() -> None:
    assert any_number({"low": -1, "high": 0, "unsigned": True}) == 2**32 - 1
    assert any_number({"low": -5, "high": -1, "unsigned": False}) == -5
    assert (any_number("-38.5"), any_number("1.5"), any_number(True)) == (-38.5, 1.5, None)


def test_places() -> None:
    assert (degrees(-38.5), degrees("38.5"), degrees(180), degrees(91, 90)) == (-38.5, 38.5, 180.0, None)
    assert [degrees(value) for value in ("nan", "x", True, None, 10**400)] == [None] * 5


def test_the_bytes_of_a_field() -> None:
    assert raw_at(b'{"a": {"b" :1.0}, "c": 2}', "a") == b'{"b" :1.0}'
    assert [raw_at(body, "a") for body in (b"{}", b"[1]", b"", b"{", b"\xff")] == [b"null"] * 5
    # Only what no strict reader takes is replaced.
    assert raw_at(b'{"a": ["\\ud83d", NaN,1.0]}', "a") == b'["\\ufffd", null,1.0]'
    # What has a number that no double holds is written anew.
    assert raw_at(b'{"a": [1e400, 1.0,"b"], "c": 1e400}', "a") == b'[null,1.0,"b"]'


def test_the_bytes_of_items() -> None:
    assert raw_items(b'[{"b" :1.0}, 2 ,"c"]') == [b'{"b" :1.0}', b"2", b'"c"']
    assert [raw_items(body) for body in (b"{}", b"1", b"", b"[", b"\xff")] == [[]] * 5


def test_the_bytes_of_a_value_that_was_decoded() -> None:
    assert as_written(b'{"b" :1.0}', {"b": 1.0}) == b'{"b" :1.0}'
    for raw in (b'{"b":2}', b"", b"{", b"["):
        assert as_written(raw, {"b": 1}) == b'{"b":1}'
    assert as_written(b"", {"b": NetworkEvents([[1], b"[2]"], lambda _: None)}) == b'{"b":[1,2]}'
