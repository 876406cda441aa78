import datetime
import re
from zoneinfo import ZoneInfo

import pytest

from tests.public.site import Axis, Series, Unit, bar_chart, line_chart, spark

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC).timestamp()
HOUR, DAY = 3_600, 86_400


def counts(name: str, *values: int) -> Series:
    return Series(name, values)


def boxes(path: str) -> list[tuple[float, ...]]:
    """Return the left edge, the lower edge, the height and the width of each bar of a path."""
    found = re.findall(r"M([\d.]+) ([\d.]+)v-([\d.]+)h([\d.]+)v[\d.]+z", path)
    return [tuple(map(float, one)) for one in found]


def test_the_bars_of_a_step_stand_on_each_other() -> None:
    drawn = bar_chart(Axis(NOON, 60, 4), counts("delivered", 0, 8, 5, 0), counts("dead", 0, 0, 5, 0)).drawn
    assert [one.name for one in drawn] == ["delivered", "dead"]
    assert boxes(drawn[0].path) == [(27.5, 100, 80, 20), (52.5, 100, 50, 20)]
    assert boxes(drawn[1].path) == [(52.5, 50, 50, 20)]


def test_a_single_one_among_thousands_shows() -> None:
    [_, dead] = bar_chart(Axis(NOON, 60, 1), counts("delivered", 100_000), counts("dead", 1)).drawn
    [(_, bottom, height, _)] = boxes(dead.path)
    assert 1 < height <= bottom


def test_nothing() -> None:
    drawn = bar_chart(Axis(NOON, 60, 3), counts("delivered", 0, 0, 0))
    assert [one.path for one in drawn.drawn] == [""]
    assert [one.text for one in drawn.up] == ["0", "1"]
    assert spark([], []) == ("", "")
    assert line_chart(Axis(NOON, 60, 2), Series("p50", (None, None)), unit=Unit.SECONDS).drawn[0].points == ()


def test_a_line_is_broken_where_there_is_no_value() -> None:
    drawn = line_chart(Axis(NOON, 60, 5), Series("p50", (1.0, 2.0, None, 4.0, None)), unit=Unit.SECONDS)
    # Two stretches; that of a single point has no length.
    assert drawn.drawn[0].points == ("10,75 30,50", "70,0 70,0")


@pytest.mark.parametrize(
    ("highest", "unit", "texts"),
    [
        (1, Unit.COUNT, ["0", "1"]),
        (9, Unit.COUNT, ["0", "5", "10"]),
        (1_234, Unit.COUNT, ["0", "500", "1000", "1500"]),
        (75_000, Unit.COUNT, ["0", "20k", "40k", "60k", "80k"]),
        (3_000_000, Unit.COUNT, ["0", "1M", "2M", "3M"]),
        (0.0004, Unit.SECONDS, ["0", "1 ms"]),
        (0.31, Unit.SECONDS, ["0", "100 ms", "200 ms", "300 ms", "400 ms"]),
        (95, Unit.SECONDS, ["0", "30 s", "1 min", "1.5 min", "2 min"]),
        (3 * DAY, Unit.SECONDS, ["0", "1 d", "2 d", "3 d"]),
    ],
)
def test_ticks_of_values_are_round_and_few(highest: float, unit: Unit, texts: list[str]) -> None:
    drawn = line_chart(Axis(NOON, 60, 1), Series("x", (highest,)), unit=unit)
    assert [one.text for one in drawn.up] == texts
    assert (drawn.up[0].place, drawn.up[-1].place) == (100, 0)


@pytest.mark.parametrize(
    ("step", "count", "texts"),
    [
        (60, 60, ["11:00", "11:10", "11:20", "11:30", "11:40", "11:50", "12:00"]),
        (HOUR, 24, ["12:00", "16:00", "20:00", "11-20", "04:00", "08:00", "12:00"]),
        (6 * HOUR, 28, ["11-14", "11-15", "11-16", "11-17", "11-18", "11-19", "11-20"]),
    ],
)
def test_ticks_of_time_are_full_hours_and_days(step: int, count: int, texts: list[str]) -> None:
    assert [one.text for one in bar_chart(Axis(NOON - step * count, step, count)).across] == texts


def test_days_begin_in_the_zone_of_the_reader_also_when_clocks_change() -> None:
    zone = ZoneInfo("Europe/Lisbon")
    begin = datetime.datetime(2026, 10, 23, tzinfo=zone).timestamp()
    drawn = bar_chart(Axis(begin, HOUR, 5 * 24 + 1, zone))  # summer time ends on the 25th
    shown = [datetime.datetime.fromtimestamp(one.at, zone) for one in drawn.across]
    assert [(one.day, one.hour) for one in shown] == [(23, 0), (24, 0), (25, 0), (26, 0), (27, 0), (28, 0)]


def test_the_chosen_span_is_marked_as_far_as_it_is_shown() -> None:
    assert bar_chart(Axis(NOON, 60, 10, chosen=(NOON + 300, NOON + 1_200))).chosen == (50, 50)
    assert bar_chart(Axis(NOON, 60, 10, chosen=(NOON - 300, NOON))).chosen is None


def test_a_small_chart_has_the_failures_on_top() -> None:
    good, bad = spark([4, 0, 2], [0, 0, 2])
    assert boxes(good) == [(3.33, 20, 20, 26.67), (70, 20, 10, 26.67)]
    assert boxes(bad) == [(70, 10, 10, 26.67)]
