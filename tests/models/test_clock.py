"""The two readings of the clock, and times as text."""

import math

import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.public.concurrency import Clock, virtual_clock
from tests.public.kernel import parse_rfc3339, rfc3339

pytestmark = pytest.mark.usefixtures("mock_clock")

START = 1_700_000_000.0
LAST = 253_402_300_799.0
"""The last second of the year 9999."""


class Machine:
    """A machine's clock that is set by hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def test_both_readings_begin_alike() -> None:
    clock = Clock(Machine(START))
    assert clock.wall() == clock.steady() == START


async def test_only_the_wall_follows_a_jump_of_the_machine() -> None:
    machine = Machine(START)
    clock = Clock(machine)
    machine.now -= 3600
    assert clock.wall() == START - 3600
    assert clock.steady() == START


async def test_only_the_steady_reading_follows_trio(mock_clock: trio.testing.MockClock) -> None:
    clock = Clock(Machine(START))
    mock_clock.jump(5)
    assert clock.wall() == START
    assert clock.steady() == START + 5


async def test_a_steady_time_is_a_deadline_for_a_scope(mock_clock: trio.testing.MockClock) -> None:
    clock = Clock(Machine(START))
    deadline = clock.deadline(clock.steady() + 5)
    assert deadline == trio.current_time() + 5
    mock_clock.jump(5)
    with trio.move_on_at(deadline) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_both_readings_of_a_virtual_clock_move_with_trio(mock_clock: trio.testing.MockClock) -> None:
    mock_clock.jump(100)
    clock = virtual_clock(START)
    mock_clock.jump(7)
    assert clock.wall() == clock.steady() == START + 107


async def test_a_second_virtual_clock_continues_the_first(mock_clock: trio.testing.MockClock) -> None:
    first = virtual_clock(START)
    mock_clock.jump(7)
    assert virtual_clock(START).steady() == first.steady()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (START, "2023-11-14T22:13:20.000Z"),
        (START + 0.1239, "2023-11-14T22:13:20.123Z"),
        (START + 0.9996, "2023-11-14T22:13:20.999Z"),
        (-1, "1969-12-31T23:59:59.000Z"),
        (LAST, "9999-12-31T23:59:59.000Z"),
        (-62_135_596_800, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_written_in_utc_with_milliseconds(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text


@pytest.mark.parametrize("seconds", [LAST + 1, -62_135_596_801, math.nan])
def test_a_year_without_four_digits_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"year|NaN"):
        rfc3339(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-14T22:13:20Z", START),
        ("2023-11-14T22:13:20.5Z", START + 0.5),
        ("2023-11-14t22:13:20z", START),
        ("2023-11-14 22:13:20", START),
        ("2023-11-14T22:13:20", START),
        ("2023-11-14T19:13:20-03:00", START),
        ("2023-11-15T03:43:20+05:30", START),
        ("2023-11-14T22:13:20.123456789Z", START + 0.123456),
    ],
)
def test_any_offset_is_read_and_a_missing_one_is_utc(text: str, seconds: float) -> None:
    assert parse_rfc3339(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2023-11-14", "20231114T221320Z", "2023-W46-2", "2023-11-14T22Z", "22:13:20"),
        *(
            "2023-11-14T22:13:20,5Z",
            "2023-11-14T22:13:20+0300",
            "2023-11-14T22:13:20Z ",
            "2023-11-14T22:13:20.Z",
        ),
        *("2023-02-30T00:00:00Z", "2023-11-14T25:00:00Z", "2023-11-14T22:13:60Z", "0000-01-01T00:00:00Z"),
        *("٢٠٢٣-11-14T22:13:20Z", "x" * 10_000),
    ],
)
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_rfc3339(text)
    assert len(str(caught.value)) < 200


@given(st.integers(-62_135_596_800_000, int(LAST) * 1000 - 1))
def test_a_written_time_is_read_back_to_the_millisecond(milliseconds: int) -> None:
    text = rfc3339(milliseconds / 1000)
    assert abs(parse_rfc3339(text) - milliseconds / 1000) < 0.0011
