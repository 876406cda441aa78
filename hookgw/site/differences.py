"""What differs between two texts, line by line, for pages. No I/O.

At most :data:`MOST_LINES` lines of each are compared, and lines that are frequent are passed over as
:mod:`difflib` does: a text that somebody has made to be slow is compared coarsely instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

MOST_LINES = 1_000
CONTEXT = 3
"""Equal lines that are shown before and behind a difference."""


class Side(NamedTuple):
    """A line of one text; lines count from 1."""

    number: int
    text: str


class Line(NamedTuple):
    """A line of a comparison: of both texts if it is equal, or has the place of the other one's.

    Attributes:
        left, right: ``None`` if this text has no such line.
        left_out: how many equal lines are left out here; then it has no sides.
    """

    left: Side | None
    right: Side | None
    is_equal: bool = False
    left_out: int = 0


class Comparison(NamedTuple):
    """Two texts beside each other; ``differing`` counts the lines that are not equal."""

    lines: list[Line]
    differing: int
    is_whole: bool


def compare(left: str, right: str) -> Comparison:
    a, b = left.split("\n"), right.split("\n")
    is_whole = max(len(a), len(b)) <= MOST_LINES
    a, b = a[:MOST_LINES], b[:MOST_LINES]
    lines: list[Line] = []
    differing = 0
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b).get_opcodes():
        sides = _beside(a, a1, a2), _beside(b, b1, b2)
        if tag == "equal":
            lines += _shortened(
                [Line(*pair, is_equal=True) for pair in zip(*sides, strict=True)], a2 == len(a)
            )
            continue
        count = max(len(one) for one in sides)
        differing += count
        padded = [[*one, *[None] * (count - len(one))] for one in sides]
        lines += [Line(*pair) for pair in zip(*padded, strict=True)]
    return Comparison(lines, differing, is_whole)


def _beside(texts: Sequence[str], start: int, end: int) -> list[Side | None]:
    return [Side(place + 1, texts[place]) for place in range(start, end)]


def _shortened(equal: list[Line], is_last: bool) -> list[Line]:
    """Return equal lines without those that are far from every difference."""
    is_first = equal[0].left is not None and equal[0].left.number == 1
    before, behind = 0 if is_first else CONTEXT, 0 if is_last else CONTEXT
    left_out = len(equal) - before - behind
    if left_out <= CONTEXT:
        return equal
    return [*equal[:before], Line(None, None, left_out=left_out), *equal[len(equal) - behind :]]
