"""The chart of the overview, as SVG. No I/O.

Colours come from the stylesheet, by the classes of the bars: a page may set no style of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 720, 120
"""In units of the drawing; the page scales it."""
_GAP = 2


class Bar(NamedTuple):
    """A bar, from its lower end.

    Attributes:
        x, y, width, height: in units of the drawing.
        kind: the class of the bar.
    """

    x: float
    y: float
    width: float
    height: float
    kind: str


def bars(minutes: Sequence[tuple[int, int]]) -> list[Bar]:
    """Return the bars of a chart, one place for each minute.

    Args:
        minutes: how many deliveries were delivered and became dead, the oldest minute first.
    """
    highest = max((delivered + dead for delivered, dead in minutes), default=0)
    width = WIDTH / max(1, len(minutes))
    drawn = []
    for place, counts in enumerate(minutes):
        bottom = float(HEIGHT)
        for kind, count in zip(("delivered", "dead"), counts, strict=True):
            if count:
                # A single one among thousands still shows.
                height = max(2.0, count / highest * (HEIGHT - 4))
                bottom -= height
                drawn.append(
                    Bar(
                        round(place * width + _GAP / 2, 2),
                        round(bottom, 2),
                        width - _GAP,
                        round(height, 2),
                        kind,
                    )
                )
    return drawn
