"""Durations and sizes with units, as people write them: ``200ms``, ``5s``, ``64KiB``. No I/O."""

from __future__ import annotations

import re
from decimal import Context, Decimal

_SECONDS = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
    "w": Decimal(604800),
}
_BYTES = {
    "b": Decimal(1),
    "kib": Decimal(2**10),
    "mib": Decimal(2**20),
    "gib": Decimal(2**30),
    "kb": Decimal(10**3),
    "mb": Decimal(10**6),
    "gb": Decimal(10**9),
}
_FORM = re.compile(r"(\d+(?:\.\d+)?) ?([a-z]+)", re.IGNORECASE | re.ASCII)
DURATION_PATTERN = r"^\d+(\.\d+)? ?([mM][sS]|[sSmMhHdDwW])$"
"""What is read as a duration, for JSON Schema; ``0`` alone is read too."""
_EXACTLY = Context(prec=320)
"""Digits for any float; with the usual 28 a remainder of more cannot be had."""
_LONGEST = 24
"""Characters of the longest text that is read: enough for any number that makes sense."""

DURATION_FORM = "a duration such as 200ms, 5s, 10m, 1h or 3d"
SIZE_FORM = "a size such as 512B, 64KiB or 1MiB"


class Duration(float):
    """A length of time in seconds that is written with a unit."""

    __slots__ = ()

    def __str__(self) -> str:
        """The shortest exact spelling; :func:`parse_duration` reads it back."""
        if not self:
            return "0s"
        exact = Decimal(repr(float(self)))
        for unit in ("w", "d", "h", "m", "s"):
            if _EXACTLY.remainder(exact, _SECONDS[unit]) == 0:
                return f"{_EXACTLY.divide(exact, _SECONDS[unit]):.0f}{unit}"
        return f"{_EXACTLY.divide(exact, _SECONDS['ms']).normalize(_EXACTLY):f}ms"


class Size(int):
    """A number of bytes that is written with a unit."""

    __slots__ = ()

    def __str__(self) -> str:
        """The shortest exact spelling; :func:`parse_size` reads it back."""
        for unit in ("GiB", "MiB", "KiB"):
            count, rest = divmod(int(self), int(_BYTES[unit.lower()]))
            if count and not rest:
                return f"{count}{unit}"
        return f"{int(self)}B"


def parse_duration(value: object) -> Duration:
    """``"5s"``, ``"200ms"``, ``"1.5h"`` as seconds. ``0`` needs no unit; other numbers do.

    Units are ``ms``, ``s``, ``m`` (minutes), ``h``, ``d`` and ``w``, in any case.

    Raises:
        ValueError: a sentence that says what would be right.
    """
    return Duration(_parse(value, _SECONDS, DURATION_FORM))


def parse_size(value: object) -> Size:
    """``"64KiB"``, ``"1MiB"`` as bytes. ``0`` needs no unit; other numbers do.

    Units are ``B``, ``KiB``, ``MiB``, ``GiB`` (powers of 1024) and ``kB``, ``MB``, ``GB`` (powers of
    1000), in any case. There are no parts of a byte.

    Raises:
        ValueError: a sentence that says what would be right.
    """
    number = _parse(value, _BYTES, SIZE_FORM)
    if number != int(number):
        raise ValueError(f"expected {SIZE_FORM}, a whole number of bytes, got {value!r}")
    return Size(number)


def _parse(value: object, units: dict[str, Decimal], form: str) -> Decimal:
    if value == "0" or (value == 0 and not isinstance(value, bool)):
        return Decimal(0)
    match = _FORM.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        shown = f"{value[:_LONGEST]}…" if isinstance(value, str) and len(value) > _LONGEST else value
        raise ValueError(f"expected {form}, got {shown!r}")
    return Decimal(match[1]) * unit


DAY = 86400
