"""The chart of the overview, as SVG. No I/O.

Colours come from the stylesheet, by the classes of the bars: a page may set no style itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 720, 120
"""In units of the drawing; the page scales it."""
_GAP = 2


class Bar(NamedTuple):
    """A bar, from its lower end, in units of the drawing; ``kind`` is its class."""

    x: float
    y: float
    width: float
    height: float
    kind: str


def bars(minutes: Sequence[tuple[int, int]]) -> list[Bar]:
    """Return the bars of a chart, from delivered and dead deliveries in each minute, the oldest first."""
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
