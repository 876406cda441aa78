"""Times that people enter, in the reader's time zone.

Pages show times in the zone of the browser, which the module ``formats.js`` also puts into a cookie, so that
what is entered means the same as what is shown. Without scripts both are in UTC.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from quart import request

from hookgw.kernel.errors import Invalid
from hookgw.kernel.language import translated
from hookgw.kernel.times import clamp_time, parse_rfc3339
from hookgw.kernel.units import parse_duration

ZONE = "hookgw_zone"
"""The cookie of the reader's zone: its name, and the minutes by which it is ahead of UTC now."""
_COOKIE = re.compile(r"([A-Za-z0-9_+/-]{1,64}) ([+-]?\d{1,4})", re.ASCII)
# In each language of the pages: an address with such a word may be opened in another one.
_NOW = ("now", "agora", "ahora")
_DAYS = {
    **dict.fromkeys(("today", "hoje", "hoy"), 0),
    **dict.fromkeys(("yesterday", "ontem", "ayer"), -1),
    **dict.fromkeys(("tomorrow", "amanhã", "mañana"), 1),
}
_LOCAL = re.compile(
    rf"(?:(?P<day>{'|'.join(_DAYS)}|\d{{4}}-\d\d-\d\d)(?:[t ]|$))?(?P<time>\d?\d:\d\d(?::\d\d)?)?",
    re.ASCII,
)
EXAMPLES = "2h for two hours ago, today 14:00, or 2026-11-20 14:00"
EXAMPLES_AHEAD = "2h for in two hours, tomorrow 9:00, or 2026-11-20 14:00"


def reader_zone() -> datetime.tzinfo:
    """Return the time zone of the current request's browser; UTC if it has not said."""
    return zone_of(unquote(request.cookies.get(ZONE, "")))


def zone_of(cookie: str) -> datetime.tzinfo:
    found = _COOKIE.fullmatch(cookie)
    if found is None:
        return datetime.UTC
    try:
        return ZoneInfo(found[1])
    except (ValueError, KeyError, OSError):  # this machine has no such zone, or no zones at all
        minutes = max(-1_439, min(int(found[2]), 1_439))
        return datetime.timezone(datetime.timedelta(minutes=minutes))


def parse_moment(
    text: str, where: str, now: float, zone: datetime.tzinfo, *, is_ahead: bool = False
) -> float | None:
    """Return the time that a person has entered, in seconds since the epoch; ``None`` for an empty text.

    A duration counts back from ``now``, or on if the time ``is_ahead``. A day and a time of day are in
    ``zone``, unless an offset follows them; without a day, it is today, and without a time, its begin.
    """
    text = text.strip()
    if not text:
        return None
    word = unicodedata.normalize("NFC", text).casefold()
    if word in _NOW:
        return now
    try:
        duration = parse_duration(word)
        return clamp_time(now + duration if is_ahead else now - duration)
    except ValueError:
        pass
    try:
        found = _LOCAL.fullmatch(word)
        if found is None:
            return clamp_time(parse_rfc3339(text))
        today = datetime.datetime.fromtimestamp(now, zone).date()
        days = 0 if found["day"] is None else _DAYS.get(found["day"])
        date = (
            datetime.date.fromisoformat(found["day"])
            if days is None
            else today + datetime.timedelta(days=days)
        )
        time = datetime.time.fromisoformat((found["time"] or "00:00").rjust(5, "0"))
        return clamp_time(datetime.datetime.combine(date, time, zone).timestamp())
    # OverflowError: an offset can move the first or last day of the calendar out of it.
    except (ValueError, OverflowError):
        examples = EXAMPLES_AHEAD if is_ahead else EXAMPLES
        raise Invalid.of(
            "form.time_form",
            "{where} must be a time such as {examples}, not {text!r}.",
            where=translated(where),
            examples=examples,
            text=text[:64],
        ) from None
