"""Charts as SVG: where bars, lines and ticks are. No I/O.

Places are in percent of the drawing, from its upper left corner, so that texts and lines keep their size at
any width. Colours come from the stylesheet, by the names of the series: a page may set no style itself. Words
are those of the template, ``figures.html``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

Values = Sequence[float | None]


class Unit(StrEnum):
    COUNT = "count"
    SECONDS = "seconds"


class Axis(NamedTuple):
    """The time that a chart shows, in steps of one length.

    Attributes:
        begin: seconds since the epoch.
        step: seconds.
        steps: how many.
        zone: the reader's.
        chosen: the span that the reader has chosen; ``None`` for no such span.
    """

    begin: float
    step: float
    steps: int
    zone: datetime.tzinfo = datetime.UTC
    chosen: tuple[float, float] | None = None

    @property
    def end(self) -> float:
        return self.begin + self.step * self.steps

    def text_of(self, moment: float) -> str:
        """Return a time in the reader's zone, for a reader without scripts."""
        return datetime.datetime.fromtimestamp(moment, self.zone).strftime("%m-%d %H:%M")

    def place(self, moment: float) -> float:
        """Return where a time is, in percent; a time outside is at the edge."""
        return min(100.0, max(0.0, round((moment - self.begin) / (self.end - self.begin) * 100, 2)))


class Series(NamedTuple):
    """A part of the bars, or a line.

    Attributes:
        name: its class, and the key of its words.
        values: one for each step; ``None`` where there is none.
    """

    name: str
    values: Values


class Tick(NamedTuple):
    """A mark of an axis.

    Attributes:
        at: seconds since the epoch, on the axis of time.
        is_day: whether the day is said, not the time of day.
    """

    place: float
    text: str
    at: float = 0.0
    is_day: bool = False


class Drawn(NamedTuple):
    """A series in a drawing of 100 by 100.

    Attributes:
        path: of SVG: all bars of the series; empty for a line.
        points: of a ``polyline``; a line is broken where there is no value.
    """

    name: str
    path: str = ""
    points: tuple[str, ...] = ()


class Chart(NamedTuple):
    """A drawing. ``across`` are ticks of time, and ``up`` those of values."""

    axis: Axis
    drawn: list[Drawn]
    across: list[Tick]
    up: list[Tick]

    @property
    def chosen(self) -> tuple[float, float] | None:
        """The left edge and the width of the chosen span, as far as it is in the drawing."""
        if self.axis.chosen is None:
            return None
        left, right = map(self.axis.place, self.axis.chosen)
        return (left, round(right - left, 2)) if right > left else None


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_TIME_STEPS = (60, 300, 600, 900, 1_800, _HOUR, 2 * _HOUR, 3 * _HOUR, 4 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY)
_DAY_STEPS = (2, 5, 7, 14, 30)
_MOST_ACROSS = 7
_MOST_UP = 4
_SECONDS = (
    *(digit * 10.0**power for power in (-3, -2, -1) for digit in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0),
    *(hours * _HOUR for hours in (1.0, 2.0, 6.0, 12.0)),
    *(days * _DAY for days in (1.0, 2.0, 5.0, 10.0, 30.0)),
)
_GAP = 0.2
"""The part of a step that is free beside its bar."""
_LOWEST = 1.5
"""Percent: a single one among thousands still shows."""


def bar_chart(axis: Axis, *series: Series, unit: Unit = Unit.COUNT) -> Chart:
    """Return a chart of bars; the values of a step stand on each other, the first series below."""
    top, up = _up(max((sum(map(_number, step)) for step in _steps(series)), default=0), unit)
    paths = _bars(series, 100, top, _LOWEST)
    drawn = [Drawn(one.name, path) for one, path in zip(series, paths, strict=True)]
    return Chart(axis, drawn, _across(axis), up)


def line_chart(axis: Axis, *series: Series, unit: Unit) -> Chart:
    """Return a chart of lines, each through the middles of the steps."""
    top, up = _up(max((_number(value) for one in series for value in one.values), default=0), unit)
    drawn = []
    for one in series:
        stretches, stretch = list[str](), list[str]()
        for number, value in enumerate((*one.values, None)):
            if value is not None:
                x, y = (number + 0.5) / axis.steps * 100, 100 - value / top * 100
                stretch.append(f"{_short(x):g},{_short(y):g}")
            elif stretch:
                # A single point is a line of no length, which its round ends show.
                stretches.append(" ".join(stretch if len(stretch) > 1 else stretch * 2))
                stretch = []
        drawn.append(Drawn(one.name, points=tuple(stretches)))
    return Chart(axis, drawn, _across(axis), up)


def spark(good: Values, bad: Values) -> tuple[str, str]:
    """Return two SVG paths within 100 by 20: the bars of a small chart, and what went wrong of them.

    Both have one value for each step.
    """
    series = (Series("", good), Series("", bad))
    highest = max((sum(map(_number, step)) for step in _steps(series)), default=0)
    first, second = _bars(series, 20, highest or 1, 2.0)
    return first, second


def _bars(series: Sequence[Series], edge: float, top: float, lowest: float) -> list[str]:
    """Return the path of each series, in a drawing of 100 by ``edge`` with the value ``top`` at its edge."""
    steps = list(_steps(series))
    paths, width = [""] * len(series), 100 / max(1, len(steps))
    for number, values in enumerate(steps):
        bottom = edge
        x, wide = _short(width * (number + _GAP / 2)), _short(width * (1 - _GAP))
        for place, value in enumerate(map(_number, values)):
            if value:
                height = min(bottom, max(lowest, value / top * edge))
                paths[place] += f"M{x:g} {_short(bottom):g}v-{_short(height):g}h{wide:g}v{_short(height):g}z"
                bottom -= height
    return paths


def _steps(series: Sequence[Series]) -> Iterator[tuple[float | None, ...]]:
    return zip(*(one.values for one in series), strict=True)


def _number(value: float | None) -> float:
    return value or 0


def _short(number: float) -> float:
    return round(number, 2)


def _up(highest: float, unit: Unit) -> tuple[float, list[Tick]]:
    """Return the value at the upper edge, and the ticks of values, which begin at 0."""
    if unit is Unit.COUNT:
        power = 10 ** max(0, len(str(int(highest))) - 2)
        steps: Sequence[float] = [digit * power * ten for ten in (1, 10) for digit in (1, 2, 5)]
    else:
        steps = _SECONDS
    step = next((one for one in steps if highest <= one * _MOST_UP), steps[-1])
    count = max(1, int(-(-highest // step)))
    # Beyond the longest step, there may be many.
    each = -(-count // _MOST_UP)
    ticks = [
        Tick(_short(100 - n / count * 100), value_text(n * step, unit)) for n in range(0, count + 1, each)
    ]
    return count * step, ticks


def value_text(value: float, unit: Unit) -> str:
    """Return a value beside its tick, in few characters that are the same in all languages."""
    if unit is Unit.COUNT:
        for length, letter in ((1_000_000, "M"), (1_000, "k")):
            if value >= length and value >= 10_000:
                return f"{value / length:g}{letter}"
        return f"{value:g}"
    if not value:
        return "0"
    for length, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        if value >= length:
            return f"{value / length:g} {name}"
    return f"{value * 1_000:g} ms"


def _across(axis: Axis) -> list[Tick]:
    """Return the ticks of time: at full hours and days of the reader's zone."""
    length = axis.end - axis.begin
    step = next((one for one in _TIME_STEPS if length / one <= _MOST_ACROSS), None)
    days = (
        1
        if step
        else next((one for one in _DAY_STEPS if length / _DAY / one <= _MOST_ACROSS), _DAY_STEPS[-1])
    )
    ticks = []
    for moment, is_day in _moments(axis, step or _DAY, days):
        if axis.begin <= moment.timestamp() <= axis.end:
            text = moment.strftime("%m-%d" if is_day else "%H:%M")
            ticks.append(Tick(axis.place(moment.timestamp()), text, moment.timestamp(), is_day))
    return ticks


def _moments(axis: Axis, step: int, days: int) -> Iterator[tuple[datetime.datetime, bool]]:
    first, last = (datetime.datetime.fromtimestamp(one, axis.zone).date() for one in (axis.begin, axis.end))
    for ordinal in range(first.toordinal(), last.toordinal() + 1):
        if ordinal % days:
            continue
        # Each by its time of day, not by its distance from the one before: clocks are put forward and back.
        for second in range(0, _DAY, step):
            time = datetime.time(second // _HOUR, second % _HOUR // _MINUTE)
            yield (
                datetime.datetime.combine(datetime.date.fromordinal(ordinal), time, axis.zone),
                second == 0,
            )
