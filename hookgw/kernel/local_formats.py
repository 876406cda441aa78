"""How languages write numbers and moments, for readers whose browser does not (``formats.js``)."""

from __future__ import annotations

import datetime
from typing import NamedTuple


class Format(NamedTuple):
    """What a language does.

    Attributes:
        group: between thousands.
        decimal: between whole and fraction.
        grouped_from: the lowest number with groups.
        day: for ``strftime``.
    """

    group: str
    decimal: str
    grouped_from: int
    day: str


FORMATS = {
    "en": Format(",", ".", 1_000, "%Y-%m-%d"),
    "pt_BR": Format(".", ",", 1_000, "%d/%m/%Y"),
    "es": Format(".", ",", 10_000, "%d/%m/%Y"),
}
_SWAP = "\0"


def number_text(value: float, language: str) -> str:
    """Return a number with its fraction as it is; rounding is its caller's."""
    text = f"{value:,}" if abs(value) >= FORMATS[language].grouped_from else f"{value}"
    return swap_signs(text, language)


def swap_signs(text: str, language: str) -> str:
    """Return a number as a language writes it, of one with the groups and the decimal sign of English."""
    how = FORMATS[language]
    return text.replace(",", _SWAP).replace(".", how.decimal).replace(_SWAP, how.group)


def decimal_text(text: str, language: str) -> str:
    """Return a number that is formatted already, without groups, with the decimal sign of a language."""
    return text.replace(".", FORMATS[language].decimal)


def moment_text(moment: datetime.datetime, language: str) -> str:
    """Return a day and a time of day."""
    return moment.strftime(f"{FORMATS[language].day} %H:%M:%S")
