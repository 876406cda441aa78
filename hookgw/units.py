"""Durations and sizes with units, as people write them: ``200ms``, ``5s``, ``64KiB``. No I/O."""

from __future__ import annotations

import math
import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


class Duration(float):
    """A length of time in seconds that is written with a unit."""

    __slots__ = ()

    def __str__(self) -> str:
        for unit in ("w", "d", "h", "m", "s"):
            if self and (self / _SECONDS[unit]).is_integer():
                return f"{int(self / _SECONDS[unit])}{unit}"
        return f"{self * 1000:g}ms" if self else "0s"


class Size(int):
    """A number of bytes that is written with a unit."""

    __slots__ = ()

    def __str__(self) -> str:
        for unit in ("GiB", "MiB", "KiB"):
            if self and self % _BYTES[unit.lower()] == 0:
                return f"{self // _BYTES[unit.lower()]}{unit}"
        return f"{int(self)}B"


def parse_duration(value: object) -> Duration:
    """``"5s"``, ``"200ms"``, ``"1.5h"`` as seconds. ``0`` needs no unit; other numbers do.

    Raises:
        ValueError: a sentence that says what would be right.
    """
    number, unit = _split(value, "a duration such as 200ms, 5s, 10m, 1h or 3d")
    if unit not in _SECONDS:
        raise ValueError(f"expected a duration such as 200ms, 5s, 10m, 1h or 3d, got {value!r}")
    return Duration(number * _SECONDS[unit])


def parse_size(value: object) -> Size:
    """``"64KiB"``, ``"1MiB"`` as bytes. ``0`` needs no unit; other numbers do.

    Raises:
        ValueError: a sentence that says what would be right.
    """
    number, unit = _split(value, "a size such as 512B, 64KiB or 1MiB")
    if unit not in _BYTES:
        raise ValueError(f"expected a size such as 512B, 64KiB or 1MiB, got {value!r}")
    return Size(number * _BYTES[unit])


def _split(value: object, wanted: str) -> tuple[float, str]:
    if not isinstance(value, bool) and value in (0, "0"):
        return 0.0, "s" if "duration" in wanted else "b"
    match = _FORM.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= 32 else None
    if match is None or not math.isfinite(float(match[1])):
        raise ValueError(f"expected {wanted}, got {value!r}")
    return float(match[1]), match[2].lower()
