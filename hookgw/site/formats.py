"""Writes times, numbers, durations and sizes on pages.

Each is written for a reader without JavaScript. The module ``formats.js`` then rewrites times and numbers for
the reader's locale and time zone; the exact UTC time stays in the title.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from markupsafe import Markup

from hookgw.kernel.language import current_language, ngettext
from hookgw.kernel.local_formats import decimal_text, moment_text, number_text
from hookgw.kernel.times import parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from quart import Blueprint  # loaded after the server listens; pages of plugins are loaded before

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
    exact = f"{moment_text(utc, current_language())} UTC"
    now = datetime.datetime.now(datetime.UTC)
    text = exact
    if style == "time" and utc.date() == now.date():
        text = utc.strftime("%H:%M:%S UTC")
    elif style == "ago" and seconds < now.timestamp():
        text = ago_text(now.timestamp() - seconds)
    return Markup('<time datetime="{}" title="{}" data-style="{}">{}</time>').format(
        rfc3339(seconds), exact, style, text
    )


def moment_element(text: str) -> Markup | str:
    """Return the ``<time>`` element of a time in RFC 3339."""
    return time_element(parse_rfc3339(text))


def number_element(value: float) -> Markup:
    return Markup('<data value="{}">{}</data>').format(value, number_text(value, current_language()))


def ago_text(seconds: float) -> str:
    """Return how long something is ago."""
    if seconds >= 86_400:
        return ngettext("{n} day ago", "{n} days ago", int(seconds // 86_400))
    if seconds >= 3_600:
        return ngettext("{n} hour ago", "{n} hours ago", int(seconds // 3_600))
    if seconds >= 60:
        return ngettext("{n} minute ago", "{n} minutes ago", int(seconds // 60))
    return ngettext("{n} second ago", "{n} seconds ago", int(seconds))


def duration_text(seconds: float | None) -> str:
    """Return a duration as people say it, with at most two units."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return decimal_text(f"{seconds:.1f}".removesuffix(".0"), current_language()) + " s"
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
            return decimal_text(f"{count:.1f}".removesuffix(".0"), current_language()) + f" {unit}"
        count /= 1024
    raise AssertionError("unreachable")
