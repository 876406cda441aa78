"""Writes times, numbers, durations and sizes on pages.

Each is written for a reader without JavaScript. The module ``formats.js`` then rewrites times and numbers for
the reader's locale and time zone; the exact UTC time stays in the title.
"""

from __future__ import annotations

import datetime

from markupsafe import Markup
from quart import Blueprint

from hookgw.kernel.times import parse_rfc3339, rfc3339

_STEPS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def install_filters(blueprint: Blueprint) -> None:
    """Add the filters of this module to all templates, under their names."""
    for name, function in (
        ("time", time_element),
        ("moment", moment_element),
        ("utc", rfc3339),
        ("number", number_element),
        ("duration", duration_text),
        ("size", size_text),
    ):
        blueprint.add_app_template_filter(function, name)


def time_element(seconds: float | None, style: str = "full") -> Markup | str:
    """Return a ``<time>`` element; 0 and ``None`` mean no time.

    The style is ``full``, ``time`` for the time of the day alone, if it is today, or ``ago`` for the time
    since.
    """
    if not seconds:
        return "–"
    utc = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    exact = utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    is_today = utc.date() == datetime.datetime.now(datetime.UTC).date()
    text = utc.strftime("%H:%M:%S UTC") if style == "time" and is_today else exact
    return Markup('<time datetime="{}" title="{}" data-style="{}">{}</time>').format(
        rfc3339(seconds), exact, style, text
    )


def moment_element(text: str) -> Markup | str:
    """Return the ``<time>`` element of a time in RFC 3339."""
    return time_element(parse_rfc3339(text))


def number_element(value: float) -> Markup:
    return Markup('<data value="{}">{:,}</data>').format(value, value)


def duration_text(seconds: float | None) -> str:
    """Return a duration as people say it, with at most two units."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    for index, (length, unit) in enumerate(_STEPS):
        if seconds >= length:
            whole, rest = divmod(seconds, length)
            smaller, smaller_unit = (_STEPS[index + 1]) if index + 1 < len(_STEPS) else (1.0, "s")
            part = int(rest // smaller)
            return f"{int(whole)} {unit}" + (f" {part} {smaller_unit}" if part else "")
    raise AssertionError("unreachable")


def size_text(count: float) -> str:
    """Return a number of bytes as people say it: at most one decimal, and the unit that fits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.1f}".removesuffix(".0") + f" {unit}"
        count /= 1024
    raise AssertionError("unreachable")
