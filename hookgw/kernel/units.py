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
DAY = 86400

# No sign: a negative duration or size is always a mistake. No exponent: nobody writes 1e3s.
_FORM = re.compile(r"(\d+(?:\.\d+)?) ?([a-z]+)", re.IGNORECASE | re.ASCII)
# The same form for JSON Schema, which has no flag for upper and lower case. "0" alone is valid too.
DURATION_PATTERN = r"^\d+(\.\d+)? ?([mM][sS]|[sSmMhHdDwW])$"
# A float has up to 309 digits before the point; remainder() raises for more digits than the precision.
_EXACT = Context(prec=320)
# Characters. Decimal takes quadratic time for long numbers, and no sensible one is longer.
_MAX_LENGTH = 24

DURATION_FORM = "a duration such as 200ms, 5s, 10m, 1h or 3d"
SIZE_FORM = "a size such as 512B, 64KiB or 1MiB"


class Duration(float):
    """A duration in seconds; ``str`` shows it with a unit."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the shortest exact spelling; :func:`parse_duration` reads it back."""
        if not self:
            return "0s"
        # repr: Decimal(0.1) would be the 55 digits of the binary fraction.
        exact = Decimal(repr(float(self)))
        for unit in ("w", "d", "h", "m", "s"):
            if _EXACT.remainder(exact, _SECONDS[unit]) == 0:
                return f"{_EXACT.divide(exact, _SECONDS[unit]):.0f}{unit}"
        return f"{_EXACT.divide(exact, _SECONDS['ms']).normalize(_EXACT):f}ms"


def at_a_glance(seconds: float) -> str:
    """Return a duration as people read it at a glance: 2m, not 121.3s."""
    seconds = max(0.0, seconds)
    for unit in (DAY, 3600, 60):
        if seconds >= 2 * unit:
            return str(Duration(int(seconds / unit) * unit))
    return str(Duration(round(seconds)))


class Size(int):
    """A number of bytes; ``str`` shows it with a unit."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the shortest exact spelling; :func:`parse_size` reads it back."""
        for unit in ("GiB", "MiB", "KiB"):
            count, rest = divmod(int(self), int(_BYTES[unit.lower()]))
            if count and not rest:
                return f"{count}{unit}"
        return f"{int(self)}B"


def parse_duration(value: object) -> Duration:
    """Parse ``"5s"``, ``"200ms"`` or ``"1.5h"``. Every number but ``0`` needs a unit.

    Units are ``ms``, ``s``, ``m`` (minutes), ``h``, ``d`` and ``w``, in any case.

    Raises:
        ValueError: the message says what is expected.
    """
    return Duration(_parse(value, _SECONDS, DURATION_FORM))


def parse_size(value: object) -> Size:
    """Parse ``"64KiB"`` or ``"1MiB"``. Every number but ``0`` needs a unit.

    Units are ``B``, ``KiB``, ``MiB``, ``GiB`` (powers of 1024) and ``kB``, ``MB``, ``GB`` (powers of
    1000), in any case. The result must be a whole number of bytes.

    Raises:
        ValueError: the message says what is expected.
    """
    number = _parse(value, _BYTES, SIZE_FORM)
    if number != int(number):
        raise ValueError(f"expected {SIZE_FORM}, a whole number of bytes, got {value!r}")
    return Size(number)


def _parse(value: object, units: dict[str, Decimal], form: str) -> Decimal:
    # A bare number is refused because its unit would be a guess: other tools mean milliseconds, or minutes.
    # False == 0, and a switch is not a duration.
    if value == "0" or (value == 0 and not isinstance(value, bool)):
        return Decimal(0)
    match = _FORM.fullmatch(value) if isinstance(value, str) and len(value) <= _MAX_LENGTH else None
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        shown = f"{value[:_MAX_LENGTH]}…" if isinstance(value, str) and len(value) > _MAX_LENGTH else value
        raise ValueError(f"expected {form}, got {shown!r}")
    return Decimal(match[1]) * unit
