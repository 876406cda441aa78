"""Rates with a unit, as people write them: ``20/s``, ``100/m``, ``1000/h``. No I/O."""

from __future__ import annotations

import re

import msgspec

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MOST = 999_999
"""The highest count of a rate."""
RATE_PATTERN = r"^[1-9][0-9]{0,5} ?/ ?[sSmMhH]$"
"""The form for JSON Schema."""
RATE_FORM = "a rate such as 20/s, 100/m or 1000/h"
_FORM = re.compile(r"([1-9]\d{0,5}) ?/ ?([smh])", re.IGNORECASE | re.ASCII)
BURST_PART = 10
"""After a rest, a tenth of the count may come at once; at least one."""


class Rate(msgspec.Struct, frozen=True):
    """Attempts in a second, a minute or an hour; ``str`` writes ``20/s``.

    Attributes:
        count: from 1 to :data:`MOST`.
        unit: ``s``, ``m`` or ``h``.
    """

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"

    @property
    def interval(self) -> float:
        """Seconds between two attempts at a steady pace."""
        return _SECONDS[self.unit] / self.count

    @property
    def burst(self) -> int:
        """How many attempts may come at once after a rest."""
        return max(1, self.count // BURST_PART)


def parse_rate(value: object) -> Rate:
    """Parse ``"20/s"``.

    Raises:
        ValueError: the message says what is expected.
    """
    match = _FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        shown = f"{value[:24]}…" if isinstance(value, str) and len(value) > 24 else value
        raise ValueError(f"expected {RATE_FORM}, with a count from 1 to {MOST:,}, got {shown!r}")
    return Rate(int(match[1]), match[2].lower())
