"""When an instance's events come: counted by the hour of the week, over four weeks."""

import msgspec
import pytest

from hookgw.records.rhythms import HOUR, WEEK, Rhythm, StoredRhythm

MONDAY = 1_700_000_000 // HOUR * HOUR + 4 * WEEK * HOUR
"""The hour in which the silence of these tests begins."""


def busy(each: int, *, weeks: int = 4, hour: int = 0) -> Rhythm:
    """Return a rhythm with so many events in one hour of each week before, and one at the end of the last."""
    rhythm = Rhythm(MONDAY - weeks * WEEK * HOUR)
    for week in range(weeks, 0, -1):
        begin = MONDAY + hour * HOUR - week * WEEK * HOUR
        for number in range(each):
            rhythm.heard(begin + number * HOUR / each, 1)
    return rhythm


def test_ten_usual_gaps_of_this_hour_are_unusual() -> None:
    rhythm = busy(60)
    rhythm.heard(MONDAY + 60, 1)
    assert rhythm.usual_gap(MONDAY // HOUR) == 60
    assert not rhythm.is_unusual(MONDAY + 60 + 599)
    assert rhythm.is_unusual(MONDAY + 60 + 601)


def test_twenty_events_over_four_weeks_are_needed() -> None:
    assert busy(4).usual_gap(MONDAY // HOUR) is None
    rhythm = busy(5)
    assert rhythm.usual_gap(MONDAY // HOUR) == 720
    assert rhythm.usual_gap(MONDAY // HOUR + 1) is None


def test_the_flood_after_a_first_connection_is_no_habit() -> None:
    rhythm = Rhythm(MONDAY)
    rhythm.heard(MONDAY, 500)
    assert not rhythm.is_unusual(MONDAY + WEEK * HOUR - 1)


def test_a_burst_in_one_week_of_four_is_no_habit() -> None:
    rhythm = Rhythm(MONDAY - 4 * WEEK * HOUR)
    rhythm.heard(MONDAY - WEEK * HOUR, 24)
    assert rhythm.usual_gap(MONDAY // HOUR) == 600


def test_the_night_before_a_busy_morning_says_nothing() -> None:
    rhythm = busy(60, hour=8)
    rhythm.heard(MONDAY, 1)
    assert not rhythm.is_unusual(MONDAY + 8 * HOUR + 590)
    assert rhythm.is_unusual(MONDAY + 8 * HOUR + 610)


def test_the_silence_goes_on_over_the_end_of_an_hour() -> None:
    rhythm = busy(60)
    rhythm.heard(MONDAY + 3500, 1)
    # One gap and two thirds in this hour; the next one has no events.
    assert not rhythm.is_unusual(MONDAY + 2 * HOUR)


def test_a_busy_account_may_be_silent_for_half_a_minute() -> None:
    rhythm = busy(3600)
    rhythm.heard(MONDAY, 1)
    assert not rhythm.is_unusual(MONDAY + 29)
    assert rhythm.is_unusual(MONDAY + 31)


def test_time_without_a_connection_is_no_silence() -> None:
    rhythm = busy(60)
    rhythm.heard(MONDAY, 1)
    rhythm.not_connected(300)
    assert rhythm.silence(MONDAY + 400) == 100
    assert not rhythm.is_unusual(MONDAY + 890)
    assert rhythm.is_unusual(MONDAY + 910)


def test_events_are_forgotten_after_four_weeks() -> None:
    rhythm = busy(60)
    rhythm.heard(MONDAY + 5 * WEEK * HOUR, 1)
    assert rhythm.usual_gap(MONDAY // HOUR + 5 * WEEK) is None
    assert sum(rhythm.stored().counts) == 1


@pytest.mark.parametrize("pause", [0, 1, 700])
def test_a_stored_rhythm_goes_on(pause: int) -> None:
    rhythm = busy(60)
    rhythm.heard(MONDAY + pause * HOUR, 1)
    rhythm.quiet_since = 5.0
    text = msgspec.json.encode(rhythm.stored())
    again = Rhythm.restored(msgspec.json.decode(text, type=StoredRhythm))
    assert again.stored() == rhythm.stored()
    hour = MONDAY // HOUR + pause
    assert [again.usual_gap(hour + one) for one in range(WEEK)] == [
        rhythm.usual_gap(hour + one) for one in range(WEEK)
    ]
    assert again.quiet_since == 5.0
