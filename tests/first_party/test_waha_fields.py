"""The fields of WAHA's JSON, of whatever type an engine has written them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.connectors import degrees, found_at
from plugins.waha.fields import id_text, number, renamed, seconds

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


def test_numbers_and_places() -> None:
    assert number({"low": -1, "high": 0, "unsigned": True}) == 2**32 - 1
    assert number({"low": -5, "high": -1, "unsigned": False}) == -5
    assert (number("-38.5"), number("1.5"), number(True)) == (-38.5, 1.5, None)
    assert (degrees("-38.5", 90), degrees(91, 90), degrees("x", 90)) == (-38.5, None, None)


def test_parts() -> None:
    assert found_at({"a": {"b": 1}}, "a", "b") == 1
    assert found_at({"a": []}, "a", "b") is None
    assert found_at(None, "a") is None
    assert [id_text(value) for value in ("1@lid", {"_serialized": "1@lid"}, {"$1": "1@lid"}, None)] == [
        *("1@lid", "1@lid", "1@lid", ""),
    ]
    given = {"a": 1, "b": "", "c": None, "d": False, "e": [], "f": 0}
    names = {name: name.upper() for name in "abcdefg"}
    assert renamed(given, names) == {"A": 1, "F": 0}
