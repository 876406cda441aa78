"""Durations and sizes: what is read, what is refused, and that what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.kernel import Duration, Size, parse_duration, parse_size

THREE_DAYS = 3 * 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("5s", 5),
        ("10m", 600),
        ("1h", 3600),
        ("3d", THREE_DAYS),
        ("2w", 14 * 86400),
        ("1.5h", 5400),
        ("0.1s", 0.1),
        ("5 s", 5),
        ("5S", 5),
        ("0", 0),
        (0, 0),
        (0.0, 0),
        ("0ms", 0),
    ],
)
def test_a_duration_is_read_as_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert type(parse_duration(text)) is Duration


@pytest.mark.parametrize(
    "value",
    [
        *(5, 1.5, None, True, False, [], {}),
        *("5", "-5s", "5 parsecs", "s", "", ".5s", "5.s", "1e3s", "5s ", " 5s", "5s\n", "5  s", "٥s", "5KiB"),
        *("9" * 25 + "s", "inf", "nans"),
    ],
)
def test_malformed_durations_are_refused_with_the_expected_form(value: object) -> None:
    with pytest.raises(ValueError, match=r"^expected a duration such as 200ms, 5s, 10m, 1h or 3d, got "):
        parse_duration(value)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512B", 512),
        ("64KiB", 65536),
        ("1MiB", 2**20),
        ("2gib", 2**31),
        ("1kB", 1000),
        ("5MB", 5_000_000),
        ("1GB", 10**9),
        ("1.5KiB", 1536),
        ("0", 0),
        (0, 0),
    ],
)
def test_a_size_is_read_as_bytes(text: object, count: int) -> None:
    assert parse_size(text) == count
    assert type(parse_size(text)) is Size


@pytest.mark.parametrize(
    "value", [64, "64", "-1B", "1.5B", "0.3KiB", "5s", "1TiB", "64k", None, True, "9" * 25]
)
def test_malformed_sizes_are_refused_with_the_expected_form(value: object) -> None:
    with pytest.raises(ValueError, match=r"^expected a size such as 512B, 64KiB or 1MiB"):
        parse_size(value)


def test_a_long_wrong_value_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match=r"got '9{24}…'$"):
        parse_duration("9" * 10_000)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.2, "200ms"),
        (1.5, "1500ms"),
        (0.0001, "0.1ms"),
        (0.001, "1ms"),
        (10, "10s"),
        (90, "90s"),
        (600, "10m"),
        (3600, "1h"),
        (THREE_DAYS, "3d"),
        (604800, "1w"),
        (1234567.8901, "1234567890.1ms"),
        (5e29, "500000000000000000000000000000s"),
    ],
)
def test_a_duration_is_written_with_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert str(Duration(seconds)) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0B"),
        (1, "1B"),
        (1000, "1000B"),
        (1024, "1KiB"),
        (1536, "1536B"),
        (2**20, "1MiB"),
        (3 * 2**30, "3GiB"),
    ],
)
def test_a_size_is_written_with_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert str(Size(count)) == text


@given(st.integers(0, 10**12))
def test_every_size_is_read_back(count: int) -> None:
    assert parse_size(str(Size(count))) == count


@given(st.integers(0, 10**13))
def test_every_duration_is_read_back(milliseconds: int) -> None:
    duration = Duration(milliseconds / 1000)
    assert parse_duration(str(duration)) == duration
